"""A run that is killed and resumed ends as if nothing had happened."""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from agon.errors import InputError
from agon.game.duel import Duel
from agon.runs import trust
from agon.runs.folder import Run
from agon.train import callbacks
from tests.train.build import trainer
from tests.train.records import records

OPTIONS: dict[str, Any] = {
    "save_strategy": "steps",
    "save_steps": 1,
    "lr_scheduler_type": "linear",
    "eval_strategy": "steps",
    "eval_steps": 4,
    "validation_size": 4,
}


def train(folder: Path, **options: Any) -> None:
    """Start the run, or go on with it."""
    ours = trainer(folder, **{**OPTIONS, **options})
    ours.train(resume_from_checkpoint=True)
    ours.close()


def in_child(folder: Path, steps: int) -> int:
    """Train in a forked child; returns its process id."""
    child = os.fork()
    if child:
        return child
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        train(folder, max_steps=steps)
    finally:
        os._exit(0)


@pytest.mark.parametrize(("number", "steps"), [(1, 6), pytest.param(10, 12, marks=pytest.mark.exhaustive)])
def test_kills_at_random_moments_change_nothing(tmp_path: Path, number: int, steps: int) -> None:
    started = time.monotonic()
    train(tmp_path / "whole", max_steps=steps)
    whole = records(tmp_path / "whole")
    length = time.monotonic() - started
    moments = random.Random(0)
    kills = 0
    while kills < number:
        child = in_child(tmp_path / "killed", steps)
        time.sleep(moments.uniform(0.72, 1.92) * length / steps)
        ended, _ = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1
    if not (tmp_path / "killed" / "summary.json").exists():
        os.waitpid(in_child(tmp_path / "killed", steps), 0)
    assert kills == number
    assert records(tmp_path / "killed") == whole
    assert [line["step"] for line in whole["metrics"] if "loss" in line] == list(range(1, steps + 1))


def test_a_changed_configuration_is_refused_and_named(tmp_path: Path) -> None:
    train(tmp_path, max_steps=2)
    with pytest.raises(InputError, match=r"learning_rate was 0\.01, now 0\.02"):
        train(tmp_path, max_steps=2, learning_rate=0.02)


def test_a_line_cut_off_by_the_kill_is_dropped(tmp_path: Path) -> None:
    train(tmp_path, max_steps=2)
    run = Run(tmp_path)
    before = [duel.to_json() for duel in run.duels() if duel.step < 2]
    log = run.duels().files()[-1]
    with log.open("a") as file:
        file.write(before[0][:100])
    run.rewind(2)
    assert [duel.to_json() for duel in run.duels()] == before
    run.rewind(1)
    assert {duel.step for duel in run.duels()} == {0}
    assert all(isinstance(duel, Duel) for duel in run.duels())
    assert [line["step"] for line in run.read_metrics()] == [1]


def test_a_checkpoint_with_a_link_out_of_the_run_is_not_gone_on_from(tmp_path: Path) -> None:
    """As `agon train --resume` refuses it; whoever put the link there says so."""
    train(tmp_path / "run", max_steps=1)
    optimizer = tmp_path / "run" / "checkpoints" / "checkpoint-1" / "optimizer.pt"
    optimizer.rename(tmp_path / "elsewhere.pt")
    optimizer.symlink_to(tmp_path / "elsewhere.pt")
    ours = trainer(tmp_path / "run", **{**OPTIONS, "max_steps": 2})
    try:
        for wanted in (True, str(optimizer.parent)):
            with pytest.raises(InputError, match=r"by its link .*optimizer\.pt.*trust_run_code=True"):
                ours.train(resume_from_checkpoint=wanted)
        ours.args.max_steps = 1
        ours.train(resume_from_checkpoint=True, trust_run_code=True)
        assert ours.state.global_step == 1
    finally:
        ours.close()


def test_what_a_resume_may_name_anew_is_no_changed_configuration() -> None:
    assert trust.MAY_CHANGE <= callbacks.MAY_CHANGE
