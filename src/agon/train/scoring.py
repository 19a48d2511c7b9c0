"""A trainer's own view of rollouts: the log-probs of their tokens under the policy that is active."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from trl import GRPOTrainer
from trl.trainer.utils import pad

from agon.game.rollout import Rollout
from agon.policies import Pair
from agon.train.config import AgonConfig
from agon.train.packing import Line, packed_logps, worth_packing
from agon.train.sharding import missing_forwards
from agon.train.streams import Stream, parts_by_length, parts_in_order, score_in_parts

# Tokens of rollouts that are scored in one forward to check the sampler: one row at a time, a GPU would mostly wait.
TOGETHER = 8192


class ScoringTrainer(GRPOTrainer):
    """Scores rows of like length together, without padding where they are long, and no row that was dropped."""

    args: AgonConfig
    pair: Pair
    is_fsdp_enabled: bool
    _playing: Stream | None
    _packs: bool
    _found: tuple[torch.Tensor, torch.Tensor | None] | None

    def _get_per_token_logps_and_entropies(
        self, model: nn.Module, input_ids: Any, attention_mask: Any, logits_to_keep: int, **rest: Any
    ) -> Any:
        """TRL's, with rows of like length together and without their padding where they come in parts."""
        if self._found is not None:
            return *self._found, None
        rows = rest.pop("batch_size", None) or len(input_ids)
        whole = partial(self._logps_of_rows, super()._get_per_token_logps_and_entropies)
        if self._playing is None or any(value is not None for value in rest.values()):
            return whole(model, input_ids, attention_mask, logits_to_keep, batch_size=rows, **rest)

        def score(ids: torch.Tensor, mask: torch.Tensor, completion: int) -> torch.Tensor:
            logps: torch.Tensor = whole(model, ids, mask, completion)[0]
            return logps

        # Dropped groups leave the batch: their rows keep the sampler's own log-probs, which cost nothing.
        scored = sampled_logprobs(self._playing, logits_to_keep, input_ids.device)
        kept = torch.tensor(self._playing.kept(), dtype=torch.long, device=input_ids.device)
        parts = self._parts(attention_mask[kept], rows)
        missing = self._missing_forwards(len(parts))
        self.pair.cast_inputs(not self._autocasts)
        try:
            scored[kept] = score_in_parts(score, input_ids[kept], attention_mask[kept], logits_to_keep, parts)
            for _ in range(missing):
                score(input_ids[:1], attention_mask[:1], logits_to_keep)
        finally:
            self.pair.cast_inputs(True)
        return scored, None, None

    def _parts(self, mask: torch.Tensor, rows: int) -> list[torch.Tensor]:
        """Which rows are scored together: in a line, those of one group, which share a prompt."""
        tokens = self.args.micro_batch_tokens
        if self._packs and tokens is not None and worth_packing(mask):
            return parts_in_order(mask, tokens)
        return parts_by_length(mask, rows)

    def _logps_of_rows(
        self, padded: Callable[..., Any], model: nn.Module, ids: Any, mask: Any, completion: int, **rest: Any
    ) -> Any:
        """TRL's log-probs and entropies, or the same without padding where rows are long."""
        if not self._packs or rest.get("compute_aux_loss") or not worth_packing(mask):
            return padded(model, ids, mask, completion, **rest)
        with self.accelerator.autocast():
            logps, entropies = packed_logps(model, Line.of(ids, mask, completion))
        return logps, entropies if rest.get("compute_entropy") else None, None

    @torch.no_grad()
    def _score_as(self, stream: Stream, batch: Mapping[str, Any], policy: str) -> torch.Tensor:
        """The log-probs of a scored stream's tokens under another policy than the one that wrote them."""
        ids, mask = (
            torch.cat([batch[f"prompt_{part}"], batch[f"completion_{part}"]], 1) for part in ("ids", "mask")
        )
        self._playing = stream
        try:
            with self.pair.using(policy):
                found: torch.Tensor = self._get_per_token_logps_and_entropies(
                    self.model,
                    ids,
                    mask,
                    batch["completion_ids"].shape[1],
                    batch_size=self.args.per_device_train_batch_size,
                )[0]
        finally:
            self._playing = None
        return found

    @torch.no_grad()
    def _logprobs(self, policy: str, rollouts: Sequence[Rollout]) -> list[torch.Tensor]:
        """Log-probs as training computes them, which never holds the scores of all tokens at once."""
        training = self.model.training
        self.model.eval()
        try:
            with self.pair.using(policy):
                rows = [len(rollout.prompt_ids) + rollout.length for rollout in rollouts]
                parts = together(rows, TOGETHER)
                missing = self._missing_forwards(len(parts))
                scored = [
                    self._logprobs_of([rollouts[row] for row in part])
                    for part in [*parts, *[parts[0]] * missing]
                ]
                return [each for part in scored[: len(parts)] for each in part]
        finally:
            self.model.train(training)

    def _logprobs_of(self, rollouts: Sequence[Rollout]) -> list[torch.Tensor]:
        """The log-probs of some rollouts in one forward."""
        device, longest = self.accelerator.device, max(rollout.length for rollout in rollouts)
        prompts = [torch.tensor(rollout.prompt_ids, device=device) for rollout in rollouts]
        completions = [torch.tensor(rollout.token_ids, device=device) for rollout in rollouts]
        ids = torch.cat([pad(prompts, padding_side="left"), pad(completions)], dim=1)
        real = [[torch.ones_like(row) for row in rows] for rows in (prompts, completions)]
        mask = torch.cat([pad(real[0], padding_side="left"), pad(real[1])], dim=1)
        scored = self._get_per_token_logps_and_entropies(self.model, ids, mask, longest)[0]
        return [row[: rollout.length] for row, rollout in zip(scored, rollouts, strict=True)]

    def _missing_forwards(self, own: int) -> int:
        """Asked by all processes before the first of these forwards."""
        return missing_forwards(own, self.accelerator) if self.is_fsdp_enabled else 0

    @property
    def _autocasts(self) -> bool:
        return bool(self.accelerator.native_amp)


def sampled_logprobs(stream: Stream, width: int, device: torch.device) -> torch.Tensor:
    """The sampler's log-probs of a stream, one row each, padded on the right."""
    rows = torch.zeros(len(stream.entries), width)
    for row, entry in zip(rows, stream.entries, strict=True):
        row[: len(entry.rollout.logprobs)] = torch.tensor(entry.rollout.logprobs)
    return rows.to(device)


def together(lengths: Sequence[int], tokens: int) -> list[range]:
    """Rows that follow one another, as many at a time as fit into so many tokens padded, and at least one."""
    parts: list[range] = []
    start = 0
    for end in range(1, len(lengths) + 1):
        if end == len(lengths) or (end + 1 - start) * max(lengths[start : end + 1]) > tokens:
            parts.append(range(start, end))
            start = end
    return parts
