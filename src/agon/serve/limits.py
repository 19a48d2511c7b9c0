"""What one client may ask for, and how much is answered at a time."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agon.serve.errors import ApiError, bad_request, overloaded, too_large

# More characters than this for each token that may be sent are refused without counting the tokens.
CHARACTERS_PER_TOKEN = 32
LONGEST_PAUSE_S = 30


@dataclass(frozen=True)
class Limits:
    """The limits of a server; the defaults are those of `agon serve`."""

    body_bytes: int = 1_000_000
    prompt_tokens: int | None = None  # None is what the engine can read
    in_flight: int = 256  # answers; a request with n = 4 is four
    timeout_s: float = 600.0  # of one request
    body_timeout_s: float = 30.0  # for a client to send what it asks
    drain_s: float = 600.0  # for requests under way when the server is told to stop


async def read_body(stream: AsyncIterator[bytes], declared: str | None, limits: Limits) -> bytes:
    """A request's body, refused as soon as it is too large or too slow."""
    if declared is not None and declared.isdecimal() and int(declared[:20]) > limits.body_bytes:
        raise too_large(limits.body_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            async for chunk in stream:
                body += chunk
                if len(body) > limits.body_bytes:
                    raise too_large(limits.body_bytes)
    except TimeoutError as error:
        raise ApiError(
            408, f"The request was not received within {limits.body_timeout_s:g} s.", code="request_timeout"
        ) from error
    return bytes(body)


class Gate:
    """Lets a number of answers in at a time and turns others away with a time to come back."""

    def __init__(self, places: int) -> None:
        self._places = places
        self.in_flight = 0
        self._usual_s = 1.0  # how long an answer took lately

    @contextmanager
    def enter(self, answers: int) -> Iterator[None]:
        if answers > self._places:
            raise bad_request(f"'n' may be {self._places} at most on this server.", "n")
        if self.in_flight + answers > self._places:
            raise overloaded(min(LONGEST_PAUSE_S, max(1, math.ceil(self._usual_s))))
        self.in_flight += answers
        try:
            yield
        finally:
            self.in_flight -= answers

    def took(self, seconds: float) -> None:
        """Remember how long an answer took, the latest most."""
        self._usual_s += 0.1 * (seconds - self._usual_s)
