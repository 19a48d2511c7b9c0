"""The HTTP side: OpenAI's chat endpoint in front of a cascade, with health and metrics.

A request is read and checked whole before anything is sampled, so that what can be refused is refused
with a status; after that a stream has begun, and an error becomes its last event.
"""

import hmac
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from agon.errors import InputError
from agon.serve.cascade import Ask, Delta
from agon.serve.errors import (
    ApiError,
    bad_request,
    failed,
    timed_out,
    unavailable,
    unknown_model,
    wrong_key,
)
from agon.serve.event_stream import ClientGoneError, EventStream, merged, while_connected
from agon.serve.limits import read_body
from agon.serve.replies import DONE, Reply, event, model_card
from agon.serve.sampling import UnavailableError
from agon.serve.schema import ChatRequest, read_request
from agon.serve.service import Service
from agon.serve.stages import Answer
from agon.version import __version__

LOG = logging.getLogger("agon.serve")
OPEN_PATHS = ("/health", "/docs", "/openapi.json")  # need no key; none of them says anything of the run
CLIENT_GONE = 499  # in metrics and logs only: nobody is there to read it


def build_app(service: Service) -> FastAPI:
    """The application for a service."""
    app = FastAPI(
        title="Agon",
        version=__version__,
        description="A trained pair behind OpenAI's chat endpoint: one drafts, the other answers.",
        redoc_url=None,
    )
    app.state.service = service
    app.add_middleware(_Key, key=service.api_key)

    @app.exception_handler(ApiError)
    async def refused(_: Request, error: ApiError) -> Response:
        return _error(error)

    @app.exception_handler(HTTPException)
    async def no_such_page(_: Request, error: HTTPException) -> Response:
        code = "not_found" if error.status_code == 404 else None
        return _error(ApiError(error.status_code, f"{error.detail}.", code=code))

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> Response:
        return _error(failed())

    @app.get("/health")
    async def health() -> Response:
        trouble = service.cascade.sampler.trouble
        return JSONResponse({"status": trouble or "ok"}, 503 if trouble else 200)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> str:
        gauges = {
            "agon_answers_in_flight": ("Answers being written.", service.gate.in_flight),
            "agon_stages_running": ("Stages being sampled.", service.cascade.sampler.running),
        }
        return service.metrics.text(gauges)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        cards = [model_card(name, route, service.created) for name, route in service.routes.items()]
        return {"object": "list", "data": cards}

    @app.get("/v1/models/{name}")
    async def model(name: str) -> dict[str, Any]:
        if name not in service.routes:
            raise unknown_model(name, list(service.routes))
        return model_card(name, service.routes[name], service.created)

    @app.api_route("/v1/completions", methods=["GET", "POST"], include_in_schema=False)
    async def completions() -> Response:
        raise ApiError(
            404, "/v1/completions is not offered: a cascade needs a chat; use /v1/chat/completions.",
            code="not_found",
        )  # fmt: skip

    schema = {"application/json": {"schema": ChatRequest.model_json_schema(ref_template="#/$defs/{model}")}}

    @app.post("/v1/chat/completions", openapi_extra={"requestBody": {"content": schema, "required": True}})
    async def chat(request: Request) -> Any:
        return await _Chat(service, request).respond()

    return app


