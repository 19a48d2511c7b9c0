"""Pooled methods: each policy learns from all rollouts, the rival's weighted by the reader's own likelihood."""

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.errors import InputError
from agon.game import Duel, Entry, group_advantages
from agon.train.pooling import _stack, figures_of, truncated
from agon.train.streams import Batch, Stream
from agon.train.trainer import AgonTrainer
from tests.train.build import config, trainer
from tests.train.test_oracle import Gradients, _logps, gradients, played, relative_error

Vector = list[float]
logits = st.lists(st.floats(-1.5, 1.5), min_size=3, max_size=3)


def softmax(theta: Vector) -> Vector:
    weights = [math.exp(each) for each in theta]
    return [weight / sum(weights) for weight in weights]


def reader_gradient(writer: Vector, reader: Vector, group: int, weighted: bool) -> Vector:
    """E[sum of weight x advantage x gradient of log pi_reader] over the groups that the writer plays."""
    mu, pi = softmax(writer), softmax(reader)
    total = [0.0] * 3
    for answers in product(range(3), repeat=group):
        chance = math.prod(mu[answer] for answer in answers)
        advantages = group_advantages([2.0 * (answer == 0) for answer in answers], "none")
        for answer, advantage in zip(answers, advantages, strict=True):
            weight = pi[answer] / mu[answer] if weighted else 1.0
            for at in range(3):
                total[at] += chance * weight * advantage * ((at == answer) - pi[at])
    return total


@settings(max_examples=20)
@given(logits, logits)
def test_with_weights_a_rivals_group_has_the_readers_own_expected_gradient(
    writer: Vector, reader: Vector
) -> None:
    """For one token and no cap, with the group's mean over what the rival earned."""
    expected = reader_gradient(reader, reader, 3, weighted=True)
    assert reader_gradient(writer, reader, 3, weighted=True) == pytest.approx(expected, abs=1e-12)


def test_without_weights_it_has_another() -> None:
    writer, reader = [1.0, 0.0, -1.0], [-1.0, 0.5, 0.0]
    expected = reader_gradient(reader, reader, 3, weighted=True)
    assert reader_gradient(writer, reader, 3, weighted=False) != pytest.approx(expected, abs=1e-2)


def watched(ours: AgonTrainer) -> tuple[list[Batch], dict[tuple[object, object], Entry]]:
    """One round's micro-batches, and the entries that its rows were made of, with their advantages."""
    duels: list[Duel] = []
    record = ours._record

    def keep(played: Sequence[Duel], seconds: float) -> None:
        duels.extend(played)
        record(played, seconds)

    ours._record = keep  # type: ignore[method-assign, assignment]
    batches = played(ours)
    entries = [each for duel in duels for each in (duel.draft, duel.challenge) if each is not None]
    return batches, {(each.rollout.prompt_ids, each.rollout.token_ids): each for each in entries}


def entry_of(batch: Batch, row: int, entries: dict[tuple[object, object], Entry]) -> Entry:
    prompt, completion = (
        tuple(batch[f"{part}_ids"][row][batch[f"{part}_mask"][row].bool()].tolist())
        for part in ("prompt", "completion")
    )
    return entries[prompt, completion]


def plain_gradient(
    ours: AgonTrainer, batches: list[Batch], entries: dict[tuple[object, object], Entry], policy: str
) -> tuple[Gradients, int]:
    """A reader's gradient by hand, mean over tokens: its own rows, and its rival's by truncated weights."""
    ours.model.zero_grad()
    cap = ours.args.vllm_importance_sampling_clip_max
    fed = [batch for batch in batches if batch["policy"] == policy]
    tokens = sum(int(batch["completion_mask"].sum()) for batch in fed)
    capped = 0
    for batch in fed:
        ours.pair.activate(policy)
        logps = _logps(ours, batch)
        loss = torch.zeros(())
        for row in range(len(logps)):
            own = logps[row, : int(batch["completion_mask"][row].sum())]
            entry = entry_of(batch, row, entries)
            weight = torch.ones_like(own)
            if entry.rollout.policy != policy:
                raw = (own.detach() - torch.tensor(entry.rollout.logprobs)).exp()
                weight = raw.clamp(max=cap)
                capped += int((raw > cap).sum())
            loss = loss - ((own - own.detach()).exp() * weight * entry.advantage).sum()
        (loss / tokens).backward()
    found = {
        key.replace(f".{policy}.", "."): weight.grad.clone()
        for key, weight in ours.pair.weights(policy)
        if weight.grad is not None
    }
    return found, capped


@pytest.mark.parametrize("cap", [3.0, 1.1])
def test_pooled_gradients_equal_a_plain_computation(tmp_path: Path, cap: float) -> None:
    ours = trainer(tmp_path, method="agon-pooled", loss_type="dapo", vllm_importance_sampling_clip_max=cap)
    batches, entries = watched(ours)
    for policy in "AB":
        writers = {
            entry_of(batch, row, entries).rollout.policy
            for batch in batches
            if batch["policy"] == policy
            for row in range(len(batch["completion_ids"]))
        }
        assert writers == {"A", "B"}, "every policy sees the rollouts of both"
        expected, capped = plain_gradient(ours, batches, entries, policy)
        assert relative_error(gradients(ours, batches, policy), expected) < 1e-5
        assert (capped > 0) == (cap < 2)
    ours.close()


