"""The oracle: on the same rollouts, our gradients are those of stock TRL and of plain PyTorch."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from trl import GRPOConfig, GRPOTrainer

from agon.train.streams import Batch
from agon.train.trainer import AgonTrainer
from tests import tiny
from tests.train.build import OPTIONS, lay_lines, trainer

LOSSES = ["grpo", "bnpo", "dr_grpo", "dapo", "sapo", "cispo", "luspo"]
Gradients = dict[str, torch.Tensor]


def played(ours: AgonTrainer) -> list[Batch]:
    """One round's micro-batches, with adapters that are not at their starting point."""
    noise = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name in ours.pair.names:
            for key, weight in ours.pair.weights(name):
                if "lora_B" in key:
                    weight.copy_(torch.randn(weight.shape, generator=noise) * 0.05)
    ours.model.train()
    ours.current_gradient_accumulation_steps = ours.args.gradient_accumulation_steps
    rows = [{"index": index} for index in range(4) for _ in range(ours.args.num_generations)]
    return ours._play_round(rows)


def gradients(ours: AgonTrainer, batches: list[Batch], policy: str) -> Gradients:
    ours.model.zero_grad()
    for batch in batches:
        ours._compute_loss(ours.model, batch).backward()
    return {
        key.replace(f".{policy}.", "."): weight.grad.clone()
        for key, weight in ours.pair.weights(policy)
        if weight.grad is not None
    }


def relative_error(ours: Gradients, reference: Gradients) -> float:
    assert ours.keys() == reference.keys()
    apart = sum(float((ours[key] - reference[key]).norm() ** 2) for key in ours) ** 0.5
    size = sum(float(value.norm() ** 2) for value in reference.values()) ** 0.5
    assert size > 0
    return apart / size


def stock(folder: Path, ours: AgonTrainer, policy: str, group: int, steps: int, loss: str) -> GRPOTrainer:
    """TRL's own trainer with one adapter, a copy of ours, and `group` rollouts a problem."""
    model = get_peft_model(tiny.model(), LoraConfig(**_lora(ours)))
    theirs = dict(model.named_parameters())
    with torch.no_grad():
        for key, weight in ours.pair.weights(policy):
            theirs[key.replace(f".{policy}.", ".default.")].copy_(weight)
    options = {
        key: OPTIONS[key]
        for key in OPTIONS
        if key in GRPOConfig.__dataclass_fields__ and key not in ("warmup_steps",)
    }
    args = GRPOConfig(
        output_dir=str(folder),
        **{**options, "num_generations": group, "gradient_accumulation_steps": steps, "bf16": False},
        loss_type=loss,
    )
    dataset = Dataset.from_dict({"prompt": ["x"] * 8})
    made = GRPOTrainer(
        model, reward_funcs=[_nothing], args=args, train_dataset=dataset, processing_class=tiny.tokenizer()
    )
    made.model.train()
    made.current_gradient_accumulation_steps = steps
    return made


def _nothing(completions: list[Any], **_: Any) -> list[float]:
    return [0.0] * len(completions)


def _lora(ours: AgonTrainer) -> dict[str, Any]:
    chosen = ours.pair.model.peft_config["A"]
    return {
        "r": chosen.r,
        "lora_alpha": chosen.lora_alpha,
        "target_modules": chosen.target_modules,
        "task_type": "CAUSAL_LM",
    }


def stock_gradients(theirs: GRPOTrainer, batches: list[Batch]) -> Gradients:
    theirs.model.zero_grad()
    for batch in batches:
        theirs._compute_loss(theirs.model, batch).backward()
    return {
        key.replace(".default.", "."): weight.grad.clone()
        for key, weight in theirs.model.named_parameters()
        if weight.grad is not None
    }


@pytest.fixture
def nothing_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agon.train.streams.has_signal", lambda rewards: True)


