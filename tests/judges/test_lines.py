"""JSON lines into verdicts, in order, without the command line."""

import json
from collections.abc import Iterator

import pytest

from agon.errors import InputError
from agon.game.verdict import Verdict
from agon.judges.lines import BadLineError, judge_lines, reader_for
from agon.judges.pool import JudgePool
from tests.judges import own_judges


@pytest.fixture(scope="module")
def pool() -> Iterator[JudgePool]:
    with JudgePool(own_judges.misbehave, workers=2, deadline=10) as pool:
        yield pool


def line(answer: str) -> str:
    return json.dumps({"gold": "right", "answer": answer})


def test_verdicts_are_written_in_the_order_of_the_lines(pool):
    written: list[Verdict] = []
    lines = [line("half a second"), "no JSON", "", line("right"), line("wrong")]
    judge_lines(lines, pool, reader_for("exact"), written.append)
    assert [verdict.reason for verdict in written] == ["correct", "error", "correct", "wrong"]


def test_a_verdict_that_cannot_be_written_stops_the_reading(pool):
    def closed_pipe(verdict: Verdict) -> None:
        raise BrokenPipeError

    def endless() -> Iterator[str]:
        while True:
            yield line("right")

    with pytest.raises(BrokenPipeError):
        judge_lines(endless(), pool, reader_for("exact"), closed_pipe)


def test_a_completion_is_read_by_its_dialect():
    fields = {"text": r"So \boxed{4}.", "gold": "4"}
    found = reader_for("math", "boxed")(fields)
    assert isinstance(found, tuple)
    assert (found[0].answer, found[1]) == ("4", r"\boxed{4}")
    missing = reader_for("math", "think")(fields)
    assert isinstance(missing, Verdict)
    assert missing.reason == "no-answer"
    with pytest.raises(BadLineError, match="--dialect"):
        reader_for("math")(fields)
    with pytest.raises(InputError, match="latin"):
        reader_for("math", "latin")(fields)
