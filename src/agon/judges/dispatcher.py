"""The thread of a pool that hands answers to workers, watches the clock and replaces who is lost."""

import contextlib
import os
import selectors
import socket
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from agon.errors import InputError
from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.judges.judge import Judge
from agon.judges.limits import Limits, PoolCounts
from agon.judges.nursery import Request, Upbringing
from agon.judges.nursery_link import LONGEST_START, NurseryLink, pickled
from agon.judges.wire import DisconnectedError, ReplyReader, send_request

# A verdict is overdue after twice the usual time and twice its spread: for verdicts that take equally
# long, 5% of hanging ones then cost a tenth of the throughput, and where a few are slow they are let be.
_TIMES_USUAL = 2.0
_TIMES_SPREAD = 2.0
_LEAST_PATIENCE = 0.02
_LEARNING_RATE = 0.05
_FIRST_GUESS = 0.02
_SPARE = 1


@dataclass(frozen=True)
class Task:
    """One answer and the promise of its verdict."""

    problem: Problem
    answer: str
    future: Future[Verdict]


@dataclass(eq=False)
class _Worker:
    socket: socket.socket
    reader: ReplyReader = field(default_factory=ReplyReader)
    pid: int | None = None
    task: Task | None = None
    started: float = 0.0
    aside: bool = False
    demoted: bool = False


