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


@pytest.mark.parametrize("what", ["gradient", "loss", "reward"])
def test_a_step_with_a_number_that_is_not_finite_moves_nothing(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = trainer(tmp_path, max_steps=3)
    watch = Watch(ours)
    ours.add_callback(watch)
    compute, score = AgonTrainer._compute_loss, AgonTrainer._score

    def second(self: AgonTrainer) -> bool:
        return self.state.global_step == 1

    def compute_loss(self: AgonTrainer, model: Any, inputs: Any) -> torch.Tensor:
        loss = compute(self, model, inputs)
        return loss * float("inf") if what == "loss" and second(self) else loss

    def nan_reward(self: AgonTrainer, stream: Any) -> Any:
        batch = score(self, stream)
        if what == "reward" and second(self):
            batch["advantages"] = batch["advantages"] * float("nan")
        return batch

    monkeypatch.setattr(AgonTrainer, "_compute_loss", compute_loss)
    monkeypatch.setattr(AgonTrainer, "_score", nan_reward)
    if what == "gradient":
        ours.pair.weights("A")[0][1].register_hook(
            lambda gradient: gradient * float("nan") if second(ours) else gradient
        )
    ours.train()
    ours.close()
    first, skipped, third = watch.seen
    assert skipped["prints"] == first["prints"]
    assert equal(skipped["moments"], first["moments"])
    assert all(third["prints"][name] != skipped["prints"][name] for name in "AB")
    lines = [
        json.loads(line, parse_constant=pytest.fail)
        for line in (tmp_path / "metrics.jsonl").read_text().splitlines()
    ]
    assert [line["skipped_steps"] for line in lines] == [0, 1, 0]
    state = json.dumps(ours.state.log_history)
    assert "NaN" not in state
    assert "Infinity" not in state


def test_three_in_a_row_stop_the_run_and_any_other_number_does_not() -> None:
    guard = StepGuard()
    for step in range(20):
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
