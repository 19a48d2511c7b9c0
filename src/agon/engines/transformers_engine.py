"""Sampling with transformers from the trainer's own weights: the default on a CPU.

Requests of one policy are sampled together, sorted by prompt length; a prompt that many requests
share is prefilled once; rows that have finished leave the batch. What it leaves out: paged attention
and adding new requests to a running batch (use vLLM for those).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from agon.engines.context_length import positions_of
from agon.engines.protocol import Capabilities, Finished, Request, check_request
from agon.engines.transformers_batch import Batch, evaluating, take_batch
from agon.game.rollout import Rollout
from agon.policies.attention import use_own_attention
from agon.policies.pair import BASE, Pair

if TYPE_CHECKING:
    from agon.engines.live_transformers import LiveTransformers


class TransformersEngine:
    """Samples from a pair's live weights, a batch of one policy at a time."""

    capabilities = Capabilities("transformers", streams=False, live_weights=True, logprobs=True)

    def __init__(
        self,
        pair: Pair,
        decode: Callable[[Sequence[int]], str],
        stop_ids: Sequence[int],
        pad_id: int,
        max_rows: int = 256,
    ) -> None:
        self._pair = pair
        self._decode = decode
        self._stop_ids = torch.tensor(sorted(set(stop_ids)))
        self._pad_id = pad_id
        self._max_rows = max_rows
        use_own_attention(pair.model.get_base_model())
        self.positions = positions_of(pair.model.config)
        self._versions: dict[str, int] = {BASE: 0}
        self._pending: list[Request] = []

    def sync(self, policy: str, version: int) -> None:
        if policy != BASE:
            self._pair.weights(policy)
        self._versions[policy] = version

    def submit(self, requests: Sequence[Request]) -> None:
        for request in requests:
            check_request(request, self._versions)
        self._pending += requests

    def collect(self) -> list[Finished]:
        if not self._pending:
            return []
        batch, self._pending = take_batch(self._pending, self._max_rows)
        model = self._pair.model
        with self._pair.sampling_as(batch[0].policy), evaluating(model), torch.inference_mode():
            sampled = Batch(batch, self._stop_ids, self._pad_id).run(model)
        return [
            Finished(
                request,
                Rollout(
                    text=self._decode(row.token_ids),
                    length=len(row.token_ids),
                    finish_reason="stop" if row.stopped else "length",
                    policy=request.policy,
                    version=request.version,
                    token_ids=tuple(row.token_ids),
                    logprobs=tuple(row.logprobs),
                ),
            )
            for request, row in zip(batch, sampled, strict=True)
        ]

    def sleep(self) -> None: ...

    def wake(self) -> None: ...

    def recover(self, error: Exception | None) -> None:
        """Forget every request; where memory was short, sample fewer rows at once from now on."""
        self._pending.clear()
        if isinstance(error, torch.OutOfMemoryError):
            self._max_rows = max(1, self._max_rows // 2)
            torch.cuda.empty_cache()

    def close(self) -> None:
        self._pending.clear()

    def live(self) -> "LiveTransformers":
        """The same weights, sampled token by token."""
        from agon.engines.live_transformers import LiveTransformers

        return LiveTransformers(self._pair, self._versions, self._stop_ids, self._pad_id, self._max_rows)


def stop_ids(model: nn.Module, tokenizer: Any) -> list[int]:
    """Every token that ends a completion: the tokenizer's end token and those that the model declares."""
    declared = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ids = [declared] if isinstance(declared, int) else list(declared or [])
    return sorted({*ids, tokenizer.eos_token_id})
