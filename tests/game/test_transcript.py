r"""Splitting rollouts: what is private, what is the answer, what a rival may see."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.game import DIALECTS, Transcript, leaks, split
from agon.game.markup import WITHHELD, answer_blocks, boxes
from tests.game.hostile import messy

words = st.text(st.characters(categories=["L", "N", "Zs", "P"], exclude_characters="<>\\`~{}"), max_size=30)
OPENS = {"think": "<think>", "gemma": "<|channel>thought\n"}
CLOSES = {"think": "</think>", "gemma": "<channel|>"}


@given(st.sampled_from(["think", "gemma"]), words, words, words.filter(str.strip))
def test_a_rollout_in_form_is_split_where_it_was_written(
    name: str, think: str, summary: str, answer: str
) -> None:
    text = f"{OPENS[name]}{think}{CLOSES[name]}{summary}<answer>{answer}</answer>"
    seen = split(text, name)
    assert (seen.summary, seen.answer, seen.well_formed) == (summary, answer.strip(), True)
    assert think in seen.think
    assert seen.shown() == summary.strip()


@given(words, words.filter(str.strip))
def test_a_prefilled_block_is_private_from_the_first_token(think: str, answer: str) -> None:
    seen = split(f"{think}</think>Done.<answer>{answer}</answer>", "think", prefilled=True)
    assert (seen.think, seen.shown(), seen.well_formed) == (think, "Done.", True)
    assert split(think, "think", prefilled=True).shown() == ""


@given(words, words.filter(str.strip))
def test_in_the_boxed_dialect_the_solution_is_the_summary_and_the_box_the_answer(
    solution: str, answer: str
) -> None:
    seen = split(rf"{solution} \boxed{{{answer}}}", "boxed")
    assert seen.answer == rf"\boxed{{{answer}}}"
    assert seen.well_formed
    assert seen.shown() == f"{solution} {WITHHELD}".strip()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "think"),
        ("<think>", "think"),
        ("<think>still going", "think"),
        ("<think>a</think>", "think"),
        ("<think>a</think>summary", "think"),
        ("<think>a</think>s<answer>7", "think"),
        ("<think>a</think>s<answer> </answer>", "think"),
        ("<think>a</think>s<answer>7</answer><answer>8</answer>", "think"),
        ("<think>a</think>s</answer>7<answer>", "think"),
        ("<|channel>thought\nstill going", "gemma"),
        ("", "boxed"),
        ("no box", "boxed"),
        (r"\boxed{7", "boxed"),
        (r"\boxed", "boxed"),
    ],
)
def test_a_truncated_empty_or_hedging_rollout_has_no_answer_and_no_form(text: str, name: str) -> None:
    seen = split(text, name)
    assert seen.answer is None
    assert not seen.well_formed


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("s<answer>7</answer>", "7"),  # no reasoning block
        ("x<think>a</think>s<answer>7</answer>", "7"),  # text before it
        ("<think>a</think><think>b</think>s<answer>7</answer>", "7"),  # doubled
        ("<think><think>a</think></think>s<answer>7</answer>", "7"),  # nested
        ("<think><think>a</think>s<answer>7</answer>", "7"),  # opened twice
        ("<think>a</think></think>s<answer>7</answer>", "7"),  # closed twice
        ("<think>a</think>s<answer>7</answer> so there", "7"),  # text after the answer
        ("<think>a</think>s<answer>7</answer><answer>7</answer>", "7"),  # given twice, the same
        ("<think><answer>6</answer></think>s<answer>7</answer>", "7"),  # an answer in the reasoning
        ("<think>a</think>s<answer>6<answer>7</answer>", "7"),  # nested answer tags
    ],
)
def test_a_rollout_out_of_form_still_has_its_answer(text: str, answer: str) -> None:
    seen = split(text, "think")
    assert seen.answer == answer
    assert not seen.well_formed


def test_reasoning_opened_again_after_the_summary_is_private_too() -> None:
    seen = split("<think>a</think>public<think>secret", "think")
    assert seen.summary == "public"
    assert "secret" in seen.think


def test_two_boxes_are_both_the_answer_and_left_to_the_judge() -> None:
    assert split(r"\boxed{1} or \boxed{2}", "boxed").answer == r"\boxed{1} \boxed{2}"


def test_the_program_is_the_last_fenced_block_and_never_shown() -> None:
    text = "Try\n```python\nprint(0)\n```\nbut better\n```python\nprint(12345)\n```\nDone."
    seen = split(text, "boxed", "code")
    assert seen.answer == "print(12345)\n"
    assert seen.well_formed
    assert seen.shown() == f"Try\n```python\nprint(0)\n```\nbut better\n{WITHHELD}\nDone."


@pytest.mark.parametrize(
    "summary",
    [
        "As follows:\n```python\nx = 41\nprint(x + 1)\n```",
        "As follows: ```python\nx = 41\nprint(x + 1)\n```",
        "As follows:\n```\nx=41\nprint( x+1 )\n```",  # other spacing
        "As follows:\n```\nx = 41\nprint(x + 1)",  # never closed
        "As follows:\n```\nimport sys\nx = 41\nprint(x + 1)\n```",  # a bit more
        "As follows:\n```\nprint(x + 1)\n```",  # most of it
        "As follows:\n```\n# \\boxed{\nx = 41\nprint(x + 1)\n```\n}",  # a box across its end
    ],
)
def test_a_summary_that_repeats_the_program_is_shown_without_it(summary: str) -> None:
    program = "<answer>```python\nx = 41\nprint(x + 1)\n```</answer>"
    seen = split(f"<think>t</think>{summary}{program}", "think", "code")
    assert seen.answer == "x = 41\nprint(x + 1)\n"
    assert "print" not in seen.shown()
    assert seen.shown().startswith("As follows:")


def test_a_draft_cut_off_before_its_program_does_not_show_its_last_block() -> None:
    seen = split("<think>t</think>Idea:\n```python\nprint(7)\n```\nso", "think", "code")
    assert seen.answer is None
    assert "print" not in seen.shown()


@given(messy, st.sampled_from(sorted(DIALECTS)), st.sampled_from(["math", "code"]), st.booleans())
def test_nothing_withheld_is_shown_whatever_was_written(
    text: str, name: str, domain: str, prefilled: bool
) -> None:
    seen = split(text, name, domain, prefilled)  # type: ignore[arg-type]
    shown = seen.shown()
    assert list(answer_blocks(shown)) == []
    assert list(boxes(shown)) == []
    assert not DIALECTS[name].private or DIALECTS[name].opens not in shown
    assert not seen.well_formed or seen.answer is not None


@given(messy, st.sampled_from(sorted(DIALECTS)), st.integers(0, 50))
def test_a_limit_keeps_the_beginning_of_what_is_shown(text: str, name: str, limit: int) -> None:
    seen = split(text, name)
    whole, short = seen.shown(), seen.shown(limit)
    assert short == whole if len(whole) <= limit else whole.startswith(short.removesuffix(" […]"))
    assert len(short) <= limit + len(" […]")


@pytest.mark.parametrize(
    ("shown", "gold", "leak"),
    [
        ("hence x = 1,024 at last", "1024", True),
        ("x = 10240", "1024", False),
        ("x = 3.14", "14", False),
        ("x = 14.5", "14", False),
        ("it is 14.", "14", True),
        (r"so 2\,x", "2x", True),
        (r"\dfrac{1}{2}", r"\frac{1}{2}", True),
        (r"\left( 1, 2 \right)", "(1,2)", True),
        (r"\text{Yes}", "yes", True),
        ("$ 1{,}024 $", "1024", True),
        ("eyes", "yes", False),
        (WITHHELD, "7", False),
        ("anything", "", False),
        ("", "7", False),
    ],
)
def test_a_leak_is_the_gold_standing_on_its_own(shown: str, gold: str, leak: bool) -> None:
    assert leaks(shown, gold) == leak


@given(messy, messy)
def test_looking_for_a_leak_never_fails(shown: str, gold: str) -> None:
    assert leaks(shown, gold) in (True, False)


@given(st.integers(0, 10**6), words)
def test_a_number_written_out_is_always_a_leak(gold: int, prose: str) -> None:
    assert leaks(f"{prose} = {gold} ", str(gold))


def test_a_transcript_without_an_answer_still_shows_its_summary() -> None:
    assert Transcript("", "Only prose.", None, False).shown() == "Only prose."


@pytest.mark.parametrize("piece", ["```\nx\n```\n", "```\n", "\\boxed{", "<think>", "</think>", "<answer>"])
@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_splitting_takes_time_linear_in_the_text(piece: str, name: str) -> None:
    text = piece * (100_000 // len(piece))
    began = time.process_time()
    split(text, name, "code").shown()
    assert time.process_time() - began < 5


SOLUTION = r"""Let us see what she has left.

