"""The math judge: every pair of the table, and the statements that a table cannot make."""

from pathlib import Path

import pytest

from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.judges.pool import JudgePool
from tests.judges import math_causes, math_forms, math_pairs

PAIRS = [
    (gold, answer, expected, heading)
    for tables in (math_pairs, math_causes, math_forms)
    for table, expected in ((tables.EQUAL, True), (tables.DIFFERENT, False))
    for heading, pairs in table.items()
    for gold, answer in pairs
]
CASES = [
    pytest.param(gold, answer, expected, id=f"{heading}: {gold} {'=' if expected else '!='} {answer}"[:110])
    for gold, answer, expected, heading in PAIRS
]


@pytest.fixture(scope="module")
def verdicts() -> dict[tuple[str, str], Verdict]:
    """All pairs at once, through a real pool."""
    with JudgePool("math", workers=2, deadline=30) as pool:
        given = pool.judge_all((problem(gold), answer) for gold, answer, _, _ in PAIRS)
    return {(gold, answer): verdict for (gold, answer, _, _), verdict in zip(PAIRS, given, strict=True)}


def problem(gold: str) -> Problem:
    return Problem(id="p", prompt="", task="t", answer=gold)


def test_the_tables_are_as_large_as_the_page_says():
    page = (Path(__file__).parents[2] / "docs" / "judges.md").read_text("utf-8")
    equal = sum(expected for _, _, expected, _ in PAIRS)
    assert f"hold {len(PAIRS):,} pairs, {equal} of them equal" in page
    assert len({pair[:2] for pair in PAIRS}) == len(PAIRS), "a pair stands in the tables twice"


def test_every_cause_has_near_misses():
    assert set(math_causes.EQUAL) <= set(math_causes.DIFFERENT)


@pytest.mark.parametrize(("gold", "answer", "expected"), CASES)
def test_a_pair_gets_its_verdict(verdicts, gold, answer, expected):
    verdict = verdicts[gold, answer]
    assert verdict.correct is expected
    assert verdict.reason in (("correct",) if expected else ("wrong", "no-answer"))
