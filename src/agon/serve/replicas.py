"""Sampling on `vllm serve` processes, streamed, with no request lost when one of them dies.

`VllmServerEngine` keeps the servers up to date and knows which are ready; here each stage goes to the
least busy of them over one asynchronous client. If a server fails in the middle of a stage, the stage
goes on elsewhere: the tokens that have arrived become part of the prompt, so a client sees one text
without a gap or a repetition. What follows is drawn with a new seed; where nothing has arrived yet,
the stage is repeated with its own.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx

from agon.engines.live import Piece
from agon.engines.protocol import Request, check_request, derive_seed
from agon.engines.vllm_replica import Replica, ReplicaError, completion_body, message_of
from agon.engines.vllm_server import VllmServerEngine
from agon.errors import InputError
from agon.serve.sampling import UnavailableError

POLL_S = 0.05  # between two looks for a server that is ready
WATCH_S = 0.5  # between two looks whether a server that owes an answer is still in use
CONNECT_S = 10.0


class Replicas:
    """Spreads stages over servers; a stage that loses its server continues on another."""

    def __init__(
        self,
        engine: VllmServerEngine,
        versions: dict[str, int],
        *,
        patience_s: float = 30.0,
        attempts: int = 6,
        on_retry: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._versions = versions
        self._patience_s = patience_s
        self._attempts = attempts
        self._on_retry = on_retry
        self._client: httpx.AsyncClient | None = None
        self._waiting: dict[asyncio.Timeout, Replica] = {}
        self._watcher: asyncio.Task[None] | None = None
        self.running = 0

    @property
    def max_model_len(self) -> int | None:
        return self._engine.max_model_len

    @property
    def trouble(self) -> str | None:
        states = self._engine.replicas()
        if "ready" in states.values():
            return None
        return f"None of {len(states)} vLLM servers is ready."

    async def stream(
        self, request: Request, whole: bool = False, seeded: bool = True
    ) -> AsyncGenerator[Piece, None]:
        check_request(request, self._versions, self.max_model_len)
        done: list[int] = []
        failed_on: Replica | None = None
        self.running += 1
        try:
            for attempt in range(self._attempts):
                if len(done) >= request.sampling.max_tokens:  # only the word that it ended was lost
                    yield Piece(request.key, (), "length")
                    return
                if attempt:
                    self._on_retry()
                replica = await self._lease(failed_on)
                error: ReplicaError | None = None
                try:
                    async with aclosing(self._sample(replica, _rest(request, done), whole, seeded)) as pieces:
                        async for piece in pieces:
                            done += piece.token_ids
                            yield piece
                            if piece.finish_reason is not None:
                                return
                    error = ReplicaError("ended a stream before its completion")
                except ReplicaError as found:
                    error = found
                finally:
                    self._engine.give_back(replica, error)
                failed_on = replica
            raise UnavailableError(f"A stage failed {self._attempts} times, last: {error}.")
        finally:
            self.running -= 1

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()

    async def _lease(self, avoid: Replica | None) -> Replica:
        deadline = time.monotonic() + self._patience_s
        while (replica := self._engine.lease(avoid)) is None:
            if time.monotonic() > deadline:
                raise UnavailableError(self.trouble or "No vLLM server was free.")
            await asyncio.sleep(POLL_S)
        return replica

    async def _sample(
        self, replica: Replica, request: Request, whole: bool, seeded: bool
    ) -> AsyncGenerator[Piece, None]:
        body = completion_body(request, self._engine.model_name(request.policy), self._engine.stop_ids)
        if not seeded:
            del body["seed"]
        try:
            if whole:
                async with self._answering(replica):
                    answer = await self._http().post(
                        replica.completions_url, json=body, headers=replica.authorization
                    )
                _check(replica, answer.status_code, answer.content)
                yield _piece(request.key, [answer.json()])
                return
            body["stream"] = True
            async with self._answering(replica):
                stream = self._http().stream(
                    "POST", replica.completions_url, json=body, headers=replica.authorization
                )
                answer = await stream.__aenter__()
            try:
                if answer.status_code != 200:
                    _check(replica, answer.status_code, await answer.aread())
                async with aclosing(self._events(replica, answer)) as portions:
                    async for events in portions:
                        yield _piece(request.key, events)
            finally:
                await stream.__aexit__(None, None, None)
        except (httpx.HTTPError, httpx.StreamError, OSError, AttributeError) as error:
            # The last: what anyio raises where a connection is lost before it has been looked at.
            raise ReplicaError(f"{type(error).__name__}: {error}") from error
        except TimeoutError as error:
            raise ReplicaError("stopped answering") from error
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ReplicaError(f"does not answer as vLLM does: {error!r}") from error

    async def _events(
        self, replica: Replica, answer: httpx.Response
    ) -> AsyncGenerator[list[dict[str, Any]], None]:
        """The events of a stream, those that arrive together in one list."""
        chunks = answer.aiter_raw()
        buffer = b""
        while True:
            try:
                async with self._answering(replica):
                    buffer += await anext(chunks)
            except StopAsyncIteration:
                return
            *texts, buffer = buffer.split(b"\n\n")
            data = [text.removeprefix(b"data: ") for text in texts if text.startswith(b"data: ")]
            events = [json.loads(text) for text in data if text != b"[DONE]"]
            if events:
                yield events

    @asynccontextmanager
    async def _answering(self, replica: Replica) -> AsyncIterator[asyncio.Timeout]:
        """Wait for a server as long as it is in use; a hung one is noticed by the engine's look at its health."""
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._watch())
        async with asyncio.timeout(None) as scope:
            self._waiting[scope] = replica
            try:
                yield scope
            finally:
                del self._waiting[scope]

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            for scope, replica in list(self._waiting.items()):
                if not replica.ready:
                    scope.reschedule(asyncio.get_running_loop().time())

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            # Stages may take hours and are limited elsewhere; the environment's proxies are not for loopback.
            timeout = httpx.Timeout(None, connect=CONNECT_S)
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
            self._client = httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False)
        return self._client


def _rest(request: Request, done: list[int]) -> Request:
    """What is left of a request after the tokens that have arrived."""
    if not done:
        return request
    sampling = replace(request.sampling, max_tokens=request.sampling.max_tokens - len(done))
    return replace(
        request,
        prompt_ids=(*request.prompt_ids, *done),
        sampling=sampling,
        seed=derive_seed(request.seed, "continued", len(done)),
    )


def _check(replica: Replica, status: int, content: bytes) -> None:
    if status in (400, 422):
        raise InputError(f"A server refuses a request: {message_of(content)}")
    if status != 200:
        raise ReplicaError(f"answers {status}: {message_of(content)}")


def _piece(key: str, events: list[dict[str, Any]]) -> Piece:
    token_ids: list[int] = []
    reason = None
    for event in events:
        if "error" in event:
            raise ReplicaError(f"ended a stream with an error: {event['error']}")
        for choice in event["choices"]:
            token_ids += choice["token_ids"] or ()
            reason = choice["finish_reason"] or reason
    if reason not in (None, "stop", "length"):
        raise ReplicaError(f"ended a completion with '{reason}'")
    return Piece(key, token_ids, reason)
