"""Sampling with transformers token by token: two batches in turn, each of one policy.

A batch cannot take new rows in, so requests that come while others are sampled form a batch of their
own, which runs in turn with the one before it. Only two batches run at a time: what comes after that
waits for one of them to end, and the more wait, the larger the next batch is.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch

from agon.engines.live import Piece
from agon.engines.protocol import Request, check_request
from agon.engines.transformers_batch import Batch, evaluating, take_batch
from agon.game.rollout import FinishReason
from agon.policies.pair import Pair

# A step costs about the same for one row as for many, so few large batches sample more tokens than many small
# ones; with one alone, whoever comes waits for the longest completion before them.
MOST_BATCHES = 2
# Tokens that a batch draws before the next one has its turn: switching the policy takes a loop over all layers.
TURN = 4


@dataclass
class _Running:
    """A batch, where it is, and which of its rows are wanted in one piece."""

    batch: Batch
    steps: Iterator[list[int]]
    whole: set[int]
    ended: set[int] = field(default_factory=set)
    tokens_left: int = TURN

    @property
    def policy(self) -> str:
        return self.batch.requests[0].policy


class LiveTransformers:
    """Samples from a pair's weights, a token of one batch at a time."""

    def __init__(
        self,
        pair: Pair,
        versions: Mapping[str, int],
        stop_ids: torch.Tensor,
        pad_id: int,
        max_rows: int,
    ) -> None:
        self._pair = pair
        self._versions = dict(versions)
        self._stop_ids = stop_ids
        self._pad_id = pad_id
        self._max_rows = max_rows
        self._waiting: list[Request] = []
        self._whole: set[str] = set()
        self._batches: list[_Running] = []
        self._active: str | None = None
        self._using = ExitStack()

    def submit(self, requests: Sequence[Request], whole: bool = False, seeded: bool = True) -> None:
        for request in requests:
            check_request(request, self._versions)
        self._waiting += requests
        if whole:
            self._whole.update(request.key for request in requests)

    def cancel(self, keys: Collection[str]) -> None:
        gone = set(keys)
        self._whole -= gone
        self._waiting = [request for request in self._waiting if request.key not in gone]
        for running in self._batches:
            rows = {row for row, request in enumerate(running.batch.requests) if request.key in gone}
            running.batch.dropped |= rows
            running.ended |= rows

    def advance(self) -> list[Piece]:
        self._batches = [running for running in self._batches if not self._is_over(running)]
        if self._waiting and len(self._batches) < MOST_BATCHES:
            # In front: whoever waits for a first token waits longest for it.
            self._batches.insert(0, self._start())
        if not self._batches:
            return []
        running = self._batches[0]
        with torch.inference_mode(), evaluating(self._pair.model):
            self._activate(running.policy)
            drawn = next(running.steps, None)
        pieces = [] if drawn is None else self._pieces(running, drawn)
        running.tokens_left -= 1
        if drawn is None or self._is_over(running):
            self._batches.pop(0)
        elif running.tokens_left == 0:
            running.tokens_left = TURN
            self._batches.append(self._batches.pop(0))
        return pieces

    @property
    def running(self) -> int:
        in_batches = (len(running.batch.requests) - len(running.ended) for running in self._batches)
        return len(self._waiting) + sum(in_batches)

    def close(self) -> None:
        self._waiting.clear()
        self._batches.clear()
        self._using.close()
        self._active = None

    def _start(self) -> _Running:
        requests, self._waiting = take_batch(self._waiting, self._max_rows)
        batch = Batch(requests, self._stop_ids, self._pad_id)
        whole = {row for row, request in enumerate(requests) if request.key in self._whole}
        self._whole -= {request.key for request in requests}
        return _Running(batch, batch.steps(self._pair.model), whole)

    def _activate(self, policy: str) -> None:
        """Make a policy the active one until another is wanted."""
        if policy != self._active:
            self._using.close()
            self._using.enter_context(self._pair.using(policy))
            self._active = policy

    def _is_over(self, running: _Running) -> bool:
        return len(running.ended) == len(running.batch.requests)

    def _pieces(self, running: _Running, drawn: Sequence[int]) -> list[Piece]:
        pieces = []
        for number in drawn:
            if number in running.ended:
                continue
            row, request = running.batch.rows[number], running.batch.requests[number]
            ran_out = len(row.token_ids) >= request.sampling.max_tokens
            over = row.stopped or ran_out
            if over:
                running.ended.add(number)
            elif number in running.whole:
                continue
            tokens = row.token_ids if number in running.whole else row.token_ids[-1:]
            reason: FinishReason | None = None if not over else "stop" if row.stopped else "length"
            pieces.append(Piece(request.key, tuple(tokens), reason))
        return pieces
