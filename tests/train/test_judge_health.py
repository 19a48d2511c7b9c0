"""A judge that fails is noticed before anything is learned from it."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agon.game.duel import Duel, Entry
from agon.game.problem import Problem
from agon.game.rollout import Rollout
from agon.game.verdict import REASONS, Verdict
from agon.judges.judge import Judge
from agon.train.judge_health import JudgeHealth
from agon.train.live import LiveView
from agon.train.stopping import StopRunError
from agon.train.trainer import AgonTrainer
from tests import tiny
from tests.train.build import config

ROLLOUT = Rollout(text="", length=1, finish_reason="stop", policy="A", version=0)


def duels(**times: int) -> list[Duel]:
    """So many duels without a challenge for each reason of a verdict."""
    made = []
    for reason in [each for each in REASONS for _ in range(times.get(each, 0))]:
        detail = "the judge\x1b[31m says" if reason == "error" else ""
        entry = Entry(ROLLOUT, Verdict(reason == "correct", reason, detail), well_formed=True)
        made.append(Duel(Problem("p", "1?", "tiny", "1"), entry, step=0))
    return made


def test_a_tenth_in_error_warns_and_a_half_stops() -> None:
    health = JudgeHealth()
    assert health.check(duels(wrong=9, error=1), 0.0) is None
    said = health.check(duels(wrong=8, error=2), 0.0)
    assert said is not None
    assert "failed on 2 of 10 answers of this round (the last time: the judge[31m says)" in said
    assert health.check(duels(wrong=5, error=5), 0.0) is not None
    with pytest.raises(StopRunError, match="failed on 6 of 10 answers"):
        health.check(duels(correct=4, error=6), 0.0)


def test_rollouts_without_an_answer_do_not_hide_a_broken_judge() -> None:
    health = JudgeHealth()
    rounds = duels(truncated=60, error=4)
    assert health.check(rounds, 0.0) is None  # four answers are too few to judge by
    with pytest.raises(StopRunError, match="8 of 8"):
        health.check(rounds, 0.0)


def test_more_than_two_timeouts_in_a_hundred_warn() -> None:
    answers = duels(correct=10)
    assert JudgeHealth().check(answers, 0.02) is None
    assert "2.1% of all verdicts" in str(JudgeHealth().check(answers, 0.021))


def test_a_warning_is_shown_until_it_no_longer_holds() -> None:
    shown = StringIO()
    view = LiveView(Console(file=shown, width=80))
    view.warn("The judge failed on 9 of 64 answers [sic].")
    view.warn("The judge failed on 9 of 64 answers [sic].")
    assert shown.getvalue() == "warning: The judge failed on 9 of 64 answers [sic].\n"
    assert view._minute_line().endswith("warning: The judge failed on 9 of 64 answers [sic].")
    terminal = StringIO()
    picture = Console(file=terminal, width=80)
    picture.print(view._picture())
    assert "failed on 9 of 64" in terminal.getvalue()
    view.warn(None)
    assert "warning" not in view._minute_line()


class Raises:
    """A judge that fails on every answer."""

    def judge(self, problem: Problem, answer: str) -> Any:
        raise ZeroDivisionError("inside")


def test_a_judge_that_always_raises_stops_the_run_before_it_learns(tmp_path: Path) -> None:
    judge: Judge = Raises()
    ours = AgonTrainer(
        tiny.model(), tiny.task(), config(tmp_path), judge=judge, processing_class=tiny.tokenizer()
    )
    before = {name: ours.pair.fingerprint(name) for name in "AB"}
    with pytest.raises(StopRunError, match=r"failed on (\d+) of \1 answers.*ZeroDivisionError: inside"):
        ours.train()
    ours.close()
    assert {name: ours.pair.fingerprint(name) for name in "AB"} == before
    assert not (tmp_path / "summary.json").exists()
