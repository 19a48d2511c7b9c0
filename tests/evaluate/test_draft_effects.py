"""What finals do with the drafts they read, and which answers count as the same one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.arena import Arena
from agon.engines.protocol import Sampling
from agon.evaluate.arms import arms_for
from agon.evaluate.draft_effects import Exchange, draft_effects, exchanges, same_answers
from agon.evaluate.split_evaluation import SplitEvaluation
from agon.game.transcript import split
from agon.judges.pool import JudgePool
from agon.runs.lean import answer_only
from agon.runs.samples import Attempt
from tests.evaluate.tiny import zero_or_one
from tests.game.hostile import messy


@pytest.fixture(scope="module")
def pool() -> Iterator[JudgePool]:
    with JudgePool("math", workers=1) as made:
        yield made


def attempt(answer: str | None, correct: bool = False) -> Attempt:
    text = "I cannot say." if answer is None else rf"Adding up gives \boxed{{{answer}}}."
    reason = "no-answer" if answer is None else "correct" if correct else "wrong"
    return Attempt("A", text, 9, 9, False, answer is not None, correct, reason)


def exchange(draft: Attempt, final: Attempt, alone: Attempt | None = None) -> Exchange:
    return Exchange("A->B", "p", 0, draft, final, alone)


def test_wrong_answers_are_the_same_where_the_math_judge_says_so(pool: JudgePool) -> None:
    pairs = [
        (attempt(r"\frac{1}{2}"), attempt("0.5")),
        (attempt("1,024"), attempt("1024")),
        (attempt("41"), attempt("43")),
        (attempt(None), attempt(None)),
        (attempt("41"), attempt(None)),
        # What the task's own judge called right or wrong stands, however alike it looks.
        (attempt("42", correct=True), attempt("42.0", correct=True)),
        (attempt("42", correct=True), attempt("42")),
    ]
    assert same_answers(pairs, "boxed", pool) == [True, True, False, False, False, True, False]


def test_what_was_cut_short_in_its_reasoning_repeats_nothing(pool: JudgePool) -> None:
    cut_short = replace(attempt(None), text="maybe <answer>7</answer>, or", reason="truncated")
    wrong = replace(cut_short, text="<think>x</think>So.<answer>7</answer>", reason="wrong")
    assert same_answers([(wrong, cut_short), (cut_short, wrong), (wrong, wrong)], "think", pool) == [
        False,
        False,
        True,
    ]


def test_every_kind_of_exchange_is_counted_once(pool: JudgePool) -> None:
    right, wrong = attempt("42", correct=True), attempt("41")
    counts = draft_effects(
        [
            exchange(right, right, right),
            exchange(right, right, wrong),
            exchange(right, wrong, right),
            exchange(wrong, right, attempt("41.0")),
            exchange(wrong, attempt("41.0"), attempt("7")),
            exchange(wrong, attempt("7"), attempt("7")),
            exchange(attempt(None), attempt("7"), attempt("7")),
        ],
        "boxed",
        pool,
    )
    cells = (counts.both_right, counts.corrupted, counts.converted, counts.both_wrong)
    assert cells == (2, 1, 1, 3)
    assert (counts.repeated, counts.answered_wrong) == (1, 3)
    assert counts.copied_right == pytest.approx(2 / 3)
    assert counts.copied_wrong == pytest.approx(1 / 3)
    assert counts.alone_after_right == pytest.approx(2 / 3)
    assert counts.alone_after_wrong == pytest.approx(1 / 3)


def test_a_share_of_nothing_is_none(pool: JudgePool) -> None:
    counts = draft_effects([exchange(attempt(None), attempt("7"))], "boxed", pool)
    assert (counts.copied_right, counts.copied_wrong) == (None, None)
    assert (counts.alone_after_right, counts.alone_after_wrong) == (None, None)


@given(text=messy, name=st.sampled_from(["boxed", "think", "gemma"]))
def test_an_answer_that_is_kept_alone_is_read_as_before(text: str, name: str) -> None:
    answer = split(text, name).answer
    whole = Attempt("A", text, 9, 9, False, True, False, "no-answer" if answer is None else "wrong")
    kept = replace(whole, text=answer_only(whole, name, "math"))
    assert split(kept.text, name).answer == answer
    assert answer_only(kept, name, "math") == kept.text
    assert (kept.text == "") == (answer is None)


def test_of_a_program_nothing_is_kept() -> None:
    program = Attempt("A", "```python\nprint(7)\n```", 9, 9, False, True, False, "wrong")
    assert answer_only(program, "boxed", "code") == ""


def test_what_stands_in_unfinished_reasoning_is_no_answer() -> None:
    """A template may open the private block in the prompt, so that a text alone does not show that it is in one."""
    cut_short = Attempt("A", "maybe <answer>7</answer>, or", 9, 9, True, False, False, "truncated")
    assert answer_only(cut_short, "think", "math") == ""


@pytest.mark.parametrize(
    ("policies", "directions"),
    [
        (("A", "B"), {"A->B": "B->A", "B->A": "A->B"}),
        (("A",), {"A->A": "A again"}),
        ((), {"self-cascade": "moa"}),
    ],
)
def test_exchanges_agree_with_the_figures_of_the_evaluation(
    policies: tuple[str, ...], directions: dict[str, str], arena: Arena, pool: JudgePool, tmp_path: Path
) -> None:
    problems = zero_or_one(24)
    arms = arms_for(policies, controls=not policies)
    versions = {"A": 0, "B": 0, "base": 0}
    evaluation = SplitEvaluation(problems, arms, 2, Sampling(max_tokens=3), versions, seed=4, folder=tmp_path)
    played = evaluation.play(arena)
    result = {
        **evaluation.figures(played),
        "policies": list(policies),
        "directions": "both",
        "problems": [problem.id for problem in problems],
        "samples": 2,
    }
    found = exchanges(result, played)
    assert list(found) == list(directions)
    for direction, apart in directions.items():
        counts, figures = draft_effects(found[direction], "think", pool), result["arms"][direction]
        assert counts.both_right / 48 == pytest.approx(figures["both_right"])
        assert counts.corrupted / 48 == pytest.approx(figures["corrupted"])
        assert counts.converted / 48 == pytest.approx(figures["converted"])
        assert counts.both_wrong / 48 == pytest.approx(figures["both_wrong"])
        # Every problem has one wrong answer, 0 or 1, so that two wrong answers are the same one.
        assert counts.repeated == sum(
            each.draft.reason == each.final.reason == "wrong" for each in found[direction]
        )
        assert counts.repeated > 0
        assert {each.alone for each in found[direction]} <= {
            sample.drafts[0] for sample in played.values() if sample.play == apart
        }
