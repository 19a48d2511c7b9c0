"""The process that starts the workers: it imports a judge once and forks a worker when asked.

Importing sympy and the like takes seconds and a fork takes milliseconds, so a worker that had to be
killed is replaced at once. The fork server is a process of its own, started by the pool, without any
thread, device or model, so that forking it is safe whatever the pool's process does.

It exits and kills its workers when the pool closes its socket or when the pool's process is gone.
"""

import contextlib
import ctypes
import gc
import os
import pickle
import resource
import select
import signal
import socket
import sys
import time
import traceback

from agon.game.verdict import Verdict
from agon.judges.judge import Judge
from agon.judges.pool.framing import (
    MAX_REPLY_BYTES,
    ORDER_BYTES,
    DisconnectedError,
    Request,
    WorkerSpec,
    receive_request,
    send_reply,
)
from agon.judges.proc import waited_by_this_process

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# How much a worker may grow before a fresh one replaces it; caches of sympy only grow.
_MAX_GROWTH_BYTES = 256 << 20
# Slurm sends these to every process of a job. The trainer stops in good order and needs its judges until then.
_OF_THE_JOB = (signal.SIGTERM, signal.SIGUSR1)


def main() -> None:
    """Serve one pool until it disconnects, which may happen before the judge is loaded."""
    control = socket.socket(fileno=int(sys.argv[1]))
    for number in _OF_THE_JOB:
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(DisconnectedError, BrokenPipeError, ConnectionResetError):
        _serve_pool(control, os.getppid())


def _serve_pool(control: socket.socket, pool_pid: int) -> None:
    """Load the judge, then follow orders: each file descriptor received is the socket of a new worker."""
    spec: WorkerSpec = receive_request(control)
    try:
        judge: Judge = pickle.loads(spec.judge)
        warm = getattr(judge, "warm", None)
        if warm is not None:
            warm()
    except BaseException:
        send_reply(control, {"failed": traceback.format_exc(limit=-3)})
        return
    # What is loaded now is shared with every worker; garbage collection would only copy its pages.
    gc.collect()
    gc.freeze()
    send_reply(control, {"ready": os.getpid()})
    workers: set[int] = set()
    try:
        while os.getppid() == pool_pid:
            if not select.select([control], [], [], 1.0)[0]:
                continue
            order, descriptors, _, _ = socket.recv_fds(control, ORDER_BYTES, 1)
            if not order:
                return
            if descriptors:
                workers.add(_fork(descriptors[0], control, judge, spec))
            else:
                pid = int.from_bytes(order, "big")
                if pid in workers:
                    workers.discard(pid)
                    _kill(pid)
    finally:
        for pid in workers:
            _kill(pid)


def _fork(descriptor: int, control: socket.socket, judge: Judge, spec: WorkerSpec) -> int:
    server_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            control.close()
            _set_up_worker(server_pid, spec.memory_bytes)
            serve(socket.socket(fileno=descriptor), judge, spec.verdicts_per_worker)
            status = 0
        finally:
            os._exit(status)
    os.close(descriptor)
    return pid


def _set_up_worker(server_pid: int, memory_bytes: int) -> None:
    """Lead a process group that can be killed whole, die with the fork server, obey the memory limit.

    Only the soft limit is lowered: a sandbox that a worker starts sets limits of its own. Orphans of a
    sandbox become children of the worker, which reaps them; not every container's first process does.
    """
    os.setpgid(0, 0)
    for number in _OF_THE_JOB:  # programs under judgement expect them as they are
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != server_pid:
        os._exit(1)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def serve(pool: socket.socket, judge: Judge, verdicts: int) -> None:
    """Judge one request after another until the pool disconnects or a fresh worker is due."""
    send_reply(pool, {"pid": os.getpid(), "waited": waited_by_this_process()})
    max_bytes = _resident_bytes() + _MAX_GROWTH_BYTES
    for number in range(verdicts):
        try:
            request: Request = receive_request(pool)
        except DisconnectedError:
            return
        started = time.monotonic()
        verdict, broken = _judge(judge, request)
        seconds = time.monotonic() - started
        exiting = broken or number == verdicts - 1 or _resident_bytes() > max_bytes
        fields = {**verdict.to_dict(), "seconds": seconds, "detail": verdict.detail[: MAX_REPLY_BYTES // 8]}
        waited = waited_by_this_process()
        send_reply(pool, {"verdict": fields, "exiting": exiting, "broken": broken, "waited": waited})
        if exiting:
            return


def _judge(judge: Judge, request: Request) -> tuple[Verdict, bool]:
    """The verdict, and whether the worker is broken and must be replaced."""
    try:
        return judge.judge(request.problem, request.answer), False
    except MemoryError:
        return Verdict(False, "error", "The judge ran out of memory."), True
    except RecursionError:
        return Verdict(False, "error", "The answer is nested too deeply to judge."), False
    except Exception as error:
        return Verdict(False, "error", f"The judge raised {type(error).__name__}: {error}"), False
    except BaseException as error:  # math-verify's TimeoutException, SystemExit of a plain function
        return Verdict(False, "error", f"The judge exited with {type(error).__name__}: {error}"), True


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def _kill(pid: int) -> None:
    """Kill a worker and all it started. Workers are reaped only here, so a process id cannot have been
    reused by another process."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
