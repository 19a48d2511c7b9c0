r"""From the public text of a rollout to its answer."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.game import DIALECTS, dialect
from agon.game.answers import answer_section, final_answer, last_box, program
from agon.game.markup import fences
from agon.game.verdict import Verdict
from tests.game.hostile import messy

NESTED = '''def f(x):
    """Add one.

    ```
    f(1)
    ```
    """
    return x + 1
'''


@pytest.mark.parametrize(
    ("section", "answer"),
    [
        ("42", "42"),
        (" 42 \n", "42"),
        (r"\boxed{42}", "42"),
        (r"First \boxed{42}, again \boxed{ 42 }.", "42"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{42} \boxed{42.}", "42."),  # the same by the comparison below; the last one counts
    ],
)
def test_the_last_box_or_the_whole_section_is_the_answer(section: str, answer: str) -> None:
    assert final_answer(section, lambda one, other: one.strip(".") == other.strip(".")) == answer


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ("", "no-answer"),
        (" \n", "no-answer"),
        (r"\boxed{}", "no-answer"),
        (r"\boxed{42", "no-answer"),
        (r"\boxed{42} \boxed{41", "no-answer"),
        (r"\boxed{41} \boxed{42}", "wrong"),
        (r"\boxed{42} \boxed{41} \boxed{42}", "wrong"),
        (" ".join(rf"\boxed{{{number}}}" for number in range(1000)), "wrong"),
    ],
)
def test_an_empty_section_or_a_hedge_has_no_answer(section: str, reason: str) -> None:
    verdict = final_answer(section, str.__eq__)
    assert isinstance(verdict, Verdict)
    assert verdict.reason == reason


def test_many_different_boxes_are_not_compared() -> None:
    def never(one: str, other: str) -> bool:
        raise AssertionError("eleven boxes are a hedge, whatever they hold")

    verdict = final_answer(" ".join(rf"\boxed{{{number}}}" for number in range(11)), never)
    assert isinstance(verdict, Verdict)


@pytest.mark.parametrize(
    ("section", "content"),
    [("42", "42"), (r"\boxed{41} or \boxed{42}", "42"), (r"\boxed{", ""), ("", "")],
)
def test_the_last_box_is_there_whatever_stands_before_it(section: str, content: str) -> None:
    assert last_box(section) == content


def test_the_last_fenced_block_is_the_program() -> None:
    assert program("```python\na\n```\nor\n```\nb\n```") == "b\n"
    assert program("plain") == "plain"


@pytest.mark.parametrize(
    "section",
    [
        f"```python\n{NESTED}```",
        f"Here it is:\n```python\n{NESTED}```\nDone.",
        f"First\n```python\nprint(0)\n```\nbut better\n```python\n{NESTED}```",
        f"````\n{NESTED}````",
        f"```python\n{NESTED}",  # cut off before its end
        NESTED,
    ],
)
def test_a_fenced_block_in_a_docstring_is_part_of_the_program(section: str) -> None:
    assert program(section) == NESTED
    assert program(program(section)) == NESTED


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_a_bare_program_whose_docstring_has_a_block_at_the_margin_is_taken_whole(quotes: str) -> None:
    source = f"{quotes}Prints 1.\n\n```\n1\n```\n{quotes}\nprint(1)\n"
    assert program(source) == source


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        # A single fence that is indented too far is the end of its block all the same.
        ("```python\ndef f():\n    return 1\n    ```\nDone.", ["def f():\n    return 1\n"]),
        (
            "```python\ndef f():\n    return 1\n    ```\nBetter:\n```python\nx\n```",
            ["def f():\n    return 1\n", "x\n"],
        ),
        # In a list the whole block is indented.
        ("1. So:\n    ```python\n    x\n    ```\n2. Done.", ["    x\n"]),
        ("- So:\n\t```\n\tx\n\t```\n- Or:\n\t```\n\ty\n\t```", ["\tx\n", "\ty\n"]),
    ],
)
def test_other_indented_fences_end_their_block(text: str, contents: list[str]) -> None:
    found = list(fences(text))
    assert [fence.content for fence in found] == contents
    assert all(fence.closed for fence in found)


@given(messy, st.sampled_from(sorted(DIALECTS)), st.sampled_from(["math", "code"]))
def test_an_answer_is_part_of_the_text_and_never_empty(text: str, name: str, domain: str) -> None:
    section = answer_section(text, dialect(name), domain)  # type: ignore[arg-type]
    assert section is None or section.strip()
    if section is not None and domain == "code":
        assert section in text


@given(messy)
def test_extracting_never_fails(section: str) -> None:
    assert isinstance(final_answer(section, str.__eq__), (str, Verdict))
    assert last_box(section) in section
    assert program(section) in section


@pytest.mark.parametrize(
    "piece", ["```\n", "    ```\n", "```\n    ```\n    ```\n", "x ```py\n    ```\n", '"""\n```\n']
)
def test_finding_a_program_takes_time_linear_in_the_text(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    began = time.process_time()
    program(text)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "sample",
    [
        "```\n6\n```",
        "```\nYES\nNO\n```",
        "```output\nprint(6)\n```",
        "```text\n6\n```",
        "```\n>>> f(3)\n6\n```",
    ],
)
@pytest.mark.parametrize("mark", ["python", "py", ""])
def test_sample_output_after_a_program_is_not_the_program(mark: str, sample: str) -> None:
    source = "print(2 * int(input()))\n"
    text = f"So:\n```{mark}\n{source}```\nIt prints:\n{sample}\nDone."
    assert program(text) == source
    assert answer_section(text, dialect("boxed"), "code") == source
