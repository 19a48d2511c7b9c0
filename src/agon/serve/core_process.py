"""vLLM's engine core in a process of its own, for serving.

The core polls in Python for each step of the model. Beside HTTP in one interpreter, that keeps the lock from
HTTP, and HTTP keeps it from the core, which is the likely reason why 64 streams were sampled half as fast as
without HTTP (docs/serve.md). What is started here leaves signals to this process and ends with it.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker

VARIABLE = "VLLM_ENABLE_V1_MULTIPROCESSING"  # vLLM's own; set to 0, the core stays in this process
# Sent to every process of a terminal or of a job; what is under way is answered before the core may end.
FROM_OUTSIDE = {signal.SIGINT, signal.SIGTERM}
WATCH = """
import os, signal, sys
if not sys.stdin.buffer.read(1):  # closed without a word: whoever held the other end was killed
    for pid in map(int, sys.argv[1:]):
        os.kill(pid, signal.SIGKILL)
"""


@contextmanager
def core_in_own_process(stack: ExitStack) -> Iterator[None]:
    """vLLM started in this block has a core in a child process; until the stack ends, neither outlives the other."""
    before = {process.pid for process in multiprocessing.active_children()}
    with _variable(), _signals_left_to_us():
        yield
    pids = [str(process.pid) for process in multiprocessing.active_children() if process.pid not in before]
    if pids:
        stack.enter_context(ending_with_us(pids))


@contextmanager
def ending_with_us(pids: Sequence[str]) -> Iterator[None]:
    """Processes that are killed if this one is: vLLM's core would go on without it and keep the GPU."""
    command = [sys.executable, "-c", WATCH, *pids]
    watching = subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        watching.communicate(b".")


@contextmanager
def _variable() -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    os.environ.setdefault(VARIABLE, "1")
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]


@contextmanager
def _signals_left_to_us() -> Iterator[None]:
    """Processes started in this block inherit blocked signals; in this process another thread takes them."""
    resource_tracker.ensure_running()  # to start it unblocks them again
    over = threading.Event()
    threading.Thread(target=over.wait, daemon=True).start()
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, FROM_OUTSIDE)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        over.set()
