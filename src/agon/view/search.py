"""Looking for words in the texts of duels, a portion at a time: a search over gigabytes answers at once and goes on.

The lines of neighbouring rows are read together. A block that does not hold the words, as JSON writes them
and in either case, is passed over whole; where it does, the texts themselves are looked at, so that a word
that is only the name of a field is not found.
"""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from agon.runs.places import bytes_at
from agon.view.index import Index
from agon.view.sources import BROKEN, Seen

BLOCK = 1 << 20  # bytes that are read at once


@dataclass
class Search:
    """How far a search has come: the rows in their order, how many were looked at, those that were found."""

    needle: str
    rows: np.ndarray
    order: np.ndarray
    looked: int = 0
    found: list[int] = field(default_factory=list)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    @property
    def done(self) -> bool:
        return self.looked >= len(self.order)

    def go_on(self, index: Index, wanted: int, seconds: float) -> None:
        """Look on until so many are found, all was looked at, or the time is over."""
        until = time.monotonic() + seconds
        small = json.dumps(self.needle)[1:-1].lower().encode()
        with self._one_at_a_time:
            while not self.done and len(self.found) < wanted and time.monotonic() < until:
                part = self._next_block()
                self.found += self._in_block(index, part, small)
                self.looked += len(part)

    def _next_block(self) -> np.ndarray:
        """The next rows that stand side by side in one file, up to a block of them."""
        part = self.order[self.looked : self.looked + 4096]
        rows = self.rows[part]
        first, last = rows["offset"], rows["offset"] + rows["length"]
        joined = (rows["file"][1:] == rows["file"][:-1]) & (
            (first[1:] == last[:-1]) | (last[1:] == first[:-1]) | (first[1:] == first[:-1])
        )
        ends = int(np.argmin(joined)) + 1 if len(joined) and not joined.all() else len(part)
        sizes = np.cumsum(rows["length"][:ends])
        return part[: max(1, int(np.searchsorted(sizes, BLOCK)))]

    def _in_block(self, index: Index, part: np.ndarray, small: bytes) -> Iterator[int]:
        rows = self.rows[part]
        start = int(rows["offset"].min())
        end = int((rows["offset"] + rows["length"]).max())
        block = bytes_at(index.path(int(rows["file"][0])), start, end - start)
        lower = block.lower()
        if small not in lower:
            return
        for number, row in zip(part.tolist(), rows, strict=True):
            at = int(row["offset"]) - start
            if lower.find(small, at, at + int(row["length"])) < 0:
                continue
            try:
                seen = index.source.read(block[at : at + int(row["length"])])[int(row["sub"])]
            except (*BROKEN, IndexError):
                continue
            if holds(seen, self.needle.lower()):
                yield number


def holds(seen: Seen, small: str) -> bool:
    """Whether any text of a duel has these words, given in small letters."""
    duel = seen.duel
    texts = [
        duel.problem.id,
        duel.problem.prompt,
        duel.problem.answer,
        duel.draft.rollout.text,
        duel.shown or "",
    ]
    texts += [duel.challenge.rollout.text] if duel.challenge else []
    return any(small in text.lower() for text in texts)
