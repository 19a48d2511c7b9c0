"""Progress where there is no terminal: a line a minute that says what a long job is doing.

A log that stays silent for ten minutes looks like a job that hangs; a line a second fills a disk.
"""

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

from agon.printing import say
from agon.train.processes import Launched

EVERY = 60.0  # seconds


class MinuteLines:
    """Prints `describe()` on standard error whenever nothing was printed for a minute."""

    def __init__(self, describe: Callable[[], str], every: float = EVERY) -> None:
        self._describe = describe
        self._every = every
        self._last = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def printed(self) -> None:
        """Somebody else has just printed a line."""
        self._last = time.monotonic()

    def start(self) -> None:
        self._last = time.monotonic()
        if Launched.read().main:  # of several processes one speaks
            self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def __enter__(self) -> "MinuteLines":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _watch(self) -> None:
        while not self._ended.wait(max(0.01, self._last + self._every - time.monotonic())):
            if time.monotonic() - self._last >= self._every:
                say(self._describe(), file=sys.stderr, flush=True)
                self.printed()
