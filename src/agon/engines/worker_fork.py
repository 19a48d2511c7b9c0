"""vLLM's worker process, forked from one that has imported vLLM meanwhile.

On a GPU vLLM runs the model in a child process. It starts that child afresh once CUDA is in use here, and a training's
configuration already uses it, so the child imports once more what this process has imported before. `prepare` starts
a fork server of Python's at once, which imports it beside this process; the worker is then forked from there. It is
another one than `multiprocessing` has for everybody. Where it does not work, vLLM starts its worker as ever.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, popen_forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from threading import Event
from typing import Any

IMPORTS = "agon.engines.worker_imports"
PROBE_S = 120.0
_server = forkserver.ForkServer()
_prepared = Event()


class _FromOurServer(popen_forkserver.Popen):
    def _launch(self, process_obj: Any) -> None:
        everybodys = forkserver.connect_to_new_process
        forkserver.connect_to_new_process = _server.connect_to_new_process
        try:
            super()._launch(process_obj)  # type: ignore[misc]
        finally:
            forkserver.connect_to_new_process = everybodys


class _Worker(ForkServerProcess):
    """A process with the environment that this one has now, not when the server was started."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802  # its name in multiprocessing
        return _FromOurServer(process_obj)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._environment = dict(os.environ)

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self._environment)
        torch = sys.modules.get("torch")
        threads = os.environ.get("OMP_NUM_THREADS", "")  # of which torch has read the server's
        if torch is not None and threads.isdigit():  # it may be a list
            torch.set_num_threads(int(threads))
        super().run()


class _Context(ForkServerContext):
    Process = _Worker


def prepare() -> None:
    """Start the server, which begins to import; loads nothing here."""
    if sys.platform != "linux" or _prepared.is_set():
        return
    _server.set_forkserver_preload([IMPORTS])
    _server.ensure_running()
    _prepared.set()


def has_gpu() -> bool:
    """Whether there is an NVIDIA GPU, without asking torch."""
    return Path("/dev/nvidiactl").exists()


@contextmanager
def forked_worker() -> Iterator[None]:
    """Workers that vLLM starts in this block are forked from the server, if it was prepared and is fit for it."""
    asked = _module_that_starts_workers() if _prepared.is_set() and _fit() else None
    if asked is None:
        yield
        return
    before = asked.get_mp_context
    asked.get_mp_context = _Context
    try:
        yield
    finally:
        asked.get_mp_context = before


def _module_that_starts_workers() -> Any:
    """vLLM's own, which asks a function of its own how; None where another version does it otherwise."""
    try:
        from vllm.v1.executor import multiproc_executor
    except ImportError:
        return None
    return multiproc_executor if hasattr(multiproc_executor, "get_mp_context") else None


def _fit() -> bool:
    """Whether a process from there may use CUDA: one that has used it itself cannot be forked."""
    try:
        probe = _Worker(target=_exit_if_unfit, daemon=True)
        probe.start()
        probe.join(PROBE_S)
    except (OSError, EOFError):
        return False
    return probe.exitcode == 0


def _exit_if_unfit() -> None:
    import torch

    sys.exit(torch.cuda._is_in_bad_fork())
