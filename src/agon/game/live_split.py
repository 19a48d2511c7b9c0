"""A completion split while it is being written: what is private, what is public, where to stop.

`agon.game.transcript` splits a whole text and decides what a rival may read. A reader who watches
cannot wait for the whole. For a text with one private block in front, both find the same parts; where
a block is closed twice, or closed and never opened, what has been passed on as public stays so.
"""

from collections.abc import Iterable, Sequence

from agon.game.dialects import Dialect

Part = tuple[bool, str]  # private or not, and the text


class LiveSplit:
    """Takes text piece by piece and says of each whether it is private; the marks themselves are dropped.

    >>> from agon.game.dialects import dialect
    >>> live = LiveSplit(dialect("think"))
    >>> [*live.feed("<think>2+2</th"), *live.feed("ink>It is 4."), *live.finish()]
    [(True, '2+2'), (False, 'It is 4.')]
    """

    def __init__(self, kind: Dialect, prefilled: bool = False) -> None:
        self._marks = (kind.opens, kind.closes) if kind.private else ()
        self.private = bool(prefilled and kind.private)
        self._held = ""

    def feed(self, text: str) -> list[Part]:
        """The parts that are certain now; what may be the beginning of a mark is held back."""
        if not self._marks:
            return [(False, text)] if text else []
        parts: list[Part] = []
        rest = self._held + text
        while found := _first(rest, self._marks):
            at, mark = found
            parts.append((self.private, rest[:at]))
            rest = rest[at + len(mark) :]
            self.private = mark == self._marks[0]
        kept = len(rest) - _overhang(rest, self._marks)
        parts.append((self.private, rest[:kept]))
        self._held = rest[kept:]
        return [part for part in parts if part[1]]

    def finish(self) -> list[Part]:
        """What was held back and turned out to be text."""
        held, self._held = self._held, ""
        return [(self.private, held)] if held else []


class LiveStop:
    """Passes text on up to the stop sequence that is complete first, which is left out.

    >>> stop = LiveStop(["END"])
    >>> stop.feed("one E"), stop.feed("ND two"), stop.hit
    ('one ', '', True)
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.hit = False

    def feed(self, text: str) -> str:
        if self.hit or not self._stops:
            return "" if self.hit else text
        rest = self._held + text
        found = [(at + len(stop), at) for stop in self._stops if (at := rest.find(stop)) >= 0]
        if found:
            self.hit, self._held = True, ""
            return rest[: min(found)[1]]
        kept = len(rest) - _overhang(rest, self._stops)
        self._held = rest[kept:]
        return rest[:kept]

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held


def _first(text: str, marks: Iterable[str]) -> tuple[int, str] | None:
    """Where the first mark stands in a text, and which it is."""
    found = [(at, mark) for mark in marks if (at := text.find(mark)) >= 0]
    return min(found) if found else None


def _overhang(text: str, marks: Iterable[str]) -> int:
    """How many characters at the end of a text may be the beginning of a mark."""
    longest = max(map(len, marks)) - 1
    for length in range(min(longest, len(text)), 0, -1):
        if any(mark.startswith(text[-length:]) for mark in marks):
            return length
    return 0
