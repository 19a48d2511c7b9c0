"""Rollouts of another engine: is it the same policy, is the sync there, and what does correcting cost?"""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agon.errors import InputError
from agon.train.importance import loss_of_gradient, sampler_metrics
from agon.train.scoring import together
from agon.train.trainer import AgonTrainer
from tests.train.build import config, trainer
from tests.train.copy_engine import copy_trainer


def test_an_engine_with_the_same_policies_trains(tmp_path: Path) -> None:
    ours = copy_trainer(tmp_path, max_steps=3)
    ours.train()
    ours.close()
    assert max(ours.gaps.values()) < 1e-5
    lines = [line for line in ours.run.read_metrics() if "loss" in line]
    for line in lines:
        for stream in ("draft", "challenge"):
            figures = {name: line[f"{stream}/sampling/{name}"] for name in ("gap", "weight", "raw_ratio")}
            assert figures["gap"] < 1e-5
            assert figures["weight"] == pytest.approx(1.0, abs=1e-4)
            assert figures["raw_ratio"] == pytest.approx(1.0, abs=1e-4)
            assert line[f"{stream}/sampling/masked"] == 0.0
            assert line[f"{stream}/sampling/gradient_kept"] == pytest.approx(1.0, abs=1e-4)


def test_an_engine_that_ignores_adapters_is_refused_at_the_start(tmp_path: Path) -> None:
    """A's adapter changes nothing and B's next to nothing when they are fresh: the check must not rely on them."""
    ours = copy_trainer(tmp_path, deaf_from=0)
    before = {name: ours.pair.fingerprint(name) for name in "AB"}
    with pytest.raises(InputError, match="The engine answers for policy A as if it had no adapter"):
        ours.train()
    ours.close()
    assert {name: ours.pair.fingerprint(name) for name in "AB"} == before
    assert not ours.run.read_metrics()


def test_a_sync_that_is_lost_in_silence_is_refused_in_its_round(tmp_path: Path) -> None:
    ours = copy_trainer(tmp_path, deaf_from=5, max_steps=8, learning_rate=1e-4)
    with pytest.raises(InputError, match=r"still samples from the weights of policy [AB] before version 5"):
        ours.train()
    ours.close()
    assert ours.state.global_step == 5
    # Less than the limit by far: the size of the gap alone would have said nothing.
    assert (
        max(line["draft/sampling/gap"] for line in ours.run.read_metrics()) < ours.args.max_logprob_gap / 10
    )


