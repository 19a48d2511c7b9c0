"""A trainer whose micro-steps may make several passes, and whose passes may hold rows of both policies.

TRL computes every loss. For a pass of both policies the model runs once; then TRL is asked for each stream's loss on
its own rows, and finds their log-probs already there. The sum of the two is the loss of the pass.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import nn
from trl import GRPOTrainer

from agon.errors import InputError
from agon.policies import Pair
from agon.train.config import AgonConfig
from agon.train.option_combinations import pass_refusals
from agon.train.packing import Line, long_enough, packed_logps, worth_packing
from agon.train.passes import Division, Pass, join, lay_out
from agon.train.streams import Batch, Stream


class PassTrainer(GRPOTrainer):
    """Lays rows out in passes where the options ask for it, and computes their losses."""

    args: AgonConfig
    pair: Pair
    _packs: bool
    # Log-probs and entropies of the rows whose loss is being computed, where a joint pass has found them.
    _found: tuple[torch.Tensor, torch.Tensor | None] | None = None

    @property
    def _in_passes(self) -> bool:
        return self.args.both_policies_at_once or self.args.micro_batch_tokens is not None

    def _refuse_passes(self) -> None:
        """Refuse what passes were not made for, before anything is sampled."""
        for refusal in pass_refusals(vars(self.args), self.accelerator.num_processes):
            raise InputError(refusal)
        if self.args.both_policies_at_once:
            self.pair.refuse_unlike_rows()

    def _lay_out_passes(self, streams: Sequence[Stream], batches: Sequence[Batch]) -> list[Batch]:
        steps = self.args.steps_per_generation
        division = Division(
            micro_steps=steps,
            windows=max(1, steps // self.args.gradient_accumulation_steps),
            loss=self.loss_type,
            tokens=self.args.micro_batch_tokens,
            rows=self.args.per_device_train_batch_size,
            together=self.args.both_policies_at_once,
            packs=partial(long_enough, device=self.accelerator.device.type) if self._packs else None,
        )
        return lay_out(streams, batches, division)

    def _loss_of_passes(self, model: nn.Module, passes: list[Pass]) -> torch.Tensor:
        """The last pass's loss; those before it have had their backward pass already, and are in its value."""
        total = torch.zeros((), device=self.accelerator.device)
        if not passes:
            return self._no_loss()
        for batches in passes[:-1]:
            loss = self._loss_of_pass(model, batches)
            self.accelerator.backward(loss)
            total += loss.detach()
        return self._loss_of_pass(model, passes[-1]) + total

    def _no_loss(self) -> torch.Tensor:
        """The loss of a micro-step that has no rows: nothing is computed for it.

        With fp16 it leaves gradients of zero, for a scaler that has seen none refuses to step.
        """
        if self.accelerator.scaler is not None:
            _, weight = self.pair.weights(self.pair.names[0])[0]
            return 0.0 * weight.sum()
        return torch.zeros((), device=self.accelerator.device, requires_grad=True)

    def _loss_of_pass(self, model: nn.Module, batches: Pass) -> torch.Tensor:
        if len(batches) == 1:
            loss: torch.Tensor = self._compute_loss(model, batches[0])
            return loss
        ids, mask, completion = join(batches)
        sizes = [len(batch["completion_ids"]) for batch in batches]
        policies = torch.tensor([self.pair.names.index(batch["policy"]) for batch in batches])
        rows = policies.repeat_interleave(torch.tensor(sizes))[:, None].to(ids.device)
        logps, entropies = self._joint_logps(model, ids, mask, completion, rows)
        total = torch.zeros((), device=ids.device)
        parts = zip(batches, logps.split(sizes), entropies.split(sizes), strict=True)
        for batch, own, entropy in parts:
            width = batch["completion_ids"].shape[1]
            self._found = own[:, :width], entropy[:, :width]
            try:
                total = total + self._weighted_loss(model, batch)
            finally:
                self._found = None
        return total

    def _joint_logps(
        self, model: nn.Module, ids: torch.Tensor, mask: torch.Tensor, completion: int, rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probs and entropies of rows, each under its own policy, which stays so through the backward pass."""
        self.pair.cast_inputs(not self.accelerator.native_amp)
        if self._packs and worth_packing(mask):
            line = Line.of(ids, mask, completion, rows)
            self.pair.activate_rows(rows.expand_as(mask)[line.kept][None])
            with self.accelerator.autocast():
                logps, entropies = packed_logps(model, line)
        else:
            self.pair.activate_rows(rows)
            logps, entropies, _ = GRPOTrainer._get_per_token_logps_and_entropies(
                self, model, ids, mask, completion, compute_entropy=True
            )
        assert entropies is not None
        return logps, entropies

    def _weighted_loss(self, model: nn.Module, inputs: Batch) -> torch.Tensor:
        """TRL's loss of one micro-batch under the policy that is active, with its weight."""
        with self._metrics_of(inputs["stream"]):
            loss: torch.Tensor = GRPOTrainer._compute_loss(self, model, inputs)
        return loss * inputs["weight"]
