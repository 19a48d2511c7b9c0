"""One round of rollouts that is sampled before it is due: beside the training on the round before, in a thread.

The thread samples and nothing else: it uses the engine, hands answers to the judges and waits for no other process.
Syncs come before it, verdicts are waited for when the round is due, and a failure is raised then, where the usual
handling finds it. An engine that samples from the trainer's own weights cannot sample beside training: its
round is sampled in line, before that training, from the same weights and with the same result.
"""

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from agon.engines.protocol import Engine, Interruptible, Recoverable
from agon.game.problem import Problem
from agon.train.stopping import StopRunError

T = TypeVar("T")
Progress = Callable[[int, int], None]
# How often whoever waits for a round says how far it is, in seconds.
LOOK_EVERY = 0.5
# The seconds that sampling has to end in when it is given up. A signal must not wait for an engine that hangs.
PATIENCE = 5.0


class _GivenUpError(Exception):
    """Nobody wants the round any more."""


@dataclass(frozen=True)
class Round:
    """What is played in a round and who plays it. Nothing of it depends on when it is sampled.

    `step` is the step at which it is trained on.
    """

    problems: tuple[Problem, ...]
    step: int
    players: tuple[str, str]
    seed: int


@dataclass(frozen=True)
class Sampled(Generic[T]):
    """What was sampled ahead, and the seconds of it that nobody waited for."""

    what: T
    before: float


class RoundAhead(Generic[T]):
    """At most one round: begun, waited for, taken or given up, always by the trainer's own thread."""

    def __init__(self, engine: Engine, device: torch.device) -> None:
        self._engine = engine
        # By number: the device of a single process is "cuda" alone, which no thread can be set to.
        self._card = torch.cuda.current_device() if device.type == "cuda" else None
        self._round: Round | None = None
        self._thread: threading.Thread | None = None
        self._unwanted = False  # given up, and to be forgotten as soon as nobody samples it any more
        self._far = (0, 0)
        self._sampled: tuple[T, float] | None = None  # with the seconds that it took
        self._error: Exception | None = None

    @property
    def overlaps(self) -> bool:
        """Whether the engine can sample while the policies train."""
        return not self._engine.capabilities.live_weights

    def begin(self, planned: Round, sync: Callable[[], None], sample: Callable[[Progress], T]) -> None:
        """Sync now, and sample a round from here on."""
        self._drop()
        self._round = planned
        try:
            sync()
            if self.overlaps:
                self._thread = threading.Thread(
                    target=self._run, args=(sample,), name="next-round", daemon=True
                )
                self._thread.start()
            else:
                self._sample(sample)
        except StopRunError:
            raise
        except Exception as error:
            self._error = error

    def _run(self, sample: Callable[[Progress], T]) -> None:
        try:
            if self._card is not None:
                torch.cuda.set_device(self._card)  # a thread begins with the first card
            self._sample(sample)
        except Exception as error:
            self._error = error

    def _sample(self, sample: Callable[[Progress], T]) -> None:
        started = time.perf_counter()
        what = sample(self._look)
        self._sampled = what, time.perf_counter() - started

    def _look(self, done: int, wanted: int) -> None:
        """Called by whoever samples, each time that something has finished."""
        self._far = done, wanted
        # An engine that cannot forget its requests would hand them to whoever samples next.
        if self._unwanted and isinstance(self._engine, Recoverable):
            raise _GivenUpError

    def take(self, due: Round, progress: Progress | None = None) -> Sampled[T] | None:
        """The round that is due, waited for; None if it was not begun. Raises what its sampling raised."""
        if self._unwanted or self._round != due:
            self._drop()
            return None
        started = time.perf_counter()
        self.settle(progress)
        assert self._sampled is not None
        what, seconds = self._sampled
        self._forget()
        return Sampled(what, max(0.0, seconds - (time.perf_counter() - started)))

    def settle(self, progress: Progress | None = None) -> None:
        """Wait until the engine is free, and keep the round; a round whose sampling failed raises and is dropped."""
        if self._unwanted:
            self._drop()
        self._wait(progress)
        error = self._error
        if error is not None:
            self._forget()
            raise error

    def give_up(self) -> None:
        """End the sampling and drop the round. If that takes long, whoever needs the engine next waits for the end."""
        self._drop(PATIENCE)

    def _drop(self, patience: float | None = None) -> None:
        if self._round is None:
            return
        engine = self._engine
        self._unwanted = True
        if self._thread is not None and isinstance(engine, Recoverable) and isinstance(engine, Interruptible):
            engine.interrupt()
        self._wait(patience=patience)
        if self._thread is not None:
            return
        if isinstance(engine, Recoverable):
            # An engine that has just died cannot be asked; whoever uses it next finds that out and deals with it.
            with suppress(Exception):
                engine.recover(None)
        self._forget()

    def _wait(self, progress: Progress | None = None, patience: float | None = None) -> None:
        """Until the thread has ended, or patience has."""
        end = time.monotonic() + (math.inf if patience is None else patience)
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(min(LOOK_EVERY, max(0.0, end - time.monotonic())))
            if progress is not None and self._far[1]:
                progress(*self._far)
            if time.monotonic() >= end and self._thread.is_alive():
                return
        self._thread = None

    def _forget(self) -> None:
        self._round, self._thread, self._sampled, self._error = None, None, None, None
        self._unwanted, self._far = False, (0, 0)