class Dispatcher:
    """Owns the nursery and the workers. All state but the queue is touched by its own thread only."""

    def __init__(self, judge: Judge, workers: int, limits: Limits) -> None:
        if workers < 1:
            raise InputError(f"A pool needs at least one worker, not {workers}.")
        self._upbringing = Upbringing(pickled(judge), limits.memory_bytes, limits.verdicts_per_worker)
        self._limits = limits
        self._places = workers
        self.counts = PoolCounts()
        self._lock = threading.Lock()
        self._waiting: deque[Task] = deque()
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._alarm, self._bell = socket.socketpair()
        self._alarm.setblocking(False)
        self._bell.setblocking(False)
        self._selector.register(self._alarm, selectors.EVENT_READ)
        self._usual = min(_FIRST_GUESS, limits.patience)
        self._spread = 0.0
        self._closed = False
        self._failure: str | None = None
        self._start_nursery()
        self._thread = threading.Thread(target=self._run, name="judge-pool", daemon=True)
        self._thread.start()

    # Called from any thread.

    def add(self, task: Task) -> None:
        with self._lock:
            if self._failure is not None:
                raise RuntimeError(self._failure)
            if self._closed:
                raise RuntimeError("The judge pool is closed.")
            self._waiting.append(task)
        self._ring()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._ring()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _ring(self) -> None:
        # A full bell has rung already; one that is gone belongs to a pool that has ended.
        with contextlib.suppress(OSError):
            self._bell.send(b"!")

    # The thread.

    def _run(self) -> None:
        try:
            while not self._closed:
                self._hand_out()
                for key, _ in self._selector.select(self._until_next_deadline()):
                    self._attend(key)
                self._check_the_clock()
        except BaseException as fault:
            self._give_up(f"The judge pool failed: {type(fault).__name__}: {fault}")
            raise
        finally:
            self._end()

    def _attend(self, key: selectors.SelectorKey) -> None:
        if key.fileobj is self._alarm:
            with contextlib.suppress(BlockingIOError):
                self._alarm.recv(4096)
        elif key.fileobj is self._nursery.control:
            self._hear_nursery()
        elif key.data in self._workers:
            self._hear(key.data)

    def _hand_out(self) -> None:
        """Give waiting answers to idle workers, and keep one worker more than there are places, so that
        a place is taken again at once."""
        if not self._nursery.ready:
            return
        # Beyond the limit, overdue verdicts hold their places again.
        aside = min(sum(worker.aside for worker in self._workers), self._limits.aside)
        for _ in range(self._places + aside + _SPARE - len(self._workers)):
            worker = _Worker(self._nursery.fork())
            self._workers.append(worker)
            self._selector.register(worker.socket, selectors.EVENT_READ, worker)
        idle = [worker for worker in self._workers if worker.pid is not None and worker.task is None]
        for _ in range(len(self._workers) - self._places - aside - _SPARE):
            if idle:  # one that was overdue has come back, and another holds its place
                self._dismiss(idle.pop())
        busy = sum(worker.task is not None for worker in self._workers) - aside
        for worker in idle[: max(0, self._places - busy)]:
            task = self._next_task()
            if task is None:
                return
            self._assign(worker, task)

    def _next_task(self) -> Task | None:
        with self._lock:
            while self._waiting:
                task = self._waiting.popleft()
                if task.future.set_running_or_notify_cancel():
                    return task
        return None

    def _assign(self, worker: _Worker, task: Task) -> None:
        worker.task, worker.started = task, time.monotonic()
        try:
            send_request(worker.socket, Request(task.problem, task.answer))
        except OSError:
            self._lose(worker, "The judge's worker died before it could read the answer.")
        except Exception as fault:  # metadata that cannot be pickled is the caller's, not the pool's
            worker.task = None
            self._deliver(task, Verdict(False, "error", f"The problem cannot be sent to a worker: {fault}"))

    def _hear(self, worker: _Worker) -> None:
        try:
            worker.reader.feed(worker.socket)
            while (reply := worker.reader.take()) is not None:
                self._heed(worker, reply)
        except (DisconnectedError, OSError, ValueError):
            self._lose(worker, "The judge's worker died (out of memory, or a crash).")

    def _heed(self, worker: _Worker, reply: dict[str, Any]) -> None:
        if "hello" in reply:
            worker.pid = reply["hello"]
            return
        task, worker.task = worker.task, None
        if reply["spoiled"]:
            self.counts = replace(self.counts, crashes=self.counts.crashes + 1)
        if task is not None:
            verdict = Verdict.from_dict(reply["verdict"])
            self._learn(min(verdict.seconds, self._limits.patience))
            self._deliver(task, verdict)
        worker.aside = False
        if reply["leaving"] or worker.demoted:  # the lowest priority cannot be taken back
            self._dismiss(worker)

    def _until_next_deadline(self) -> float | None:
        now = time.monotonic()
        times = [worker.started + self._limits.deadline for worker in self._workers if worker.task]
        times += [
            worker.started + self._patience() for worker in self._workers if worker.task and not worker.aside
        ]
        if not self._nursery.ready:
            times.append(self._nursery.overdue_at)
        return max(0.0, min(times) - now) if times else None

    def _learn(self, seconds: float) -> None:
        """Keep the usual time of a verdict and its spread, the recent ones counting most."""
        off = seconds - self._usual
        self._usual += _LEARNING_RATE * off
        self._spread += _LEARNING_RATE * (off * off - self._spread)

    def _patience(self) -> float:
        overdue = _TIMES_USUAL * self._usual + _TIMES_SPREAD * self._spread**0.5
        return min(self._limits.patience, max(_LEAST_PATIENCE, overdue))

    def _check_the_clock(self) -> None:
        now = time.monotonic()
        if not self._nursery.ready and now > self._nursery.overdue_at:
            self._give_up(f"The judge did not start within {LONGEST_START:.0f} seconds.")
        for worker in list(self._workers):
            task, spent = worker.task, now - worker.started
            if task is None:
                continue
            if spent >= self._limits.deadline:
                worker.task = None
                hurried = " at low priority, while other answers waited" if worker.demoted else ""
                sentence = f"No verdict within {self._limits.deadline:g} seconds{hurried}."
                self._deliver(task, Verdict(False, "timeout", sentence, spent))
                self._dismiss(worker)
            elif spent >= self._patience():
                worker.aside = True
                if self._waiting and not worker.demoted:
                    self._demote(worker)

    def _demote(self, worker: _Worker) -> None:
        """While others wait, an overdue worker runs only on time that nobody else wants. A verdict that
        is merely slow keeps its full share wherever nothing is waiting."""
        worker.demoted = True
        if worker.pid is not None:
            # Not for its children: a program in a sandbox has a clock of its own.
            with contextlib.suppress(OSError):
                policy = os.SCHED_IDLE | os.SCHED_RESET_ON_FORK
                os.sched_setscheduler(worker.pid, policy, os.sched_param(0))

    def _deliver(self, task: Task, verdict: Verdict) -> None:
        counts = self.counts
        self.counts = replace(
            counts,
            verdicts=counts.verdicts + 1,
            timeouts=counts.timeouts + (verdict.reason == "timeout"),
            errors=counts.errors + (verdict.reason == "error"),
        )
        task.future.set_result(verdict)

    def _lose(self, worker: _Worker, sentence: str) -> None:
        task, worker.task = worker.task, None
        if task is not None:
            self.counts = replace(self.counts, crashes=self.counts.crashes + 1)
            self._deliver(task, Verdict(False, "error", sentence, time.monotonic() - worker.started))
        self._dismiss(worker)

    def _dismiss(self, worker: _Worker) -> None:
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._selector.unregister(worker.socket)
        worker.socket.close()
        self.counts = replace(self.counts, replaced=self.counts.replaced + 1)
        if worker.pid is not None and self._nursery.ready:
            self._nursery.end_worker(worker.pid)

    # The nursery.

    def _start_nursery(self) -> None:
        self._nursery = NurseryLink(self._upbringing)
        self._verdicts_at_start = self.counts.verdicts
        self._selector.register(self._nursery.control, selectors.EVENT_READ)

    def _end_nursery(self) -> None:
        self._selector.unregister(self._nursery.control)
        self._nursery.end()

    def _hear_nursery(self) -> None:
        try:
            failed = self._nursery.hear()
        except (DisconnectedError, OSError, ValueError):
            self._replace_nursery()
        else:
            if failed is not None:
                self._give_up(f"The judge could not be loaded in a worker:\n{failed}")

    def _replace_nursery(self) -> None:
        """The nursery died, and its workers with it; one that was of no use is not tried again."""
        if not self._nursery.ready or self.counts.verdicts == self._verdicts_at_start:
            self._give_up("The judge could not be loaded in a worker: its process died.")
            return
        self._nursery.ready = False
        for worker in list(self._workers):
            self._lose(worker, "The judge's worker died with the process that bore it.")
        self._end_nursery()
        self._start_nursery()

    def _give_up(self, sentence: str) -> None:
        with self._lock:
            self._failure = self._failure or sentence
            self._closed = True

    def _end(self) -> None:
        with self._lock:
            self._closed = True
            tasks = list(self._waiting)
            self._waiting.clear()
        for worker in list(self._workers):
            if worker.task is not None:
                self._abandon(worker.task)
            worker.socket.close()
        for task in tasks:
            if task.future.set_running_or_notify_cancel():
                self._abandon(task)
        self._end_nursery()
        self._selector.close()
        self._alarm.close()
        self._bell.close()

    def _abandon(self, task: Task) -> None:
        reason = RuntimeError(self._failure) if self._failure else RuntimeError("The judge pool was closed.")
        task.future.set_exception(reason)
