"""Examples of a dialect: private reasoning, a summary without the answer, the answer."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.game import Problem, dialect, leaks, split
from agon.warm.examples import (
    Solution,
    accepted,
    answer_of,
    build,
    completion,
    plain_lines,
    reasoning,
    summary_prompt,
)

THINK = dialect("think")
GAMES = Problem("1", "Ann has 3 bags of 4 apples and eats 5. How many are left?", "gsm8k", "7")
TEXT = "There are 3 * 4 = 12 apples.\nShe eats 5 of them.\nSo 12 - 5 = 7 are left: \\boxed{7}."


def solution(text: str = TEXT, number: int = 0, correct: bool = True, problem: Problem = GAMES) -> Solution:
    return Solution(problem, number, text, correct, usable=True)


def test_reasoning_is_the_solution_with_its_boxes_opened() -> None:
    assert reasoning(solution(), THINK) == TEXT.replace("\\boxed{7}", "7")
    assert "<think>" not in reasoning(solution("<think>a</think> \\boxed{7}"), THINK)


def test_the_answer_is_what_the_last_box_holds_or_the_program() -> None:
    assert answer_of(solution(), "boxed") == "7"
    code = Problem("c", "Print 1.", "code", domain="code")
    written = "Just print it.\n```python\nprint(1)\n```"
    assert answer_of(solution(written, problem=code), "boxed") == "```python\nprint(1)\n```"


@pytest.mark.parametrize(
    ("summary", "fine"),
    [
        ("Count the apples in the bags, then take away what she ate.", True),
        ("", False),
        ("The answer is 7.", False),
        ("It is \\boxed{8}.", False),
        ("Count them. <answer>7", False),
        ("x" * 2000, False),
    ],
)
def test_a_summary_is_accepted_if_it_says_something_and_not_the_answer(summary: str, fine: bool) -> None:
    assert accepted(summary, solution(), "7") == fine


def test_lines_with_the_answer_are_left_out_of_what_stands_for_a_summary() -> None:
    assert plain_lines(solution(), "7") == "There are 3 * 4 = 12 apples."
    without = solution("There are twelve apples.\nShe eats 5 of them.\n\\boxed{7}")
    assert plain_lines(without, "7") == "There are twelve apples.\nShe eats 5 of them."


def test_only_as_many_lines_stand_for_a_summary_as_are_short_together() -> None:
    lines = [f"{'a' * 90} {number} = {number}" for number in (11, 12, 13)]
    assert plain_lines(solution("\n".join([*lines, "\\boxed{7}"])), "7") == "\n".join(lines[:2])
    long = "b" * 300 + " = 1"
    assert plain_lines(solution(f"{long}\n\\boxed{{7}}"), "7") == long


def test_a_solution_that_leaves_no_room_for_a_summary_is_not_taught() -> None:
    long = Solution(GAMES, 0, TEXT, correct=True, usable=True, short=False)
    examples, counts = build([long, solution(number=1)], {}, "boxed", "think", False, per_problem=2)
    assert (counts["lines"], counts["challenges"]) == (1, 0)
    assert [each.shown for each in examples] == [None]


def test_a_completion_speaks_the_dialect_and_shows_no_answer() -> None:
    text = completion(solution(), "Count, then take away.", "7", THINK, prefilled=False)
    assert text is not None
    found = split(text, "think")
    assert found.well_formed
    assert found.answer == "7"
    assert found.think.strip() == reasoning(solution(), THINK)
    assert found.shown() == "Count, then take away."


def test_a_template_that_opens_the_block_itself_gets_the_rest() -> None:
    text = completion(solution(), "Count.", "7", THINK, prefilled=True)
    assert text is not None
    assert split(text, "think", prefilled=True).well_formed


def test_a_summary_that_tells_the_answer_gives_no_completion() -> None:
    assert completion(solution(), "It is 7.", "7", THINK, prefilled=False) is None


def test_the_base_is_asked_for_a_summary_without_the_answer() -> None:
    (message,) = summary_prompt(solution(), THINK)
    assert "Do not give the final answer" in message["content"]
    assert GAMES.prompt in message["content"]


def test_right_solutions_become_drafts_and_those_written_after_reading_challenges() -> None:
    wrong = solution("There are 3 + 4 = 8 apples.\nSo 8: \\boxed{8}.", 1, correct=False)
    again = replace(solution(f"As they say.\n{TEXT}"), shown="There are 3 + 4 = 8 apples.")
    told = replace(solution(number=1), shown="So there are 7.")
    nothing = replace(solution(number=2), shown=" ")
    found = [solution(), again, wrong, told, nothing, solution(number=2)]
    examples, counts = build(found, {"1/0": "Count, then take away."}, "boxed", "think", False, 1)
    assert [each.shown for each in examples] == [None, again.shown]
    assert "As they say." in examples[1].completion
    assert "As they say." not in examples[0].completion
    assert counts == {"own_words": 1, "lines": 1, "unusable": 0, "challenges": 1}


def test_a_wrong_solution_is_never_taught() -> None:
    examples, _ = build(
        [solution(correct=False), solution(number=1, correct=False)], {}, "boxed", "think", False, 2
    )
    assert examples == []


texts = st.text(alphabet=st.sampled_from("ab7 =\n\\boxed{}<>/think`*."), max_size=80)


@given(texts, texts)
def test_whatever_was_sampled_an_example_is_well_formed_and_tells_nothing(body: str, summary: str) -> None:
    sampled = solution(f"{body}\n\\boxed{{7}}")
    other = replace(solution(f"{summary}\n\\boxed{{7}}"), shown=body)
    examples, _ = build([sampled, other], {"1/0": summary, "1/0/after": body}, "boxed", "think", False, 2)
    for each in examples:
        found = split(each.completion, "think")
        assert found.well_formed
        assert found.answer == "7"
        assert not leaks(found.shown(), "7")
        assert each.shown is None or not leaks(each.shown, "7")
