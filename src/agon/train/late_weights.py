"""Importance weights from the training pass itself, instead of from a forward of their own.

Rollouts of another engine, or of the round before, are weighed by the ratio of the trainer's policies to those that
sampled. TRL scores every rollout for it before training begins. Where a round feeds one optimizer step, the training
pass runs under the same weights and finds the same log-probs: `score_in_training` takes the weights from there, in
the middle of TRL's loss, and saves that forward. The figures of the correction are known when the gradients are, and
still before the optimizer's step.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from trl import GRPOTrainer

from agon.train.config import AgonConfig
from agon.train.importance import SUMS, figures_of, importance_weights, sums_of
from agon.train.logprob_gap import SamplerWatch
from agon.train.option_combinations import late_refusals
from agon.train.streams import Batch, Stream, loss_mask


class LateWeightTrainer(GRPOTrainer):
    """Weighs rollouts in the training pass, unless `score_in_training` is off or does not fit the run."""

    args: AgonConfig
    _sampler: SamplerWatch
    _weighing: Batch | None = None  # the micro-batch whose loss TRL is computing
    _weighed: dict[str, torch.Tensor]  # of each stream, since the last optimizer step
    _late_streams: list[Stream]  # the same in all processes

    @property
    def _weighs_late(self) -> bool:
        chosen = self.args.score_in_training
        if chosen is None:
            chosen = not any(late_refusals({**vars(self.args), "score_in_training": True}))
        return chosen and self.use_vllm and self.args.vllm_importance_sampling_correction

    @contextmanager
    def _without_weights(self) -> Iterator[None]:
        """TRL scores no rollout while this is open, if they are weighed later."""
        if not self._weighs_late:
            yield
            return
        self.vllm_importance_sampling_correction = False
        try:
            yield
        finally:
            self.vllm_importance_sampling_correction = True

    def _weighted_loss(self, model: nn.Module, inputs: Batch) -> torch.Tensor:
        if not self._weighs_late:
            loss: torch.Tensor = super()._weighted_loss(model, inputs)
            return loss
        self._weighing = {**inputs}
        try:
            loss = super()._weighted_loss(model, self._weighing)
        finally:
            self._weighing = None
        return loss

    def _get_per_token_logps_and_entropies(self, *words: Any, **named: Any) -> Any:
        found = super()._get_per_token_logps_and_entropies(*words, **named)
        if self._weighing is not None:
            self._weigh(self._weighing, found[0].detach())
        return found

    def _weigh(self, batch: Batch, logps: torch.Tensor) -> None:
        """Put the weights where TRL's loss looks for them, and count them."""
        mask = loss_mask(batch)
        difference = torch.nan_to_num((logps - batch["sampling_per_token_logps"]) * mask)
        weight = importance_weights(
            difference,
            self.args.vllm_importance_sampling_mode,
            self.args.vllm_importance_sampling_clip_min,
            self.args.vllm_importance_sampling_clip_max,
        )
        batch["importance_sampling_ratio"] = weight
        sums = sums_of(difference, weight, mask.bool(), batch["advantages"])
        known = self._weighed.get(batch["stream"])
        self._weighed[batch["stream"]] = sums if known is None else known + sums

    def _start_window_again(self, *words: Any) -> None:
        self._weighed.clear()
        super()._start_window_again(*words)

    def _see_weights(self) -> None:
        """Log what the correction did to a step's gradients, and refuse the step if the sampler is far off."""
        for stream in self._late_streams:
            sums = self._weighed.get(stream.name)
            nothing = torch.zeros(SUMS, device=self.accelerator.device)
            found = figures_of(nothing if sums is None else sums, self.accelerator)
            for name, value in found.items():
                self._metrics["train"][f"{stream.name}/sampling/{name}"].append(value)
            if found:
                mean = f"{stream.name}/sampling/sampling_logp_difference/mean"  # TRL's name for it
                self._metrics["train"][mean].append(found["gap"])
                self._sampler.see(stream, found, int(self.state.global_step))
        self._weighed.clear()