@pytest.mark.usefixtures("nothing_dropped")
@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_draft_stream_has_the_gradient_of_stock_trl(tmp_path: Path, loss: str, lines: bool) -> None:
    """To the last bit where rows are padded as TRL's are."""
    ours = trainer(tmp_path / "ours", loss_type=loss, padding_free=lines)
    batches = played(ours)
    drafts = [batch for batch in batches if batch["stream"] == "draft"]
    assert len(drafts) == 2
    theirs = stock(tmp_path / "theirs", ours, "A", group=4, steps=2, loss=loss)
    reference = stock_gradients(theirs, [copy.copy(batch) for batch in drafts])
    error = relative_error(gradients(ours, batches, "A"), reference)
    assert 0 < error < 1e-5 if lines else error == 0
    ours.close()


@pytest.mark.usefixtures("nothing_dropped")
@pytest.mark.parametrize("loss", LOSSES)
def test_grpo_is_stock_trl_where_no_group_is_dropped(tmp_path: Path, loss: str) -> None:
    ours = trainer(tmp_path / "ours", method="grpo", loss_type=loss, padding_free=False)
    batches = played(ours)
    assert [batch["weight"] for batch in batches] == [1.0] * 4
    theirs = stock(tmp_path / "theirs", ours, "A", group=8, steps=4, loss=loss)
    reference = stock_gradients(theirs, [copy.copy(batch) for batch in batches])
    assert relative_error(gradients(ours, batches, "A"), reference) == 0.0
    ours.close()


def plain_gradient(ours: AgonTrainer, batches: list[Batch], policy: str) -> Gradients:
    """The policy's dapo gradient from first principles: clipped surrogate plus KL, mean over tokens."""
    ours.model.zero_grad()
    fed = [batch for batch in batches if batch["policy"] == policy]
    tokens = sum(int(batch["completion_mask"].sum()) for batch in fed)
    windows = ours.args.steps_per_generation // ours.args.gradient_accumulation_steps
    for batch in fed:
        with ours.pair.using("base"), torch.no_grad():
            reference = _logps(ours, batch)
        ours.pair.activate(policy)
        logps = _logps(ours, batch)
        old = batch.get("old_per_token_logps", logps.detach())
        ratio = (logps - old).exp()
        advantage = batch["advantages"][:, None]
        surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        away = reference - logps
        # TRL weighs the KL term by the ratio too, which makes its gradient that of the reverse KL.
        loss = -surrogate + ours.beta * ratio * (away.exp() - away - 1)
        ((loss * batch["completion_mask"]).sum() * windows / max(tokens, 1)).backward()
    return {
        key.replace(f".{policy}.", "."): weight.grad.clone()
        for key, weight in ours.pair.weights(policy)
        if weight.grad is not None
    }


def _logps(ours: AgonTrainer, batch: Batch) -> torch.Tensor:
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    logits = ours.model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    logps = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return logps[:, -batch["completion_ids"].shape[1] :]


def test_rows_without_padding_have_the_same_gradient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = trainer(tmp_path, gradient_checkpointing=True)
    batches = played(ours)
    lay_lines(monkeypatch, wanted=False)
    padded = {policy: gradients(ours, batches, policy) for policy in "AB"}
    lay_lines(monkeypatch, wanted=True)
    for policy in "AB":
        error = relative_error(gradients(ours, batches, policy), padded[policy])
        assert 0 < error < 1e-5, "the same, by another way"
    ours.close()


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("beta", [0.0, 0.04])
@pytest.mark.parametrize(("accumulation", "iterations"), [(2, 1), (4, 1), (4, 2)])
def test_gradients_equal_a_plain_pytorch_computation(
    tmp_path: Path, accumulation: int, iterations: int, beta: float, checkpointing: bool
) -> None:
    ours = trainer(
        tmp_path,
        gradient_accumulation_steps=accumulation,
        per_device_train_batch_size=32 // accumulation,
        num_iterations=iterations,
        beta=beta,
        gradient_checkpointing=checkpointing,
        loss_type="dapo",
    )
    batches = played(ours)
    if iterations == 2:
        assert "old_per_token_logps" in batches[0]
        with torch.no_grad():  # the second pass over a round no longer is on-policy
            for name in "AB":
                for _, weight in ours.pair.weights(name):
                    weight.add_(0.01 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(5)))
    for policy in "AB":
        expected = plain_gradient(ours, batches, policy)
        assert relative_error(gradients(ours, batches, policy), expected) < 1e-5
    ours.close()
