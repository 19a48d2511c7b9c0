"""What a report says, before it is written: one tree, of which the three writers make HTML, Markdown and LaTeX.

All words are plain text; a writer escapes them. In a sentence `backticks` set a name in a fixed-width font. Text from
runs that has backticks of its own can change fonts and nothing else.
"""

from dataclasses import dataclass
from typing import Literal

from agon.reports.tables import Table

Point = tuple[float, float]
Mark = Literal["line", "dot", "square", "triangle", "diamond"]
Tone = Literal["good", "bad", "open", "missing"]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    words: str


@dataclass(frozen=True)
class Listing:
    """Sentences below each other."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Heading:
    """The title of a part of a section."""

    words: str


@dataclass(frozen=True)
class Finding:
    """A question, its answer in a few words, and the sentences behind it."""

    question: str
    answer: str
    tone: Tone
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Series:
    """Points of one colour: a line, or marks. `band` and `spans` hold (x, low, high); `named` puts the label beside."""

    label: str
    colour: str
    points: tuple[Point, ...]
    mark: Mark = "line"
    dashed: bool = False
    band: tuple[tuple[float, float, float], ...] = ()
    spans: tuple[tuple[float, float, float], ...] = ()
    named: bool = False


@dataclass(frozen=True)
class Chart:
    """Series over one pair of axes. With `from_zero` the vertical axis begins there."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    note: str = ""
    from_zero: bool = False


@dataclass(frozen=True)
class Flow:
    """What became of drafts, as shares of all: both right, corrupted, converted, both wrong."""

    title: str
    kept: float
    corrupted: float
    converted: float
    both_wrong: float
    note: str = ""


@dataclass(frozen=True)
class Code:
    """Commands, one a line."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Quote:
    """A duel word for word: its title, and each part with its label."""

    title: str
    parts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Beside:
    """Pictures next to each other where there is room."""

    pictures: tuple[Chart | Flow, ...]


Block = Text | Listing | Heading | Finding | Table | Beside | Code | Quote


@dataclass(frozen=True)
class Section:
    """A title, the name a link leads to, and what stands below."""

    title: str
    name: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """The whole report."""

    title: str
    lead: str
    sections: tuple[Section, ...]


def spans(sentence: str) -> list[tuple[bool, str]]:
    """A sentence cut at its backticks: whether each piece is a name, and the piece.

    >>> spans("`agon` beats `coop`.")
    [(True, 'agon'), (False, ' beats '), (True, 'coop'), (False, '.')]
    """
    pieces = sentence.split("`")
    if len(pieces) % 2 == 0:  # a backtick without its partner is a character
        pieces[-2:] = [f"{pieces[-2]}`{pieces[-1]}"]
    return [(place % 2 == 1, piece) for place, piece in enumerate(pieces) if piece]


def emphasis(cell: str) -> tuple[str, bool]:
    """A cell of a table without its stars, and whether it had them."""
    bold = len(cell) > 4 and cell.startswith("**") and cell.endswith("**")
    return (cell[2:-2], True) if bold else (cell, False)
