"""A step that runs out of memory is made again with less, instead of ending the run.

First gradient checkpointing is switched on, if it is off; then the micro-batches are halved, once. The gradients of
the step so far are thrown away and computed again from the same rollouts, so the step is the one that it would have
been. What runs out in sampling is not handled here, nor with several processes, whose passes go in step.
"""

from typing import Any

import torch
from torch import nn
from trl import GRPOTrainer

from agon.train.passes import Pass
from agon.train.streams import PER_TOKEN_LOSSES, Batch, loss_mask, take_rows


class RecoveringTrainer(GRPOTrainer):
    """Computes a step's gradients again with less memory when there was not enough."""

    # The micro-batches since the last optimizer step, and whether that step is made.
    _window: list[Batch]
    _window_over: bool = True
    _again: Batch | None = None  # what the next micro-step is about, if it is not the first try
    _halved: bool = False

    def train(self, *args: Any, **kwargs: Any) -> Any:
        self._window_over, self._again = True, None  # an earlier training may have stopped within a step
        return super().train(*args, **kwargs)

    def training_step(self, model: nn.Module, *args: Any, **kwargs: Any) -> torch.Tensor:
        if self._window_over:
            self._window, self._window_over = [], False
        before = len(self._window)
        while True:
            try:
                if self._again is not None:
                    self._start_window_again(model, before)
                loss: torch.Tensor = super().training_step(model, *args, **kwargs)
                break
            except torch.OutOfMemoryError:
                if len(self._window) == before or not self._can_save_memory():
                    raise
            # Only here are the frames of the failed pass gone, and what they held.
            self._save_memory()
            self._again = self._window[before]
        self._again = None
        self._window_over = bool(self.accelerator.sync_gradients)
        return loss

    def compute_loss(self, model: nn.Module, inputs: Batch, *args: Any, **kwargs: Any) -> Any:
        if self._again is None:
            self._window.append(inputs)
        return super().compute_loss(model, self._smaller(inputs), *args, **kwargs)

    def _smaller(self, inputs: Batch) -> Batch:
        if not self._halved:
            return inputs
        passes: list[Pass] = inputs.get("passes", [[inputs]])
        return {"passes": [half for each in passes for half in halves_of_pass(each, self.loss_type)]}

    def _can_save_memory(self) -> bool:
        return self.accelerator.num_processes == 1 and not (self._halved and self._checkpoints)

    @property
    def _checkpoints(self) -> bool:
        return bool(self.accelerator.unwrap_model(self.model).is_gradient_checkpointing)

    def _save_memory(self) -> None:
        torch.cuda.empty_cache()
        if self._checkpoints:
            self._halved = True
            what = "micro-batches are halved"
        else:
            self.args.gradient_checkpointing = True
            self.model.enable_input_require_grads()
            self.model.gradient_checkpointing_enable(self.args.gradient_checkpointing_kwargs)
            what = "gradient checkpointing is on"
        self.on_warning(
            f"Memory ran out in step {self.state.global_step + 1}: it is made again, and from now on {what}."
        )

    def _start_window_again(self, model: nn.Module, done: int) -> None:
        """Compute the gradients of the step's earlier micro-batches again; the present one follows."""
        model.zero_grad(set_to_none=True)
        for inputs in self._window[:done]:
            with self.compute_loss_context_manager():
                loss = self.compute_loss(model, inputs)
            self.accelerator.backward(loss)


def halves_of_pass(batches: Pass, loss: str) -> list[Pass]:
    """A pass in two, each with half of every stream's rows."""
    split = [halves(batch, loss) for batch in batches]
    return [part for number in (0, 1) if (part := [each[number] for each in split if number < len(each)])]


def halves(batch: Batch, loss: str) -> list[Batch]:
    """A micro-batch in two of like length, whose losses add up to its own; one of a single row stays whole."""
    rows = len(batch["completion_mask"])
    if rows < 2:
        return [batch]
    lengths = batch["prompt_mask"].sum(1) + batch["completion_mask"].sum(1)
    counted = loss_mask(batch).sum(1)
    found = []
    for part in lengths.argsort(stable=True).cpu().tensor_split(2):
        share = 1.0
        if loss == "bnpo":  # a mean over tokens
            share = float(counted[part].sum() / counted.sum().clamp(min=1))
        elif loss not in PER_TOKEN_LOSSES:
            share = len(part) / rows
        found.append({**take_rows(batch, part, len(part)), "weight": batch["weight"] * share})
    return found
