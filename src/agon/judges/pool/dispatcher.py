"""The thread of a pool that assigns answers to workers, enforces deadlines and replaces dead workers."""

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from dataclasses import replace
from typing import Any

from agon.errors import InputError
from agon.game.verdict import Verdict
from agon.judges.judge import Judge
from agon.judges.limits import Limits, PoolCounts
from agon.judges.pool.fork_server_client import START_TIMEOUT, ForkServerClient, pickled
from agon.judges.pool.framing import DisconnectedError, Request, WorkerSpec, send_request
from agon.judges.pool.worker import Job, Worker

# A verdict is overdue after twice the usual time plus twice its spread. Where all verdicts take equally
# long, 5% of hanging ones then cost a tenth of the throughput; where some are slow, they get their time.
_TIMES_USUAL = 2.0
_TIMES_SPREAD = 2.0
_MIN_OVERDUE_SECONDS = 0.02
_LEARNING_RATE = 0.05
_FIRST_GUESS_SECONDS = 0.02
_SPARE_WORKERS = 1
_TURN_SECONDS = 0.1
# A timeout is tried again if for this share of its time the verdict had waited for a CPU: a busy machine
# also makes computing itself slower (measured: up to 1.8 times beside two busy processes).
_BUSY_SHARE = 0.2
# Second tries are for the rare right answer. Where many answers hang, they would only double the cost.
_RETRIES_PER_VERDICT = 0.005
_MIN_RETRIES = 2


