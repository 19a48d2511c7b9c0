"""What the cascade needs of whatever samples for it: tokens of one request as they come."""

from collections.abc import AsyncGenerator
from typing import Protocol

from agon.engines.live import Piece
from agon.engines.protocol import Request


class UnavailableError(Exception):
    """Nothing can sample at the moment: every server is gone, or the engine has failed."""


class Sampler(Protocol):
    """Streams completions. Closing a stream early cancels its request."""

    @property
    def max_model_len(self) -> int | None:
        """Tokens of a prompt and its completion together; None if there is no limit."""

    @property
    def running(self) -> int:
        """Requests being sampled."""

    @property
    def trouble(self) -> str | None:
        """Why nothing can be sampled; None if all is well."""

    def stream(
        self, request: Request, whole: bool = False, seeded: bool = True
    ) -> AsyncGenerator[Piece, None]:
        """A request's tokens; with `whole`, all of them in one piece. Without `seeded`, its seed may be ignored."""

    def close(self) -> None: ...
