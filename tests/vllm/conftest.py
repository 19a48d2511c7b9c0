"""vLLM set up for a small CPU, and one tiny model and two servers for all tests here."""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.vllm.servers import Server
    from tests.vllm.tiny import Tiny

HERE = Path(__file__).parent
# A test may have to start both servers first.
TIMEOUT_S = 2400

SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # Threads that are bound to cores wait for one another if something else runs there: on two busy
    # cores 40 decoding steps took 26 s bound and 0.6 s unbound.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    "OMP_NUM_THREADS": "1",
    # One small function of vLLM's sampler is compiled at first use, which takes 15 s of g++.
    "TORCH_COMPILE_DISABLE": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}

MISSING = importlib.util.find_spec("vllm") is None

if not MISSING:
    os.environ.update(SETTINGS)  # before anything imports torch or vLLM


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
            if MISSING:
                item.add_marker(pytest.mark.skip(reason="vLLM is not installed; `make test-vllm` has it"))


@pytest.fixture(scope="session")
def shared_tiny(tmp_path_factory: pytest.TempPathFactory) -> "Tiny":
    from tests.vllm.tiny import make_tiny

    return make_tiny(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def tiny(shared_tiny: "Tiny", tmp_path: Path) -> Iterator["Tiny"]:
    """The model; its policies are restored when the test ends."""
    shared_tiny.pair.save(tmp_path / "before")
    yield shared_tiny
    shared_tiny.pair.load_weights(tmp_path / "before")


@pytest.fixture(scope="session", autouse=True)
def start_servers_early(request: pytest.FixtureRequest) -> None:
    """Start what some test will need while the tests before it run: a start takes 30 s of one core."""
    if not MISSING:
        needed = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
        for name in sorted(needed & {"pool", "raw_server"}):
            request.getfixturevalue(name)


@pytest.fixture(scope="session")
def pool(shared_tiny: "Tiny", tmp_path_factory: pytest.TempPathFactory) -> Iterator[list["Server"]]:
    """Two servers, started once and not waited for."""
    from tests.vllm.servers import Server

    logs = tmp_path_factory.mktemp("logs")
    servers = [Server(shared_tiny.path, logs / f"{number}.log") for number in range(2)]
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.close()


@pytest.fixture(scope="session")
def raw_server(shared_tiny: "Tiny", tmp_path_factory: pytest.TempPathFactory) -> Iterator["Server"]:
    """A server that reports log-probs as the model gives them, before temperature and truncation."""
    from tests.vllm.servers import FLAGS, Server

    server = Server(shared_tiny.path, tmp_path_factory.mktemp("raw") / "log")
    try:
        server.start({**FLAGS, "--logprobs-mode": "raw_logprobs"})
        yield server
    finally:
        server.close()


@pytest.fixture
def servers(pool: list["Server"]) -> list["Server"]:
    """Both servers running, whatever the test before did to them."""
    start(pool)
    return pool


def start(servers: list["Server"]) -> None:
    for server in servers:
        if not server.running:
            server.start()
    for server in servers:
        server.wait()
