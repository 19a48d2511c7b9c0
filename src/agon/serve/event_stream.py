"""Answers over a connection that may go away: whoever hangs up ends what was sampled for them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.responses import Response

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
T = TypeVar("T")


class ClientGoneError(Exception):
    """The client closed its connection before it had its answer."""


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Do something for a client; if it hangs up first, the work is cancelled and waited for."""
    doing = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({doing, gone}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        raise ClientGoneError
    finally:
        for task in (doing, gone):
            task.cancel()
        await asyncio.gather(doing, gone, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """A response of server-sent events."""

    def __init__(
        self, events: AsyncGenerator[bytes, None], receive: Receive, ended: Callable[[bool], None]
    ) -> None:
        super().__init__()
        self._events = events
        self._receive = receive
        self._ended = ended  # is told whether the client was there to the end

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        there = False
        try:
            await while_connected(self._receive, self._send_all(send))
            there = True
        except (ClientGoneError, OSError):
            pass
        finally:
            self._ended(there)

    async def _send_all(self, send: Send) -> None:
        async with aclosing(self._events) as events:
            headers = [
                (b"content-type", b"text/event-stream; charset=utf-8"),
                (b"cache-control", b"no-cache"),
                (b"x-accel-buffering", b"no"),
            ]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async for event in events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def merged(
    sources: list[AsyncGenerator[T, None]], seconds: float
) -> AsyncGenerator[tuple[int, T], None]:
    """What several generators yield, as it comes, with the number of the one it is from.

    An error of one ends all; so does closing this generator, or a `TimeoutError` after so many seconds.
    """
    arrived: asyncio.Queue[tuple[int, T] | BaseException | None] = asyncio.Queue()
    # One timer for all of it: `asyncio.timeout` around each item costs as much as the item.
    timer = asyncio.get_running_loop().call_later(seconds, arrived.put_nowait, TimeoutError())

    async def pump(number: int, source: AsyncGenerator[T, None]) -> None:
        try:
            async with aclosing(source):
                async for item in source:
                    arrived.put_nowait((number, item))
            arrived.put_nowait(None)
        except Exception as error:
            arrived.put_nowait(error)

    tasks = [asyncio.create_task(pump(number, source)) for number, source in enumerate(sources)]
    try:
        left = len(tasks)
        while left:
            item = await arrived.get()
            if item is None:
                left -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item
    finally:
        timer.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
