"""Sampling live, for serving: tokens as they are drawn, and requests that can be cancelled.

An engine that can do so has a method `live()`. One that cannot still serves (`Completions`), with each
completion in one piece.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from agon.engines.protocol import Engine, Request
from agon.game.rollout import FinishReason


@dataclass(frozen=True, slots=True)
class Piece:
    """New tokens of a request, and why it ended if these are its last."""

    key: str
    token_ids: Sequence[int]
    finish_reason: FinishReason | None = None


class LiveEngine(Protocol):
    """Samples step by step. Keys are unique among running requests.

    All calls come from one thread; an engine with a true `submits_anytime` takes new requests from another one
    while it advances.
    """

    def submit(self, requests: Sequence[Request], whole: bool = False, seeded: bool = True) -> None:
        """Queue requests; `whole` ones return all their tokens in their last piece.

        Without `seeded` an engine may ignore the seeds, if it samples faster so.
        """

    def cancel(self, keys: Collection[str]) -> None:
        """Forget requests. Keys that are unknown, or have ended, are ignored."""

    def advance(self) -> list[Piece]:
        """Sample a little further and return what is new."""

    @property
    def running(self) -> int:
        """Requests that have not ended."""

    def close(self) -> None:
        """Forget everything. The engine itself stays open."""


def live_engine(engine: Engine) -> LiveEngine:
    """The live side of an engine, or its completions one by one."""
    make = getattr(engine, "live", None)
    found: LiveEngine = make() if make is not None else Completions(engine)
    return found


class Completions:
    """Any engine as a live one, without the life: every completion arrives in one piece."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pending: set[str] = set()
        self._cancelled: set[str] = set()

    def submit(self, requests: Sequence[Request], whole: bool = False, seeded: bool = True) -> None:
        self._engine.submit(requests)
        self._pending.update(request.key for request in requests)

    def cancel(self, keys: Collection[str]) -> None:
        self._cancelled |= self._pending & set(keys)

    def advance(self) -> list[Piece]:
        finished = self._engine.collect()
        keys = {done.request.key for done in finished}
        pieces = [
            Piece(done.request.key, done.rollout.token_ids, done.rollout.finish_reason)
            for done in finished
            if done.request.key not in self._cancelled
        ]
        self._pending -= keys
        self._cancelled -= keys
        return pieces

    @property
    def running(self) -> int:
        return len(self._pending)

    def close(self) -> None:
        self._cancelled |= self._pending