class Dispatcher:
    """Owns the fork server and the workers. Only its own thread touches any state but the queue."""

    def __init__(self, judge: Judge, workers: int, limits: Limits) -> None:
        if workers < 1:
            raise InputError(f"A pool needs at least one worker, not {workers}.")
        self._spec = WorkerSpec(pickled(judge), limits.memory_bytes, limits.verdicts_per_worker)
        self._limits = limits
        self._slots = workers
        self.counts = PoolCounts()
        self._lock = threading.Lock()
        self._waiting: deque[Job] = deque()
        self._second_tries: deque[Job] = deque()
        self._lost: deque[Job] = deque()
        self._workers: list[Worker] = []
        self._selector = selectors.DefaultSelector()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ)
        self._usual_seconds = min(_FIRST_GUESS_SECONDS, limits.patience)
        self._variance = 0.0
        self._closed = False
        self._failure: str | None = None
        self._start_fork_server()
        self._thread = threading.Thread(target=self._run, name="judge-pool", daemon=True)
        self._thread.start()

    # Called from any thread.

    def add(self, job: Job) -> None:
        with self._lock:
            if self._failure is not None:
                raise RuntimeError(self._failure)
            if self._closed:
                raise RuntimeError("The judge pool is closed.")
            self._waiting.append(job)
        self._wake()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _wake(self) -> None:
        # If the socket is full, the thread will wake up anyway; if it is closed, the pool has ended.
        with contextlib.suppress(OSError):
            self._wake_sender.send(b"!")

    # The thread.

    def _run(self) -> None:
        try:
            while not self._closed:
                self._assign_jobs()
                for key, _ in self._selector.select(self._seconds_to_next_check()):
                    self._dispatch(key)
                self._check_deadlines()
                self._share_slots()
        except BaseException as fault:
            self._fail_pool(f"The judge pool failed: {type(fault).__name__}: {fault}")
            raise
        finally:
            self._shut_down()

    def _dispatch(self, key: selectors.SelectorKey) -> None:
        if key.fileobj is self._wake_receiver:
            with contextlib.suppress(BlockingIOError):
                self._wake_receiver.recv(4096)
        elif key.fileobj is self._fork_server.control:
            self._read_fork_server()
        elif key.data in self._workers:
            self._read(key.data)

    def _assign_jobs(self) -> None:
        """Give waiting answers to idle workers, and keep one spare worker, so that a slot that becomes
        free is taken at once."""
        if not self._fork_server.ready:
            return
        # Overdue verdicts do not occupy a slot, up to the limit; beyond it they do.
        overdue = min(sum(worker.overdue for worker in self._workers), self._limits.max_overdue)
        wanted = self._slots + overdue + _SPARE_WORKERS
        for _ in range(wanted - len(self._workers)):
            worker = Worker(self._fork_server.fork())
            self._workers.append(worker)
            self._selector.register(worker.socket, selectors.EVENT_READ, worker)
        idle = [worker for worker in self._workers if worker.pid is not None and worker.job is None]
        # A fresh worker has sympy's caches still to fill, and takes three times as long over its first answers.
        idle.sort(key=lambda worker: worker.verdicts, reverse=True)
        for _ in range(len(self._workers) - wanted):
            if idle:  # an overdue worker has finished after all, and another has its slot
                self._remove(idle.pop())
        busy = [worker for worker in self._workers if worker.job is not None]
        if any(worker.job.second_try for worker in busy if worker.job):
            return  # it is tried alone
        free = self._slots - len(busy) + overdue
        for worker in idle:
            job = self._next_job(worker) if free > 0 else None
            if job is not None:
                free -= 1
                busy.append(worker)
                self._assign(worker, job)
        if idle and not busy and self._second_tries:
            self._assign(idle[0], self._second_tries.popleft())

    def _next_job(self, worker: Worker) -> Job | None:
        if self._lost and self._survived(worker, self._lost[0]):
            return self._lost.popleft()
        with self._lock:
            while self._waiting:
                job = self._waiting.popleft()
                if job.future.set_running_or_notify_cancel():
                    return job
        return None

    def _survived(self, worker: Worker, job: Job) -> bool:
        """Whether whatever killed the answer's worker, a signal to all of them perhaps, cannot have met this one."""
        return worker.born > job.lost_at or all(each.born <= job.lost_at for each in self._workers)

    def _assign(self, worker: Worker, job: Job) -> None:
        worker.begin(job, self._limits.deadline)
        try:
            send_request(worker.socket, Request(job.problem, job.answer))
            return
        except OSError:
            self._worker_died(worker, "The judge's worker died before it could read the answer.")
        except Exception as fault:  # metadata that cannot be pickled is the caller's fault, not the pool's
            worker.finish()
            self._deliver(job, Verdict(False, "error", f"The problem cannot be sent to a worker: {fault}"))
        self._wake()  # the slot is free again, and nothing else might say so

    def _read(self, worker: Worker) -> None:
        try:
            worker.reader.feed(worker.socket)
            while (reply := worker.reader.take()) is not None:
                self._handle(worker, reply)
        except (DisconnectedError, OSError, ValueError, KeyError, TypeError):
            self._worker_died(worker, "The judge's worker died (out of memory, or a crash).")

    def _handle(self, worker: Worker, reply: dict[str, Any]) -> None:
        waited = float(reply["waited"]) - worker.waited_before
        worker.waited_before = float(reply["waited"])
        if "pid" in reply:
            worker.pid = reply["pid"]
            return
        running = worker.running_seconds()
        job = worker.finish()
        worker.verdicts += 1
        if reply["broken"]:
            self.counts = replace(self.counts, crashes=self.counts.crashes + 1)
        if job is not None:
            verdict = Verdict.from_dict(reply["verdict"])
            own = max(0.0, min(verdict.seconds, running) - waited)
            verdict = replace(verdict, seconds=own)
            self._update_usual_time(min(verdict.seconds, self._limits.patience))
            self._deliver(job, verdict)
        if reply["exiting"]:
            self._remove(worker)

    def _seconds_to_next_check(self) -> float | None:
        """Until a verdict is overdue, or its own time must be measured. Nothing happens to a paused one."""
        left = []
        for worker in self._workers:
            if worker.job and not worker.paused:
                running = worker.running_seconds()
                left.append(worker.due - running)
                if not worker.overdue and not worker.job.second_try:
                    left.append(max(worker.overdue_check, self._overdue_after()) - running)
            elif worker.paused and not self._waiting:
                left.append(_TURN_SECONDS)
        if not self._fork_server.ready:
            left.append(self._fork_server.start_deadline - time.monotonic())
        return max(0.0, min(left)) if left else None

    def _update_usual_time(self, seconds: float) -> None:
        """Running mean and variance of the time of a verdict; recent verdicts count most."""
        difference = seconds - self._usual_seconds
        self._usual_seconds += _LEARNING_RATE * difference
        self._variance += _LEARNING_RATE * (difference * difference - self._variance)

    def _overdue_after(self) -> float:
        seconds = _TIMES_USUAL * self._usual_seconds + _TIMES_SPREAD * self._variance**0.5
        return min(self._limits.patience, max(_MIN_OVERDUE_SECONDS, seconds))

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        if not self._fork_server.ready and now > self._fork_server.start_deadline:
            self._fail_pool(f"The judge did not start within {START_TIMEOUT:.0f} seconds.")
        for worker in list(self._workers):
            if worker.job is None or worker.paused:
                continue
            running = worker.running_seconds()
            if running >= worker.due:
                self._measure(worker, running)
            elif not worker.overdue and not worker.job.second_try and running >= worker.overdue_check:
                self._check_overdue(worker, running)

    def _check_overdue(self, worker: Worker, running: float) -> None:
        """In time of its own: on a busy machine every verdict takes longer than usual."""
        left = self._overdue_after() - running
        if left <= 0:
            left += worker.waited_itself()
            worker.overdue = left <= 0
            worker.overdue_check = running + max(0.005, left)

    def _measure(self, worker: Worker, running: float) -> None:
        """End a verdict that has used up its own time, or the wall time that stands behind it."""
        deadline, waited = self._limits.deadline, worker.waited_seconds()
        own = running - waited
        if own < deadline and running < deadline * self._limits.wall_factor:
            worker.due = running + max(0.01, deadline - own)
            return
        job = worker.finish()
        assert job is not None
        self._remove(worker)
        counts = self.counts
        allowed = max(_MIN_RETRIES, _RETRIES_PER_VERDICT * counts.verdicts)
        if waited > _BUSY_SHARE * running and not job.second_try and counts.retries < allowed:
            job.second_try = True
            self.counts = replace(counts, retries=counts.retries + 1)
            self._second_tries.append(job)
            return
        waiting = f", {waited:.1f} more without a CPU" if waited >= 0.1 else ""
        again = " at the second try" if job.second_try else ""
        sentence = f"No verdict within {own:.1f} seconds of its own{waiting}{again}."
        self._deliver(job, Verdict(False, "timeout", sentence, own))

    def _share_slots(self) -> None:
        """Overdue verdicts that compute are paused while other answers wait, and when none does they take
        turns in the slots that are free. Beyond `max_overdue` some have slots in any case."""
        overdue = [worker for worker in self._workers if worker.job is not None and worker.overdue]
        if not overdue:
            return
        computing = [worker for worker in overdue if worker.paused or worker.computes()]
        free = max(0, len(overdue) - self._limits.max_overdue)
        if not self._waiting:
            free = self._slots - sum(w.job is not None and not w.overdue for w in self._workers)
        computing.sort(key=lambda worker: (worker.level(), worker.started))
        for number, worker in enumerate(computing):
            if number < free:
                worker.resume()
            else:
                worker.pause()

    def _deliver(self, job: Job, verdict: Verdict) -> None:
        counts = self.counts
        self.counts = replace(
            counts,
            verdicts=counts.verdicts + 1,
            timeouts=counts.timeouts + (verdict.reason == "timeout"),
            errors=counts.errors + (verdict.reason == "error"),
        )
        job.future.set_result(verdict)

    def _worker_died(self, worker: Worker, sentence: str) -> None:
        job = worker.finish()
        if job is not None and not job.lost_at:
            # Perhaps somebody killed the worker: only an answer that loses two of them is to blame.
            job.lost_at = time.monotonic()
            self.counts = replace(self.counts, lost=self.counts.lost + 1)
            self._lost.append(job)
        elif job is not None:
            self.counts = replace(self.counts, crashes=self.counts.crashes + 1)
            self._deliver(job, Verdict(False, "error", sentence, time.monotonic() - worker.started))
        self._remove(worker)

    def _remove(self, worker: Worker) -> None:
        """Take a worker out of the pool and have it killed, if it still runs."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._selector.unregister(worker.socket)
        worker.socket.close()
        self.counts = replace(self.counts, replaced=self.counts.replaced + 1)
        if worker.pid is not None and self._fork_server.ready:
            self._fork_server.kill_worker(worker.pid)

    # The fork server.

    def _start_fork_server(self) -> None:
        self._fork_server = ForkServerClient(self._spec)
        self._verdicts_at_start = self.counts.verdicts
        self._selector.register(self._fork_server.control, selectors.EVENT_READ)

    def _stop_fork_server(self) -> None:
        self._selector.unregister(self._fork_server.control)
        self._fork_server.stop()

    def _read_fork_server(self) -> None:
        try:
            failure = self._fork_server.read()
        except (DisconnectedError, OSError, ValueError):
            self._replace_fork_server()
        else:
            if failure is not None:
                self._fail_pool(f"The judge could not be loaded in a worker:\n{failure}")

    def _replace_fork_server(self) -> None:
        """The fork server died, and its workers with it. One that died before it gave any verdict is not
        replaced: the next one would die too."""
        if not self._fork_server.ready or self.counts.verdicts == self._verdicts_at_start:
            self._fail_pool("The judge could not be loaded in a worker: its process died.")
            return
        self._fork_server.ready = False
        for worker in list(self._workers):
            self._worker_died(worker, "The judge's worker died with the process that started it.")
        self._stop_fork_server()
        self._start_fork_server()

    def _fail_pool(self, sentence: str) -> None:
        with self._lock:
            self._failure = self._failure or sentence
            self._closed = True

    def _shut_down(self) -> None:
        with self._lock:
            self._closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
            running = [
                *self._second_tries,
                *self._lost,
                *(worker.job for worker in self._workers if worker.job),
            ]
        for job in running:
            self._fail_job(job)
        for worker in self._workers:
            worker.socket.close()
        for job in waiting:
            if job.future.set_running_or_notify_cancel():
                self._fail_job(job)
        self._stop_fork_server()
        self._selector.close()
        self._wake_receiver.close()
        self._wake_sender.close()

    def _fail_job(self, job: Job) -> None:
        job.future.set_exception(RuntimeError(self._failure or "The judge pool was closed."))
