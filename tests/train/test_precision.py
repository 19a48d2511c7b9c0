"""Training in bfloat16 over float32 adapters: the shortcut through autocast changes no bit."""

from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel, PrinterCallback

from agon.train.trainer import AgonTrainer
from tests import tiny
from tests.train.build import config


def half_base() -> PreTrainedModel:
    base = tiny.model()
    base.to(dtype=torch.bfloat16)  # type: ignore[call-arg]
    return base


def mixed(folder: Path, **options: bool) -> AgonTrainer:
    args = config(folder, bf16=True, **options)
    made = AgonTrainer(half_base(), tiny.task(), args, processing_class=tiny.tokenizer())
    made.remove_callback(PrinterCallback)
    return made


@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradients_are_the_same_to_the_last_bit(
    tmp_path: Path, checkpointing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = mixed(tmp_path, gradient_checkpointing=checkpointing)
    ours.model.train()
    ours.current_gradient_accumulation_steps = ours.args.gradient_accumulation_steps
    rows = [{"index": index} for index in range(4) for _ in range(ours.args.num_generations)]
    batches = ours._play_round(rows)
    assert {weight.dtype for _, weight in ours.pair.weights("A")} == {torch.float32}

    def gradients() -> dict[str, torch.Tensor]:
        ours.model.zero_grad()
        for batch in batches:
            ours._compute_loss(ours.model, batch).backward()
        return {
            key: weight.grad.clone()
            for name in "AB"
            for key, weight in ours.pair.weights(name)
            if weight.grad is not None
        }

    short = gradients()
    cast: list[bool] = []
    monkeypatch.setattr(ours.pair, "cast_inputs", cast.append)
    for layer in ours.pair._layers:
        layer.cast_input_dtype_enabled = True
    long = gradients()
    assert cast == [False] * len(batches)
    assert short.keys() == long.keys() != set()
    assert any(float(value.abs().max()) > 0 for value in short.values())
    for key, value in short.items():
        assert torch.equal(value, long[key]), key
    ours.close()


def test_sampling_without_autocast_comes_between_steps(tmp_path: Path) -> None:
    ours = mixed(tmp_path)
    ours.train()
    assert ours.state.global_step == 2
    assert all(layer.cast_input_dtype_enabled for layer in ours.pair._layers)
    ours.close()
