"""A stage whose server is lost goes on elsewhere, however the loss shows itself."""

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from agon.engines.protocol import Request, Sampling
from agon.serve.replicas import Replicas


class Servers:
    """Two servers by name; remembers what was said of each."""

    max_model_len, stop_ids = None, (0,)

    def __init__(self) -> None:
        self._free = [
            SimpleNamespace(completions_url=f"http://{name}/v1/completions", authorization={}, ready=True)
            for name in ("one", "other")
        ]
        self.errors: list[Exception | None] = []

    def replicas(self) -> dict[str, str]:
        return {"one": "ready", "other": "ready"}

    def model_name(self, policy: str) -> str:
        return policy

    def lease(self, *_: Any, **__: Any) -> Any:
        return self._free.pop(0)

    def give_back(self, replica: Any, error: Exception | None) -> None:
        self.errors.append(error)


@pytest.mark.parametrize(
    "lost",
    [
        httpx.ReadError("gone"),
        ConnectionResetError("gone"),
        # What anyio says where uvloop has already let go of the socket.
        AttributeError("'NoneType' object has no attribute 'getpeername'"),
    ],
)
def test_a_connection_that_is_lost_at_once_is_made_elsewhere(lost: Exception) -> None:
    servers = Servers()
    replicas = Replicas(servers, {"A": 0})  # type: ignore[arg-type]

    async def handle(asked: httpx.Request) -> httpx.Response:
        if asked.url.host == "one":
            raise lost
        return httpx.Response(200, json={"choices": [{"token_ids": [5, 0], "finish_reason": "stop"}]})

    async def ask() -> list[Any]:
        replicas._client = httpx.AsyncClient(transport=httpx.MockTransport(handle))
        request = Request("key", (1, 2), "A", 0, Sampling(8), seed=0)
        found = [piece async for piece in replicas.stream(request, whole=True)]
        replicas.close()
        return found

    (piece,) = asyncio.run(ask())
    assert list(piece.token_ids) == [5, 0]
    assert [error is None for error in servers.errors] == [False, True]
