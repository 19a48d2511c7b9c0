"""A thread that runs a live engine, and its streams for an event loop.

This thread and the loop share Python's interpreter lock, so tokens are handed over in portions: a
request's first token and its end at once, what is between at most `HANDOVERS_PER_S` times a second for
all streams together. One stream alone gets every token as it is drawn.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from itertools import count

from agon.engines.live import LiveEngine, Piece
from agon.engines.protocol import Request
from agon.errors import InputError
from agon.game.rollout import FinishReason
from agon.serve.sampling import UnavailableError

HANDOVERS_PER_S = 640
LOG = logging.getLogger("agon.serve")


@dataclass
class _Stream:
    """One request on the loop's side: what has arrived and was not yet taken."""

    loop: asyncio.AbstractEventLoop
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    error: Exception | None = None


@dataclass
class _Portion:
    """Tokens of a request on the engine's side, on their way."""

    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None


class Driver:
    """Samples on an engine of this process."""

    def __init__(self, engine: LiveEngine, max_model_len: int | None) -> None:
        self._engine = engine
        self._submits_anytime = getattr(engine, "submits_anytime", False)
        self.max_model_len = max_model_len
        self.trouble: str | None = None
        self._changed = threading.Condition()
        # Under the condition: what the loop wants of the engine.
        self._new: list[tuple[Request, bool, bool]] = []  # whole, seeded
        self._cancelled: set[str] = set()
        self._streams: dict[str, _Stream] = {}
        self._closed = False
        # The engine's thread only: what was drawn and not handed over yet.
        self._portions: dict[str, _Portion] = {}
        self._started: set[str] = set()
        self._handed_over = 0.0
        self._numbers = count()
        self._thread = threading.Thread(target=self._run, name="agon-engine", daemon=True)
        self._thread.start()

    @property
    def running(self) -> int:
        """Requests that somebody waits for, or that the engine has not let go of yet."""
        with self._changed:
            return max(len(self._streams), self._engine.running)

    async def stream(
        self, request: Request, whole: bool = False, seeded: bool = True
    ) -> AsyncGenerator[Piece, None]:
        key = f"{next(self._numbers)}"
        stream = _Stream(asyncio.get_running_loop())
        named = replace(request, key=key)
        with self._changed:
            if self.trouble:
                raise UnavailableError(self.trouble)
            if self._submits_anytime:  # in time for the next step: the engine's thread waits for this one
                self._engine.submit([named], whole, seeded)
            else:
                self._new.append((named, whole, seeded))
            self._streams[key] = stream
            self._changed.notify()
        try:
            while stream.finish_reason is None:
                await stream.arrived.wait()
                stream.arrived.clear()
                if stream.error is not None:
                    raise stream.error
                token_ids, stream.token_ids = stream.token_ids, []
                yield Piece(key, token_ids, stream.finish_reason)
        finally:
            with self._changed:
                del self._streams[key]
                if stream.finish_reason is None and stream.error is None:
                    self._cancelled.add(key)
                    self._changed.notify()

    def close(self) -> None:
        """Stop after the step that runs now."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()
        self._engine.close()

    # The engine's thread.

    def _run(self) -> None:
        try:
            while self._take_orders():
                self._collect(self._engine.advance())
                self._hand_over()
        except Exception as error:
            LOG.exception("the engine failed")
            self._fail(error)

    def _take_orders(self) -> bool:
        """Pass on what the loop wants; wait if there is nothing to do. False in the end."""
        with self._changed:
            while not (self._new or self._cancelled or self._engine.running or self._closed):
                self._changed.wait()
            new, self._new = self._new, []
            cancelled, self._cancelled = self._cancelled, set()
            closed = self._closed
            if cancelled:  # not while a request is being submitted
                self._engine.cancel(cancelled)
        new = [order for order in new if order[0].key not in cancelled]
        for key in cancelled:
            self._portions.pop(key, None)
            self._started.discard(key)
        for request, whole, seeded in new:
            try:
                self._engine.submit([request], whole, seeded)
            except InputError as error:
                self._deliver_error(request.key, error)
        return not closed

    def _collect(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            portion = self._portions.setdefault(piece.key, _Portion())
            portion.token_ids += piece.token_ids
            portion.finish_reason = piece.finish_reason

    def _hand_over(self) -> None:
        if not self._portions:
            return
        now = time.monotonic()
        if now - self._handed_over >= len(self._portions) / HANDOVERS_PER_S:
            due, self._portions, self._handed_over = self._portions, {}, now
        else:
            due = {
                key: portion
                for key, portion in self._portions.items()
                if portion.finish_reason is not None or key not in self._started
            }
            for key in due:
                del self._portions[key]
        self._started.update(due)
        self._started -= {key for key, portion in due.items() if portion.finish_reason is not None}
        if due:
            self._on_the_loop(due)

    def _on_the_loop(self, due: dict[str, _Portion]) -> None:
        with self._changed:
            loop = next((stream.loop for stream in self._streams.values()), None)
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._deliver, due)

    def _deliver(self, due: dict[str, _Portion]) -> None:
        for key, portion in due.items():
            stream = self._streams.get(key)
            if stream is not None:
                stream.token_ids += portion.token_ids
                stream.finish_reason = portion.finish_reason
                stream.arrived.set()

    def _deliver_error(self, key: str, error: Exception) -> None:
        with self._changed:
            stream = self._streams.get(key)
        if stream is not None and not stream.loop.is_closed():
            stream.error = error
            stream.loop.call_soon_threadsafe(stream.arrived.set)

    def _fail(self, error: Exception) -> None:
        """Nothing will be sampled any more: everyone who waits is told so."""
        with self._changed:
            self.trouble = f"The engine has failed ({type(error).__name__})."
            waiting = list(self._streams)
        for key in waiting:
            self._deliver_error(key, UnavailableError(self.trouble))
