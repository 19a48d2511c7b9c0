"""A worker as the pool sees it: its socket, its answer, and the clock of that answer.

A verdict's own time is what has passed since it began, less the time in which the pool had paused its
worker and the time in which the worker, or a program that it runs, wanted a CPU and had none. So a slow
right answer is not a timeout because many others were judged beside it, and one that sleeps for ever still is.
"""

import contextlib
import math
import os
import signal
import socket
import time
from concurrent.futures import Future
from dataclasses import dataclass, field

from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.judges.pool.framing import ReplyReader
from agon.judges.proc import children, family, waited_seconds

# How often it is looked at whether an overdue worker computes; looking costs 20 µs for each.
_LOOK_INTERVAL = 0.1
_FIRST_LEVEL = 0.1


@dataclass
class Job:
    """One answer and the future of its verdict."""

    problem: Problem
    answer: str
    future: Future[Verdict]
    second_try: bool = False
    lost_at: float = 0.0  # when its worker died; an answer that kills its workers is not judged a third time


@dataclass(eq=False)
class Worker:
    """One worker process. Times are those of `time.monotonic`."""

    socket: socket.socket
    reader: ReplyReader = field(default_factory=ReplyReader)
    pid: int | None = None  # None until it has reported
    job: Job | None = None
    verdicts: int = 0  # that it has given
    born: float = field(default_factory=time.monotonic)
    overdue: bool = False
    paused: bool = False
    started: float = 0.0
    due: float = 0.0  # at this many running seconds its own time is measured
    overdue_check: float = 0.0  # and at this many, whether it is overdue
    waited_before: float = 0.0  # how long the process had waited for a CPU before this answer
    _paused_since: float = 0.0
    _paused_seconds: float = 0.0
    _computes: bool = False
    _looked: float = 0.0

    def begin(self, job: Job, deadline: float) -> None:
        self.job, self.started, self.due = job, time.monotonic(), deadline
        self.overdue, self.overdue_check = False, 0.0
        self._paused_seconds, self._computes, self._looked = 0.0, False, 0.0

    def finish(self) -> Job | None:
        """The answer is judged, or given up; returns it."""
        job, self.job, self.overdue = self.job, None, False
        self.resume()
        return job

    def running_seconds(self) -> float:
        """Seconds since the answer began, without those of pauses."""
        now = time.monotonic()
        pause = now - self._paused_since if self.paused else 0.0
        return now - self.started - self._paused_seconds - pause

    def waited_seconds(self) -> float:
        """For how much of that time it was ready to run and had no CPU."""
        if self.pid is None:
            return 0.0
        return max(self.waited_itself(), waited_seconds(family(self.pid)[1:]))

    def waited_itself(self) -> float:
        """The same for the worker alone, which is quicker to find out."""
        return max(0.0, waited_seconds([self.pid]) - self.waited_before) if self.pid is not None else 0.0

    def level(self) -> int:
        """How often its running time has doubled. Those that have run least go on first, so that an answer
        that computes for ever does not stand in the way of one that is merely slow."""
        return max(0, int(math.log2(max(self.running_seconds(), _FIRST_LEVEL) / _FIRST_LEVEL)))

    def computes(self) -> bool:
        """Whether it uses a CPU itself. A program that it runs has limits of its own."""
        now = time.monotonic()
        if self.pid is not None and now - self._looked >= _LOOK_INTERVAL:
            self._looked = now
            self._computes = _computes(self.pid)
        return self._computes

    def pause(self) -> None:
        """Unless it has started a program since the last look: that would run on without anybody watching."""
        if not self.paused and self.pid is not None and _computes(self.pid):
            self.paused, self._paused_since = True, time.monotonic()
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        if self.paused and self.pid is not None:
            self.paused = False
            self._paused_seconds += time.monotonic() - self._paused_since
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGCONT)


def _computes(pid: int) -> bool:
    return _state(pid) == b"R" and not children(pid)


def _state(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return b""