def test_both_policies_see_every_row_that_was_not_dropped_once(tmp_path: Path) -> None:
    ours = trainer(tmp_path, method="coop-pooled")
    batches, entries = watched(ours)
    rows = {
        policy: sorted(
            tuple(batch["completion_ids"][row][batch["completion_mask"][row].bool()].tolist())
            for batch in batches
            if batch["policy"] == policy
            for row in range(len(batch["completion_ids"]))
            if batch["completion_mask"][row].any()
        )
        for policy in "AB"
    }
    assert rows["A"] == rows["B"]
    assert 0 < len(rows["A"]) <= len(entries) + 8
    assert [batch["policy"] for batch in batches] == ["A", "B"] * 2, "as many micro-batches as ever"
    ours.close()


def test_where_both_policies_are_the_same_every_weight_is_one(tmp_path: Path) -> None:
    ours = trainer(tmp_path, method="coop-pooled", init_noise=0.0)
    ours.model.train()
    ours.current_gradient_accumulation_steps = ours.args.gradient_accumulation_steps
    ours._play_round([{"index": index} for index in range(4) for _ in range(8)])
    found = {name: values[-1] for name, values in ours._metrics["train"].items() if "/pooled/" in name}
    assert {name.split("/")[0] for name in found} == {"A", "B"}
    for name, value in found.items():
        expected = 0.0 if name.endswith(("truncated", "divergence")) else 1.0
        assert value == pytest.approx(expected, abs=1e-4), name
    ours.close()


def test_the_effective_sample_size_falls_as_the_policies_part(tmp_path: Path) -> None:
    ours = trainer(tmp_path, method="coop-pooled")
    near = torch.randn(4, 6, generator=torch.Generator().manual_seed(1)) * 0.1
    batch = {"completion_mask": torch.ones(4, 6, dtype=torch.long)}
    found = [figures_of(near * size, batch, [0, 1, 2, 3], 3.0, ours.accelerator) for size in (1.0, 5.0, 20.0)]
    for name in ("ess", "ess_completion"):
        sizes = [figures[name] for figures in found]
        assert 1 > sizes[0] > sizes[1] > sizes[2] > 0
    weights = truncated(near * 20, 3.0)
    plain = float(weights.sum() ** 2 / (weights.square().sum() * 24))
    assert found[2]["ess"] == pytest.approx(plain)
    assert found[2]["truncated"] == pytest.approx(float(((near * 20).exp() > 3).float().mean()))
    ours.close()


@pytest.mark.parametrize(
    ("method", "options"),
    [("coop-pooled", {}), ("agon-pooled", {"num_iterations": 2, "beta": 0.04}), ("agon-paired", {})],
)
def test_a_training_moves_both_policies_and_logs_their_weights(
    tmp_path: Path, method: str, options: dict[str, Any]
) -> None:
    ours = trainer(tmp_path, method=method, **options)
    before = {policy: ours.pair.fingerprint(policy) for policy in "AB"}
    ours.train()
    assert all(ours.pair.fingerprint(policy) != before[policy] for policy in "AB")
    logged = {name for line in ours.state.log_history for name in line}
    assert ("A/pooled/ess" in logged) == method.endswith("pooled")
    assert not any(isinstance(value, float) and math.isnan(value) for line in ours.state.log_history
                   for value in line.values())  # fmt: skip
    ours.close()


def test_paired_advantages_are_those_that_train_and_that_duels_record(tmp_path: Path) -> None:
    ours = trainer(tmp_path, method="agon-paired", max_steps=1)
    batches, entries = watched(ours)
    challenges = [batch for batch in batches if batch["stream"] == "challenge"]
    used = 0
    for batch in challenges:
        for row in range(len(batch["completion_ids"])):
            if batch["completion_mask"][row].any():
                used += 1
                recorded = entry_of(batch, row, entries).advantage
                assert float(batch["advantages"][row]) == pytest.approx(recorded)
    assert used > 0
    ours.close()


def test_rewards_scaled_over_the_batch_are_refused_for_the_paired_advantage(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'agon-paired' scales within a group"):
        config(tmp_path, method="agon-paired", scale_rewards="batch")


def test_a_stream_that_was_dropped_whole_feeds_nobody_and_the_other_feeds_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Stream.kept
    monkeypatch.setattr(
        Stream,
        "kept",
        lambda stream: [] if stream.name == "challenge" and len(stream.entries) == 16 else kept(stream),
    )
    ours = trainer(tmp_path, method="coop-pooled")
    batches, _entries = watched(ours)
    assert "B/pooled/ess" in ours._metrics["train"]
    assert "A/pooled/ess" not in ours._metrics["train"], "there was nothing of B's to learn from"
    assert all(batch["completion_ids"].shape[0] for batch in batches)
    ours.close()


def test_joined_rows_keep_prompts_at_the_right_and_completions_at_the_left() -> None:
    first, second = torch.tensor([[1, 2]]), torch.tensor([[3]])
    assert _stack(first, second, left=True).tolist() == [[1, 2], [0, 3]]
    assert _stack(first, second, left=False).tolist() == [[1, 2], [3, 0]]
