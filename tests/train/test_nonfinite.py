"""NaN and infinity move nothing: not the weights, not the moments, not the files."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

from agon.train.nonfinite import StepGuard
from agon.train.stopping import StopRunError
from agon.train.trainer import AgonTrainer
from tests.train.build import trainer


class Watch(TrainerCallback):
    """Keeps weights and moments after every step."""

    def __init__(self, ours: AgonTrainer) -> None:
        self.ours = ours
        self.seen: list[dict[str, Any]] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        optimizer: Any = self.ours.optimizer
        moments = [
            {key: value.clone() for key, value in moment.items()} for moment in optimizer.state.values()
        ]
        prints = {name: self.ours.pair.fingerprint(name) for name in "AB"}
        self.seen.append({"prints": prints, "moments": moments})


def equal(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(torch.equal(mine[key], theirs[key]) for mine, theirs in pairs for key in mine)


def test_a_step_with_a_number_that_is_not_finite_moves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second step has a bad gradient, the fourth a bad loss, the sixth bad rewards."""
    ours = trainer(tmp_path, max_steps=7, gradient_accumulation_steps=2, max_completion_length=6)
    watch = Watch(ours)
    ours.add_callback(watch)
    compute, score = AgonTrainer._compute_loss, AgonTrainer._score

    def compute_loss(self: AgonTrainer, model: Any, inputs: Any) -> torch.Tensor:
        loss = compute(self, model, inputs)
        return loss * float("inf") if self.state.global_step == 3 else loss

    def nan_reward(self: AgonTrainer, stream: Any) -> Any:
        batch = score(self, stream)
        if self.state.global_step == 5:
            batch["advantages"] = batch["advantages"] * float("nan")
        return batch

    monkeypatch.setattr(AgonTrainer, "_compute_loss", compute_loss)
    monkeypatch.setattr(AgonTrainer, "_score", nan_reward)
    ours.pair.weights("A")[0][1].register_hook(
        lambda gradient: gradient * float("nan") if ours.state.global_step == 1 else gradient
    )
    ours.train()
    ours.close()
    for bad in (1, 3, 5):
        before, skipped, after = watch.seen[bad - 1 : bad + 2]
        assert skipped["prints"] == before["prints"]
        assert equal(skipped["moments"], before["moments"])
        assert after["prints"] != skipped["prints"]
    lines = [
        json.loads(line, parse_constant=pytest.fail)
        for line in (tmp_path / "metrics.jsonl").read_text().splitlines()
    ]
    assert [line["skipped_steps"] for line in lines] == [0, 1, 0, 1, 0, 1, 0]
    state = json.dumps(ours.state.log_history)
    assert "NaN" not in state
    assert "Infinity" not in state


def test_three_in_a_row_stop_the_run_and_any_other_number_does_not() -> None:
    guard = StepGuard()
    for step in range(19):
        guard.count("the loss" if step % 3 else None, step)
    guard.count("the loss", 20)
    guard.count("the loss", 21)
    with pytest.raises(StopRunError, match="In 3 steps in a row, up to step 22, the loss was not finite"):
        guard.count("the loss", 22)


def test_an_overflow_in_half_precision_is_left_to_the_scaler_until_its_scale_is_spent() -> None:
    guard, norms = StepGuard(), {"A": math.inf, "B": 1.0}
    assert guard.wrong(False, norms, scale=65_536.0) is None
    assert guard.wrong(False, norms, scale=0.5) == "the gradient of A"
    assert guard.wrong(True, norms, scale=65_536.0) == "the loss"
    assert guard.wrong(False, norms, scale=None) == "the gradient of A"


def test_a_loss_that_is_not_finite_is_remembered_until_the_step() -> None:
    guard = StepGuard()
    guard.see_loss(torch.tensor(float("nan")))
    guard.see_loss(torch.tensor(1.0))
    assert guard.loss_was_bad()
    assert not guard.loss_was_bad()
