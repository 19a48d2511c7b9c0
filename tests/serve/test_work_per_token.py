"""How much is done for each token: hand-overs, decodings, submissions, counted rather than timed."""

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.engines.live import Piece
from agon.engines.live_text import LiveTexts
from agon.engines.protocol import Request, Sampling
from agon.errors import InputError
from agon.serve.cascade import Delta
from agon.serve.driver import Driver
from agon.serve.event_stream import merged
from agon.serve.replies import Reply, event
from agon.serve.routes import Route
from tests.serve.running import Running

REQUEST = Request("", (1, 2), "A", 0, Sampling(4), 0)
STREAMS = 64


class Stepped:
    """An engine that advances when it is told to, a token for every request each time."""

    submits_anytime = True

    def __init__(self) -> None:
        self.submitted_in: list[str] = []  # names of threads
        self.cancelled: set[str] = set()
        self._left: dict[str, int] = {}
        self.step = threading.Semaphore(0)

    def submit(self, requests: Sequence[Request], whole: bool = False, seeded: bool = True) -> None:
        for request in requests:
            if not request.prompt_ids:
                raise InputError("This prompt is empty.")
            self._left[request.key] = request.sampling.max_tokens
            self.submitted_in.append(threading.current_thread().name)

    def cancel(self, keys: Collection[str]) -> None:
        self.cancelled |= set(keys)
        for key in keys:
            self._left.pop(key, None)

    def advance(self) -> list[Piece]:
        if not self._left:
            return []
        self.step.acquire()
        rows = list(self._left)
        for key in rows:
            self._left[key] -= 1
        pieces = [Piece(key, [7], None if self._left[key] else "length") for key in rows]
        self._left = {key: left for key, left in self._left.items() if left}
        return pieces

    @property
    def running(self) -> int:
        return len(self._left)

    def close(self) -> None:
        self._left.clear()


async def read(driver: Driver, request: Request = REQUEST) -> list[Piece]:
    return [piece async for piece in driver.stream(request)]


def test_a_step_wakes_the_event_loop_once_for_all_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, wakes = Stepped(), 0

    async def all_of_it() -> list[list[Piece]]:
        nonlocal wakes
        driver = Driver(engine, None)
        loop = asyncio.get_running_loop()
        wake = loop.call_soon_threadsafe

        def counted(*args: Any, **options: Any) -> Any:
            nonlocal wakes
            wakes += threading.current_thread().name == "agon-engine"
            return wake(*args, **options)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        reading = [asyncio.create_task(read(driver)) for _ in range(STREAMS)]
        while engine.running < STREAMS:
            await asyncio.sleep(0)
        engine.step.release(REQUEST.sampling.max_tokens)
        said = [await task for task in reading]
        await asyncio.to_thread(driver.close)
        return said

    said = asyncio.run(all_of_it())
    assert [sum(len(piece.token_ids) for piece in pieces) for pieces in said] == [4] * STREAMS
    assert all(len(pieces) <= 4 and pieces[-1].finish_reason == "length" for pieces in said)
    assert 2 <= wakes <= 4  # the first token, the end, and what was due between


def test_a_request_reaches_an_engine_that_is_in_the_middle_of_a_step() -> None:
    """The engine's thread waits in `advance` all the time; the second request does not wait for it."""
    engine = Stepped()

    async def two() -> None:
        driver = Driver(engine, None)
        first = asyncio.create_task(read(driver))
        while engine.running < 1:
            await asyncio.sleep(0)
        second = asyncio.create_task(read(driver))
        while engine.running < 2:
            await asyncio.sleep(0)
        engine.step.release(4)
        for said in (await first, await second):
            assert sum(len(piece.token_ids) for piece in said) == 4
        await asyncio.to_thread(driver.close)

    asyncio.run(asyncio.wait_for(two(), 60))
    assert "agon-engine" not in engine.submitted_in


def test_a_request_that_an_engine_refuses_at_once_leaves_nothing_behind() -> None:
    engine = Stepped()

    async def refused() -> None:
        driver = Driver(engine, None)
        with pytest.raises(InputError, match="prompt is empty"):
            await read(driver, replace(REQUEST, prompt_ids=()))
        assert driver.running == 0
        await asyncio.to_thread(driver.close)

    asyncio.run(asyncio.wait_for(refused(), 60))


def test_a_stream_that_is_closed_early_is_cancelled_in_the_engine() -> None:
    engine = Stepped()

    async def closed() -> None:
        driver = Driver(engine, None)
        stream = driver.stream(replace(REQUEST, sampling=Sampling(1000)))
        engine.step.release(1)
        piece = await anext(stream)
        await stream.aclose()
        engine.step.release(1)
        while engine.running:
            await asyncio.sleep(0)
        assert engine.cancelled == {piece.key}
        await asyncio.to_thread(driver.close)

    asyncio.run(asyncio.wait_for(closed(), 60))


@pytest.mark.parametrize("portion", [1, 3, 8, 1000])
def test_a_portion_of_tokens_is_decoded_in_one_call_and_the_whole_text_once(
    server: Running, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    chat = server.opened.loaded.chat
    token_ids = chat.tokenizer("<think>12 + 30 = 42.</think>", add_special_tokens=False)["input_ids"]
    token_ids = [*token_ids * 3, chat.tokenizer.eos_token_id]
    expected = chat.decode(token_ids)
    live = LiveTexts(chat).start()
    calls: deque[object] = deque()

    class Counted:
        def step(self, core: Any, new: Any) -> Any:
            calls.append(new)
            return stream.step(core, new)

    stream = live._stream
    monkeypatch.setattr(live, "_stream", Counted())
    said = [live.feed(token_ids[at : at + portion]) for at in range(0, len(token_ids), portion)]
    assert "".join(said) == expected  # the end token adds nothing
    assert len(calls) <= -(-len(token_ids) // portion)
    decoded: list[Sequence[int]] = []
    monkeypatch.setattr(chat, "decode", lambda ids: decoded.append(ids) or expected)  # type: ignore[func-returns-value]
    assert live.finish() == ""
    assert live.text == expected
    assert len(decoded) == 1


@given(text=st.text(), index=st.integers(0, 9), kind=st.sampled_from(["reasoning", "content"]))
def test_an_event_of_text_is_what_json_makes_of_the_chunk(text: str, index: int, kind: Any) -> None:
    reply = Reply('a "model"', Route("B", "A"), "agon_0", 3)
    names = ["content"] if kind == "content" else ["reasoning_content", "reasoning"]
    chunk = reply._chunk(index, dict.fromkeys(names, text))
    assert reply.text(index, Delta(kind, text)) == event(chunk)
    assert json.loads(reply.text(index, Delta(kind, text)).removeprefix(b"data: ")) == chunk


def test_several_sources_end_together_when_their_time_is_over() -> None:
    ended = []

    async def endless(number: int) -> AsyncGenerator[int, None]:
        try:
            yield number
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    seen: list[tuple[int, int]] = []

    async def both() -> None:
        async for item in merged([endless(0), endless(1)], seconds=0.05):
            seen.append(item)

    with pytest.raises(TimeoutError):
        asyncio.run(both())
    assert sorted(seen) == [(0, 0), (1, 1)]
    assert sorted(ended) == [0, 1]