def test_the_check_leaves_no_trace_in_the_rollouts(tmp_path: Path) -> None:
    """Weights are put back and no random number is used up: the same duels as without any check."""
    ours, plain = copy_trainer(tmp_path / "copy", max_steps=2), trainer(tmp_path / "live", max_steps=2)
    for each in (ours, plain):
        each.train()
        each.close()
    texts = [
        [duel.draft.rollout.text + duel.challenge.rollout.text for duel in each.run.duels() if duel.challenge]
        for each in (ours, plain)
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("iterations", [1, 2])
def test_on_policy_ratios_are_one_by_definition(
    tmp_path: Path, iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    whole = AgonTrainer._compute_loss

    def watched(self: AgonTrainer, model: Any, inputs: Any) -> torch.Tensor:
        seen.append(inputs)
        return whole(self, model, inputs)

    monkeypatch.setattr(AgonTrainer, "_compute_loss", watched)
    ours = copy_trainer(tmp_path, max_steps=2, num_iterations=iterations, score_in_training=False)
    ours.train()
    ours.close()
    assert seen
    assert all(("old_per_token_logps" in inputs) == (iterations > 1) for inputs in seen)
    assert all("importance_sampling_ratio" in inputs for inputs in seen)


def test_dropped_groups_are_not_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = copy_trainer(tmp_path, max_steps=1, score_in_training=False)
    scored: list[int] = []
    kept: list[int] = []
    logps_of_rows = AgonTrainer._logps_of_rows
    score = AgonTrainer._score

    def counted(
        self: AgonTrainer, padded: Any, model: Any, ids: torch.Tensor, *rest: Any, **more: Any
    ) -> Any:
        if self._playing is not None:
            scored.append(len(ids))
        return logps_of_rows(self, padded, model, ids, *rest, **more)

    def watched(self: AgonTrainer, stream: Any) -> Any:
        kept.append(len(stream.kept()))
        return score(self, stream)

    monkeypatch.setattr(AgonTrainer, "_logps_of_rows", counted)
    monkeypatch.setattr(AgonTrainer, "_score", watched)
    ours.train()
    ours.close()
    assert sum(scored) == sum(kept)
    assert 0 < sum(kept) < 2 * 16  # some groups had signal and some did not


class _Alone:
    """What `sampler_metrics` needs of an accelerator, for one process."""

    def reduce(self, tensor: torch.Tensor, reduction: str) -> torch.Tensor:
        return tensor


def stream_of(length: int, deviation: float, rows: int = 256) -> dict[str, torch.Tensor]:
    """A stream whose log-probs differ from the sampler's by Gaussian noise per token."""
    generator = torch.Generator().manual_seed(0)
    sampled = -torch.rand(rows, length, generator=generator)
    # Unbiased: the mean ratio of a token is one.
    noise = torch.randn(rows, length, generator=generator) * deviation - deviation**2 / 2
    return {
        "completion_mask": torch.ones(rows, length, dtype=torch.long),
        "old_per_token_logps": sampled + noise,
        "sampling_per_token_logps": sampled,
        "advantages": torch.randn(rows, generator=generator),
    }


@pytest.mark.parametrize(("mode", "kept"), [("sequence", False), ("token", True)])
def test_a_weight_per_sequence_loses_the_gradient_of_long_completions(mode: str, kept: bool) -> None:
    """At 6,100 tokens and the deviation that was measured in bfloat16, 0.027 a token."""
    batch = stream_of(6_100, 0.027)
    difference = batch["old_per_token_logps"] - batch["sampling_per_token_logps"]
    if mode == "sequence":
        ratio = difference.sum(1, keepdim=True).exp()
        batch["importance_sampling_ratio"] = ratio.masked_fill(ratio > 3, 0.0)
    else:
        batch["importance_sampling_ratio"] = difference.exp().clamp(max=3)
    figures = sampler_metrics(batch, list(range(256)), _Alone())
    assert figures["sequence_log_ratio"] == pytest.approx(0.027 * 6_100**0.5, rel=0.2)
    assert (figures["gradient_kept"] > 0.95) == kept
    assert (figures["masked"] > 0.02) != kept
    sentence = loss_of_gradient("draft", figures, f"{mode}_mask")
    assert (sentence is None) == kept
    if sentence:
        assert "set vllm_importance_sampling_mode to token_truncate" in sentence


def test_losing_the_gradient_is_said_once_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agon.train.importance.ENOUGH", 1.5)
    ours = copy_trainer(tmp_path, max_steps=3)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        ours.train()
    ours.close()
    said = [str(warning.message) for warning in heard if "Importance sampling" in str(warning.message)]
    assert sorted(sentence.split("of the ")[1].split()[0] for sentence in said) == ["challenge", "draft"]


def test_the_default_weights_tokens(tmp_path: Path) -> None:
    assert config(tmp_path).vllm_importance_sampling_mode == "token_truncate"


@pytest.mark.parametrize(
    "option", [{"top_p": 0.9}, {"top_k": 20}, {"min_p": 0.1}, {"repetition_penalty": 1.1}]
)
def test_sampling_that_biases_the_ratio_is_refused(tmp_path: Path, option: dict[str, float]) -> None:
    (name,) = option
    with pytest.raises(
        InputError, match=f"Agon does not take {name}: training scores the whole distribution"
    ):
        config(tmp_path, **option)


def test_gradients_of_fp16_are_unscaled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accelerate has fp16 on a GPU only; its scaler is torch's own, which refuses to unscale twice."""
    ours = trainer(tmp_path, max_steps=1)
    whole = AgonTrainer._clip_grad_norm
    norms: list[float] = []

    def scaled(self: AgonTrainer, model: Any) -> torch.Tensor:
        optimizer = self.accelerator._optimizers[0].optimizer
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        scaler.scale(torch.zeros(()))  # as the backward pass does first
        for group in optimizer.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.grad.mul_(8.0)
        monkeypatch.setattr(self.accelerator, "unscale_gradients", lambda *_: scaler.unscale_(optimizer))
        norms.append(float(whole(self, model)))
        return torch.tensor(norms[-1])

    plain = trainer(tmp_path / "plain", max_steps=1)
    plain.train()
    plain.close()
    monkeypatch.setattr(AgonTrainer, "_clip_grad_norm", scaled)
    ours.train()
    ours.close()
    expected = plain._grad_norms
    assert norms == [pytest.approx(torch.tensor(list(expected.values())).norm().item(), rel=1e-5)]


def test_a_step_of_fp16_without_a_row_leaves_its_scaler_something_to_check(tmp_path: Path) -> None:
    """Torch's scaler refuses to step where no gradient was ever there."""
    ours = trainer(tmp_path, max_steps=1)
    ours.model.train()
    optimizer = torch.optim.SGD(
        [weight for weight in ours.model.parameters() if weight.requires_grad], lr=1.0
    )
    before = {key: weight.clone() for key, weight in ours.pair.weights("A")}
    ours.accelerator.scaler = scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(ours._loss_of_passes(ours.model, [])).backward()
    scaler.step(optimizer)
    assert all(torch.equal(weight, before[key]) for key, weight in ours.pair.weights("A"))
    ours.close()


def test_rollouts_are_scored_together_as_they_are_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = trainer(tmp_path)
    duels = ours._sample(ours.problems[:3])
    played = [duel.challenge.rollout for group in duels for duel in group if duel.challenge]
    rollouts = [
        replace(each, token_ids=each.token_ids[: 2 + row % 5], length=min(each.length, 2 + row % 5))
        for row, each in enumerate(played)
    ]
    forwards: list[int] = []
    base = ours.pair.model.get_base_model().base_model
    hook = base.register_forward_hook(lambda *_: forwards.append(1))
    found = ours._logprobs("B", rollouts)
    assert len(forwards) == 1
    monkeypatch.setattr("agon.train.scoring.TOGETHER", 1)
    alone = ours._logprobs("B", rollouts)
    assert len(forwards) == 1 + len(rollouts)
    hook.remove()
    ours.close()
    for one, other, rollout in zip(found, alone, rollouts, strict=True):
        assert one.shape == other.shape == (rollout.length,)
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_rows_are_scored_together_while_they_fit() -> None:
    assert together([3, 3, 4, 9, 2], 12) == [range(3), range(3, 4), range(4, 5)]
    assert together([5], 1) == [range(1)]
