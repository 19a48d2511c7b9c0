"""One batch of completions with transformers, from prefill to its last token.

Prompts are left-padded, a prompt that many requests share is run once, and rows that have finished
leave the batch. All requests of a batch have one policy and one way of sampling.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import nn

from agon.engines.protocol import Request, Sampling
from agon.engines.sampler import UniformStreams, draw, warpers


def take_batch(pending: Sequence[Request], max_rows: int) -> tuple[list[Request], list[Request]]:
    """Requests with the oldest one's policy and sampling, the shortest prompts first; and what is left."""
    first = _kind(pending[0])
    same = [index for index, request in enumerate(pending) if _kind(request) == first]
    # Sorting by the prompt itself keeps equal prompts side by side, where one prefill serves all.
    same.sort(key=lambda index: (len(pending[index].prompt_ids), pending[index].prompt_ids))
    chosen = same[:max_rows]
    taken = set(chosen)
    rest = [request for index, request in enumerate(pending) if index not in taken]
    return [pending[index] for index in chosen], rest


def _kind(request: Request) -> tuple[str, Sampling]:
    """What the requests of a batch share: all but their prompts, seeds and lengths."""
    return request.policy, replace(request.sampling, max_tokens=0)


@dataclass
class Row:
    """A completion so far."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    stopped: bool = False


class Batch:
    """One batch from prefill to its last token."""

    # Finished rows are removed in groups, because each removal copies the cache.
    SHRINK_BELOW = 0.75

    def __init__(self, requests: Sequence[Request], stop_ids: torch.Tensor, pad_id: int) -> None:
        self.requests = requests
        self.sampling = requests[0].sampling
        self.stop_ids = stop_ids.new_empty(0) if self.sampling.ignore_stop else stop_ids
        self.pad_id = pad_id
        self.rows = [Row() for _ in requests]
        self.uniforms = UniformStreams([request.seed for request in requests])
        self.warp = warpers(self.sampling)
        self.dropped: set[int] = set()  # rows that nobody waits for any more

    def run(self, model: nn.Module) -> list[Row]:
        for _ in self.steps(model):
            pass
        return self.rows

    def steps(self, model: nn.Module) -> Iterator[list[int]]:
        """Draw one token for every row still running, again and again; each time, the rows that got one."""
        device = next(model.parameters()).device
        stop_ids = self.stop_ids.to(device)
        context, mask, logits, cache = self._prefill(model, device)
        live = list(range(len(self.requests)))
        running = torch.ones(len(live), dtype=torch.bool, device=device)
        limits = torch.tensor([request.sampling.max_tokens for request in self.requests], device=device)
        for position in range(int(limits.max())):
            scores = logits
            if self.warp:
                scores = self.warp(cast(torch.LongTensor, context), cast(torch.FloatTensor, logits.float()))
            tokens, logprobs = draw(scores, self.sampling, self.uniforms.at(position, live))
            stops = torch.isin(tokens, stop_ids) & running
            drawn = self._record(live, running, tokens, logprobs, stops)
            running &= ~stops & (limits > position + 1)
            yield drawn
            if self.dropped:
                running &= torch.tensor([row not in self.dropped for row in live], device=device)
            if not running.any():
                break
            kept = int(running.sum())
            if kept < self.SHRINK_BELOW * len(live):
                index = running.nonzero()[:, 0]
                cache.reorder_cache(index)
                context, mask, tokens = context[index], mask[index], tokens[index]
                live = [live[row] for row in index.tolist()]
                running, limits = running[index], limits[index]
            mask = torch.cat([mask, mask.new_ones(len(live), 1)], dim=1)
            if self.warp:  # only the repetition penalty reads it
                context = torch.cat([context, tokens[:, None]], dim=1)
            output = model(
                input_ids=tokens[:, None],
                attention_mask=mask,
                position_ids=mask.sum(-1, keepdim=True) - 1,
                past_key_values=cache,
                use_cache=True,
            )
            logits, cache = output.logits[:, -1], output.past_key_values

    def _prefill(
        self, model: nn.Module, device: torch.device
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Any]:
        """Run each distinct prompt once, left-padded, and give every request its copy of the cache."""
        places: dict[tuple[int, ...], int] = {}
        copies = torch.tensor(
            [places.setdefault(request.prompt_ids, len(places)) for request in self.requests], device=device
        )
        width = max(map(len, places))
        ids = torch.full((len(places), width), self.pad_id)
        mask = torch.zeros((len(places), width), dtype=torch.long)
        for prompt, row in places.items():
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        ids, mask = ids.to(device), mask.to(device)
        output = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
            use_cache=True,
            logits_to_keep=1,
        )
        cache = output.past_key_values
        if len(places) < len(self.requests):
            cache.reorder_cache(copies)
        return ids[copies], mask[copies], output.logits[copies, -1], cache

    def _record(
        self,
        live: Sequence[int],
        running: torch.Tensor,
        tokens: torch.Tensor,
        logprobs: torch.Tensor,
        stops: torch.Tensor,
    ) -> list[int]:
        drawn = []
        columns = zip(live, running.tolist(), tokens.tolist(), logprobs.tolist(), stops.tolist(), strict=True)
        for row, still, token, logprob, stopped in columns:
            if still:
                self.rows[row].token_ids.append(token)
                self.rows[row].logprobs.append(logprob)
                self.rows[row].stopped = stopped
                drawn.append(row)
        return drawn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode within a block: no dropout, no gradient checkpointing."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
