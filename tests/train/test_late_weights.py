"""Importance weights from the training pass: TRL's own, without the forward that scores rollouts for them."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agon.engines.protocol import Finished
from agon.errors import InputError
from agon.train.logprob_gap import CheckAtStart
from agon.train.trainer import AgonTrainer
from tests.train.build import config
from tests.train.copy_engine import CopyEngine, copy_trainer
from tests.train.test_oracle import Gradients, gradients, played, relative_error

MODES = [
    "token_truncate",
    "sequence_mask",
    *(pytest.param(mode, marks=pytest.mark.exhaustive) for mode in ("token_mask", "sequence_truncate")),
]
FIGURES = ("gap", "sequence_log_ratio", "raw_ratio", "weight", "masked", "gradient_kept")


class OtherKernels(CopyEngine):
    """Reports log-probs that are visibly off the trainer's, by as much for a token at every call."""

    def collect(self) -> list[Finished]:
        return [
            replace(each, rollout=replace(each.rollout, logprobs=shifted(each.rollout.logprobs)))
            for each in super().collect()
        ]


def shifted(logprobs: Sequence[float]) -> tuple[float, ...]:
    return tuple(value + 0.4 * math.sin(3 * number) for number, value in enumerate(logprobs))


def made(folder: Path, late: bool | None, **options: Any) -> AgonTrainer:
    chosen = {"max_logprob_gap": 1.0, "vllm_importance_sampling_clip_max": 1.2, **options}
    return copy_trainer(folder, sampler=OtherKernels(), score_in_training=late, **chosen)


def both_gradients(ours: AgonTrainer) -> Gradients:
    batches = played(ours)
    return {
        f"{policy} {key}": value
        for policy in ("A", "B")
        for key, value in gradients(ours, batches, policy).items()
    }


@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_those_of_rollouts_that_were_scored_before(tmp_path: Path, mode: str) -> None:
    scored, late = (
        both_gradients(made(tmp_path / str(late), late, vllm_importance_sampling_mode=mode))
        for late in (False, True)
    )
    assert relative_error(late, scored) < 1e-5
    unweighed = made(tmp_path / "none", False, vllm_importance_sampling_correction=False)
    assert relative_error(both_gradients(unweighed), scored) > 1e-2, "the weights must matter here"


@pytest.mark.parametrize(
    "options",
    [
        {"micro_batch_tokens": 64, "both_policies_at_once": True},
        pytest.param({"beta": 0.1}, marks=pytest.mark.exhaustive),
        pytest.param({"loss_type": "vespo"}, marks=pytest.mark.exhaustive),
    ],
    ids=lambda options: next(iter(options)),
)
def test_so_they_are_with_what_else_changes_the_loss(tmp_path: Path, options: dict[str, Any]) -> None:
    scored, late = (both_gradients(made(tmp_path / str(late), late, **options)) for late in (False, True))
    assert relative_error(late, scored) < 1e-5


def test_nothing_is_scored_before_training(tmp_path: Path) -> None:
    for batch in played(made(tmp_path, True)):
        assert "old_per_token_logps" not in batch
        assert "importance_sampling_ratio" not in batch


def steps(ours: AgonTrainer) -> list[dict[str, float]]:
    try:
        ours.train()
    finally:
        ours.close()
    return [line for line in ours.run.read_metrics() if "loss" in line]


@pytest.mark.parametrize("ahead", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_the_figures_of_the_correction_are_the_same(tmp_path: Path, ahead: bool) -> None:
    scored, late = (
        steps(made(tmp_path / str(late), late, max_steps=2, sample_ahead=ahead)) for late in (False, True)
    )
    assert len(scored) == len(late) == 2
    for before, after in zip(scored, late, strict=True):
        for stream in ("draft", "challenge"):
            for name in FIGURES:
                key = f"{stream}/sampling/{name}"
                assert after[key] == pytest.approx(before[key], rel=1e-4, abs=1e-6), key
        assert after["loss"] == pytest.approx(before["loss"], abs=1e-5)


@pytest.mark.exhaustive
def test_a_step_that_ran_out_of_memory_counts_its_rows_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (expected,) = steps(made(tmp_path / "whole", True, max_steps=1))
    ours = made(tmp_path / "again", True, max_steps=1)
    backward, calls = ours.accelerator.backward, []

    def sometimes(loss: torch.Tensor, **options: Any) -> None:
        calls.append(loss)
        if len(calls) == 3:
            raise torch.OutOfMemoryError
        backward(loss, **options)

    monkeypatch.setattr(ours.accelerator, "backward", sometimes)
    (found,) = steps(ours)
    assert len(calls) > 4
    for name in FIGURES:
        key = f"draft/sampling/{name}"
        assert found[key] == pytest.approx(expected[key], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    "checked",
    [
        "when its gradients are there",
        pytest.param("when the round begins", marks=pytest.mark.exhaustive),
    ],
)
def test_a_sampler_that_is_far_off_is_refused_before_anything_is_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: str
) -> None:
    ours = made(tmp_path, True, max_logprob_gap=0.1)
    ours.remove_callback(CheckAtStart)
    if checked != "when the round begins":
        monkeypatch.setattr(ours._sampler, "refuse_stale", lambda *_, **__: None)
    before = [weight.clone() for weight in ours.pair.snapshot("A")]
    with pytest.raises(InputError, match="more than max_logprob_gap"):
        steps(ours)
    assert all(map(torch.equal, before, ours.pair.snapshot("A")))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_iterations": 2}, "needs rounds that feed one optimizer step"),
        ({"method": "coop-pooled"}, "weighs rollouts under both policies"),
    ],
)
def test_what_it_does_not_go_with_is_one_sentence(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        config(tmp_path, score_in_training=True, **options)


@pytest.mark.parametrize(
    ("options", "late"), [({}, True), ({"num_iterations": 2}, False), ({"method": "coop-pooled"}, False)]
)
def test_unset_it_is_on_wherever_it_goes(tmp_path: Path, options: dict[str, Any], late: bool) -> None:
    assert made(tmp_path, None, **options)._weighs_late is late