1. **Eggs**: 16 - 3 - 4 = 9 eggs a day.
2. She sells them for 9 * 2 = $18 every day.

So she makes \boxed{18} dollars."""


def test_of_a_boxed_solution_a_rival_sees_the_computations() -> None:
    assert split(SOLUTION, "boxed").shown() == (
        "1. **Eggs**: 16 - 3 - 4 = 9 eggs a day.\n2. She sells them for 9 * 2 = $18 every day."
    )


def test_a_line_ends_where_it_was_ended_and_nowhere_else() -> None:
    # "\f" is what a careless decoder makes of the beginning of \\frac; the line must stay whole.
    for inside in ("\f", "\x0b", "\x85", "\u2028"):
        line = f"x = 1 +{inside}rac12 < 2"
        assert split(f"{line}\nso \\boxed{{3}}", "boxed").shown() == line


def test_a_solution_that_computes_nothing_is_shown_whole() -> None:
    assert split("It is north of here.\nSo \\boxed{N}.", "boxed").shown() == (
        "It is north of here.\nSo [withheld]."
    )


def test_a_box_over_several_lines_is_withheld_whole() -> None:
    shown = split("a = 1\nx = \\boxed{\n\\frac{1}{2}\n}\nb = 2", "boxed").shown()
    assert shown == "a = 1\nx = [withheld]\nb = 2"


def test_of_a_program_the_explanation_is_shown_whole() -> None:
    text = "Read n.\nPrint it.\n```python\nn = input()\nprint(n)\n```"
    assert split(text, "boxed", "code").shown().startswith("Read n.\nPrint it.")
