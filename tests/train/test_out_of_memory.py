"""A step that runs out of memory is made again with less, and comes out as it would have."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from agon.train.out_of_memory import halves
from agon.train.streams import Batch
from agon.train.trainer import AgonTrainer
from tests.train.build import trainer
from tests.train.test_oracle import gradients, played, relative_error


def fails_at(ours: AgonTrainer, forwards: set[int]) -> list[int]:
    """Let some of the forward passes with gradients run out of memory halfway; returns the rows of all of them."""
    rows: list[int] = []
    base = ours.pair.model.get_base_model().base_model

    def count(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        if torch.is_grad_enabled():
            rows.append(len(kwargs["input_ids"]))

    def fail(module: nn.Module, *_: Any) -> None:
        if torch.is_grad_enabled() and len(rows) - 1 in forwards:
            forwards.discard(len(rows) - 1)
            raise torch.OutOfMemoryError("CUDA out of memory (made up).")

    base.register_forward_pre_hook(count, with_kwargs=True)
    base.layers[-1].register_forward_pre_hook(fail)
    return rows


def end_of(ours: AgonTrainer) -> list[torch.Tensor]:
    ours.train()
    ends = [weight.detach().clone() for name in "AB" for _, weight in ours.pair.weights(name)]
    ours.close()
    return ends


OPTIONS: dict[str, Any] = {"max_steps": 1, "optim": "sgd"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[torch.Tensor]:
    return end_of(trainer(tmp_path_factory.mktemp("undisturbed"), **OPTIONS))


def test_a_step_that_runs_out_of_memory_goes_on_with_checkpointing_then_with_halves(
    tmp_path: Path, undisturbed: list[torch.Tensor]
) -> None:
    ours = trainer(tmp_path, **OPTIONS)
    said: list[str | None] = []
    ours.on_warning = said.append
    rows = fails_at(ours, {2, 4})  # the third micro-batch, then the second of the second try
    ends = end_of(ours)
    told = [sentence for sentence in said if sentence]
    assert [("checkpointing is on" in each, "are halved" in each) for each in told] == [
        (True, False),
        (False, True),
    ]
    assert ours.args.gradient_checkpointing
    assert max(rows[5:]) <= max(rows[:3]) // 2 + 1
    for found, expected in zip(ends, undisturbed, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def test_the_third_time_it_ends(tmp_path: Path) -> None:
    ours = trainer(tmp_path, **OPTIONS)
    fails_at(ours, set(range(100)))
    with pytest.raises(torch.OutOfMemoryError):
        ours.train()
    ours.close()


def test_halves_have_the_gradient_of_the_whole(tmp_path: Path) -> None:
    ours = trainer(tmp_path)
    batches = played(ours)
    for loss in ("grpo", "bnpo", "dapo"):
        ours.loss_type = loss
        whole = gradients(ours, batches, "A")
        parts: list[Batch] = [half for batch in batches if batch["weight"] for half in halves(batch, loss)]
        assert len(parts) > len(batches) / 2
        assert relative_error(gradients(ours, parts, "A"), whole) < 1e-5
    ours.close()
