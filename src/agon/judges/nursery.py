"""The process that bears the workers: it imports a judge once and forks a worker when asked.

Importing sympy and its kin takes seconds, a fork takes milliseconds, and so a worker that had to be
killed is replaced at once. The nursery is a process of its own, started by the pool and never
holding a thread, a device or a model, so that forking it is safe whatever the pool's process does.

It ends, and its workers with it, when the pool closes its socket or when the pool's process is gone.
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
from dataclasses import dataclass

from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.judges.judge import Judge
from agon.judges.wire import LONGEST_REPLY, DisconnectedError, receive_request, send_reply

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# An order is a number of this many bytes: with a socket attached, fork a worker for it; without one,
# end the worker of that number.
ORDER_BYTES = 8


@dataclass(frozen=True)
class Upbringing:
    """What a nursery needs to know: the pickled judge and what a worker may use."""

    judge: bytes
    memory_bytes: int
    verdicts_per_worker: int


@dataclass(frozen=True)
class Request:
    """One answer to judge."""

    problem: Problem
    answer: str


def main() -> None:
    """Serve one pool until it hangs up, which it may do before there is anything to serve."""
    control = socket.socket(fileno=int(sys.argv[1]))
    with contextlib.suppress(DisconnectedError, BrokenPipeError, ConnectionResetError):
        _serve_pool(control, os.getppid())


def _serve_pool(control: socket.socket, pool_pid: int) -> None:
    """Each file descriptor received is the socket of a worker to fork."""
    upbringing: Upbringing = receive_request(control)
    try:
        judge: Judge = pickle.loads(upbringing.judge)
        warm = getattr(judge, "warm", None)
        if warm is not None:
            warm()
    except BaseException:
        send_reply(control, {"failed": traceback.format_exc(limit=-3)})
        return
    # What is loaded now is shared with every worker; collecting it would only unshare its pages.
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
                workers.add(_fork(descriptors[0], control, judge, upbringing))
            else:
                ended = int.from_bytes(order, "big")
                if ended in workers:
                    workers.discard(ended)
                    _end(ended)
    finally:
        for worker in workers:
            _end(worker)


def _fork(descriptor: int, control: socket.socket, judge: Judge, upbringing: Upbringing) -> int:
    nursery = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            control.close()
            _become_a_worker(nursery, upbringing.memory_bytes)
            serve(socket.socket(fileno=descriptor), judge, upbringing.verdicts_per_worker)
            status = 0
        finally:
            os._exit(status)
    os.close(descriptor)
    return pid


def _become_a_worker(nursery: int, memory_bytes: int) -> None:
    """Lead a process group that can be killed whole, die with the nursery, keep to the memory limit.

    Only the soft limit is lowered: a sandbox that a worker starts sets limits of its own. Orphans
    of a sandbox become the worker's, which buries them; not every container's first process does.
    """
    # Not a session: Linux shares the CPU between sessions first, so that in one of its own a worker
    # could not be given a lower priority than its neighbours.
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != nursery:
        os._exit(1)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def serve(pool: socket.socket, judge: Judge, verdicts: int) -> None:
    """Judge one request after another until the pool hangs up or it is time for a fresh worker."""
    send_reply(pool, {"hello": os.getpid()})
    most = _resident_bytes() + (256 << 20)
    for turn in range(verdicts):
        try:
            request: Request = receive_request(pool)
        except DisconnectedError:
            return
        started = time.monotonic()
        verdict, spoiled = _judge(judge, request)
        seconds = time.monotonic() - started
        # Caches only grow; a worker that has grown or served its turns makes room for a fresh one.
        leaving = spoiled or turn == verdicts - 1 or _resident_bytes() > most
        fields = {**verdict.to_dict(), "seconds": seconds, "detail": verdict.detail[: LONGEST_REPLY // 8]}
        send_reply(pool, {"verdict": fields, "leaving": leaving, "spoiled": spoiled})
        if leaving:
            return


def _judge(judge: Judge, request: Request) -> tuple[Verdict, bool]:
    """The verdict, and whether the worker is unfit to go on."""
    try:
        return judge.judge(request.problem, request.answer), False
    except MemoryError:
        return Verdict(False, "error", "The judge ran out of memory."), True
    except RecursionError:
        return Verdict(False, "error", "The answer is nested too deeply to judge."), False
    except Exception as error:
        return Verdict(False, "error", f"The judge raised {type(error).__name__}: {error}"), False
    except BaseException as error:  # math-verify's TimeoutException, SystemExit of a plain function
        return Verdict(False, "error", f"The judge left with {type(error).__name__}: {error}"), True


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def _end(pid: int) -> None:
    """Kill a worker with all it started. It is reaped only here, so its number cannot be another's."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
