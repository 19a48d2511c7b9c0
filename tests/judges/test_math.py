"""The math judge: every pair of the table, and the statements that a table cannot make."""

import pytest

from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.judges.pool import JudgePool
from tests.judges.math_pairs import DIFFERENT, EQUAL

PAIRS = [
    (gold, answer, expected, heading)
    for table, expected in ((EQUAL, True), (DIFFERENT, False))
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


def test_the_table_is_as_large_as_promised():
    equal, different = (sum(map(len, table.values())) for table in (EQUAL, DIFFERENT))
    assert equal >= 100
    assert equal + different >= 300
    assert len({pair[:2] for pair in PAIRS}) == len(PAIRS), "a pair stands in the table twice"


@pytest.mark.parametrize(("gold", "answer", "expected"), CASES)
def test_a_pair_gets_its_verdict(verdicts, gold, answer, expected):
    verdict = verdicts[gold, answer]
    assert verdict.correct is expected
    assert verdict.reason in (("correct",) if expected else ("wrong", "no-answer"))
