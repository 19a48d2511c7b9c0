"""The pool's side of the fork server: start it, wait until it is ready, order workers, stop it."""

import contextlib
import os
import socket
import subprocess
import sys
import time

from agon.errors import InputError
from agon.judges.judge import Judge
from agon.judges.pool.framing import ORDER_BYTES, ReplyReader, WorkerSpec, send_request

# Importing a judge (sympy, reasoning-gym) is not part of any verdict; this only limits a broken start.
START_TIMEOUT = 180.0
SEND_TIMEOUT = 10.0


class ForkServerClient:
    """One fork server, from its start to its end."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.control, theirs = socket.socketpair()
        self.control.settimeout(SEND_TIMEOUT)
        self.ready = False
        self.start_deadline = time.monotonic() + START_TIMEOUT
        self._reader = ReplyReader()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "agon.judges.pool.fork_server", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            env=_environment(),
        )
        theirs.close()
        with contextlib.suppress(OSError):  # if it died at once, `read` will notice
            send_request(self.control, spec)

    def read(self) -> str | None:
        """Read its replies: the reason why it failed, or None when it is ready. Raises if it is gone."""
        self._reader.feed(self.control)
        while (reply := self._reader.take()) is not None:
            if "failed" in reply:
                return str(reply["failed"])
            self.ready = True
        return None

    def fork(self) -> socket.socket:
        """Order a worker; returns our end of its socket."""
        ours, theirs = socket.socketpair()
        ours.settimeout(SEND_TIMEOUT)
        self._order(bytes(ORDER_BYTES), theirs)
        theirs.close()
        return ours

    def kill_worker(self, pid: int) -> None:
        self._order(pid.to_bytes(ORDER_BYTES, "big"))

    def stop(self) -> None:
        """Close the connection; the fork server then kills its workers and exits."""
        self.control.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _order(self, order: bytes, attached: socket.socket | None = None) -> None:
        descriptors = [attached.fileno()] if attached is not None else []
        with contextlib.suppress(OSError):  # if it is dead, `read` will notice
            socket.send_fds(self.control, [order], descriptors)


def pickled(judge: Judge) -> bytes:
    """The judge as a worker will load it: what a script or a notebook defines, by its code."""
    import cloudpickle

    try:
        dumped: bytes = cloudpickle.dumps(judge)
        return dumped
    except Exception as fault:
        raise InputError(f"The judge cannot be sent to a worker process: {fault}") from fault


def _environment() -> dict[str, str]:
    """Our environment, with the module path of this process, one thread per library and a fixed hash
    seed, so that a verdict does not depend on the order of a set."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {**os.environ, **threads, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""}
