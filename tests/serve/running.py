"""A run of the embedded pair on disk, and a real server of it on loopback, in a thread of this process."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import openai
import yaml

from agon.policies import Adapters, Pair
from agon.policies.base import load_base
from agon.serve.limits import Gate
from agon.serve.open import Opened, ServeOptions, open_service
from agon.serve.server import listen, make_server

KEY = "a-key-for-tests"
SUM = "State the final answer to the following arithmetic problem: 27 + 35 - 11 ="
TASK = "gym:chain_sum,min_terms=3,max_terms=3,min_digits=2,max_digits=2,train=8,validation=2,test=300"


def save_pair(folder: Path, noise: float = 1e-3, **config: object) -> Path:
    """A run as training leaves it, its adapters as training finds them."""
    Pair.create(load_base("embedded"), Adapters(noise=noise)).save(folder / "adapters")
    options = {
        "model": "embedded",
        "method": "agon",
        "dialect": "think",
        "task": TASK,
        "max_completion_length": 64,
        "eval_temperature": 0.6,
        "eval_top_p": 0.95,
        "torch_threads": 1,
        "judge_workers": 1,
        **config,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(options))
    return folder


@dataclass
class Running:
    """A server, its address, and clients for it."""

    opened: Opened
    url: str

    @cached_property
    def _client(self) -> openai.OpenAI:
        """One for all tests: to make one takes longer than most requests."""
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=KEY, max_retries=0)

    def client(self, key: str = KEY, timeout: float = 120.0) -> openai.OpenAI:
        return self._client.with_options(api_key=key, timeout=timeout)

    def http(self, key: str | None = KEY) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False, verify=False)

    def wait_until_idle(self, seconds: float = 10.0) -> None:
        """Until no answer is being written and the engine samples nothing."""
        service = self.opened.service
        deadline = time.monotonic() + seconds
        while service.gate.in_flight or service.cascade.sampler.running:
            assert time.monotonic() < deadline, "work was left running"
            time.sleep(0.01)


@contextmanager
def serving(run: Path, options: ServeOptions) -> Iterator[Running]:
    with open_service(str(run), options) as opened:
        bound: socket.socket = listen("127.0.0.1", 0)
        server = make_server(opened.service)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield Running(opened, f"http://127.0.0.1:{bound.getsockname()[1]}")
        finally:
            server.should_exit = True
            thread.join(timeout=30)
            bound.close()


@contextmanager
def other_limits(server: Running, **limits: Any) -> Iterator[None]:
    """The same server under other limits for a while."""
    service = server.opened.service
    limits_before, gate_before = service.limits, service.gate
    service.limits = replace(limits_before, **limits)
    service.gate = Gate(service.limits.in_flight)
    try:
        yield
    finally:
        server.wait_until_idle()
        service.limits, service.gate = limits_before, gate_before