class _Chat:
    """One request to the chat endpoint, from its body to the line in the log."""

    def __init__(self, service: Service, request: Request) -> None:
        self._service = service
        self._http = request
        self._began = time.monotonic()
        self._model = "unknown"
        self._answers: list[Answer] = []

    async def respond(self) -> Any:
        service = self._service
        try:
            body = await read_body(
                self._http.stream(), self._http.headers.get("content-length"), service.limits
            )
            asked = read_request(body)
            if asked.model in service.routes:
                self._model = asked.model
            asks = service.asks(asked)
            if trouble := service.cascade.sampler.trouble:
                raise unavailable(trouble)
            if service.log_prompts:
                LOG.info("%s is asked %r", self._model, asks[0].question.problem.prompt)
            entered = service.gate.enter(len(asks))
            entered.__enter__()
        except ApiError as error:
            self._note(error.status)
            raise
        except ClientDisconnect:  # before it had sent what it asks
            self._note(CLIENT_GONE)
            return Response(status_code=CLIENT_GONE)
        except BaseException:
            self._note(500)
            raise
        reply = Reply(
            asked.model, asks[0].route, service.fingerprint, len(asks[0].prompt_ids), bool(asked.agon)
        )
        if asked.stream:
            usage = bool(asked.stream_options and asked.stream_options.include_usage)

            def ended(there: bool) -> None:
                entered.__exit__(None, None, None)
                self._note(200 if there else CLIENT_GONE)

            return EventStream(self._events(asks, reply, usage), self._http.receive, ended)
        try:
            self._answers = await while_connected(self._http.receive, self._whole(asks))
            self._note(200)
            return JSONResponse(reply.completion(self._answers))
        except ClientGoneError:
            self._note(CLIENT_GONE)
            return Response(status_code=CLIENT_GONE)
        except ApiError as error:
            self._note(error.status)
            raise
        except BaseException:
            self._note(500)
            raise
        finally:
            entered.__exit__(None, None, None)

    async def _whole(self, asks: list[Ask]) -> list[Answer]:
        answers: dict[int, Answer] = {}
        limit = self._service.limits.timeout_s
        try:
            async with aclosing(self._items(asks)) as items:
                async for index, item in items:
                    if isinstance(item, Answer):
                        answers[index] = item
        except (TimeoutError, UnavailableError, InputError) as error:
            raise _as_api_error(error, limit) from error
        return [answers[index] for index in range(len(asks))]

    async def _events(self, asks: list[Ask], reply: Reply, usage: bool) -> AsyncGenerator[bytes, None]:
        limit = self._service.limits.timeout_s
        for index in range(len(asks)):
            yield event(reply.opening(index))
        try:
            async with aclosing(self._items(asks)) as items:
                async for index, item in items:
                    if isinstance(item, Delta):
                        yield reply.text(index, item)
                    else:
                        self._answers.append(item)
                        yield event(reply.closing(index, item))
        except (TimeoutError, UnavailableError, InputError) as error:
            yield event(_as_api_error(error, limit).body)
        except Exception:
            LOG.exception("%s failed", reply.id)
            yield event(failed().body)
        else:
            if usage:
                yield event(reply.usage_chunk(self._answers))
        yield DONE

    def _items(self, asks: list[Ask]) -> AsyncGenerator[tuple[int, Delta | Answer], None]:
        """What the answers say, as they are written, until the request's time is over."""
        left = self._began + self._service.limits.timeout_s - time.monotonic()
        return merged([self._service.cascade.answer(ask) for ask in asks], left)

    def _note(self, status: int) -> None:
        """Count and log how a request ended. What was asked and answered stays out of it."""
        metrics, seconds = self._service.metrics, time.monotonic() - self._began
        metrics.request(self._model, status)
        if status == CLIENT_GONE:
            metrics.cancelled += 1
        if status == 200:
            metrics.request_seconds.observe(seconds, model=self._model)
            self._service.gate.took(seconds)
        tokens = sum(answer.tokens for answer in self._answers)
        LOG.info("%s %d, %d tokens in %.2f s", self._model, status, tokens, seconds)


class _Key:
    """Refuses requests without the key, compared in constant time."""

    def __init__(self, app: Any, key: str | None) -> None:
        self._app = app
        self._key = key.encode() if key else None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._key and scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            given = dict(scope["headers"]).get(b"authorization", b"")
            kind, _, key = given.partition(b" ")
            if kind.lower() != b"bearer" or not hmac.compare_digest(key.strip(), self._key):
                await _error(wrong_key())(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _as_api_error(error: Exception, limit: float) -> ApiError:
    if isinstance(error, TimeoutError):
        return timed_out(limit)
    if isinstance(error, UnavailableError):
        return unavailable(str(error))
    return bad_request(str(error))


def _error(error: ApiError) -> Response:
    return JSONResponse(error.body, error.status, headers=error.headers)
