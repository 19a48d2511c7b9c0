r"""What an answer is made of: lists, tuples, intervals, sets, unions, matrices, and plain expressions.

`\{1, 2\}` and `{1, 2}` are sets, `(1, 2)` a tuple or an open interval (the two compare alike), `1, 2` or
`1 or 2` a list without brackets, `1 \pm 2` a list of two, `10:30` a ratio or a time, `2\begin{pmatrix}…` a
matrix. Everything else is an expression.
"""

import re
from dataclasses import dataclass
from typing import Literal

from agon.judges.math.latex import matching, split_top
from agon.judges.math.rationals import read_rational
from agon.judges.math.units import split_unit

Bracket = Literal["none", "set", "round", "square", "left-open", "right-open", "ratio"]


@dataclass(frozen=True)
class Expression:
    """Anything that is not one of the others."""

    text: str


@dataclass(frozen=True)
class Listing:
    """Several items in a row, with or without brackets."""

    bracket: Bracket
    items: tuple["Structure", ...]
    joined_by_or: bool = False


@dataclass(frozen=True)
class Union:
    """Several sets joined by `\\cup`."""

    parts: tuple["Structure", ...]


@dataclass(frozen=True)
class Grid:
    """A matrix, row by row."""

    rows: tuple[tuple["Structure", ...], ...]


Structure = Expression | Listing | Union | Grid

_LIST_MARK = re.compile(
    r",|;|\\text\{ ?(?:and|or|, ?and|, ?or) ?\}| (?:and|or) |\\lor(?![A-Za-z])|\\vee(?![A-Za-z])"
)
_OR = re.compile(r"\\text\{ ?(?:, ?)?or ?\}| or |\\lor(?![A-Za-z])|\\vee(?![A-Za-z])")
_COMMA = re.compile(r",|;")
_CUP = re.compile(r"\\cup(?![A-Za-z])")
_ROW = re.compile(r"\\cr(?![A-Za-z])")
_CELL = re.compile(r"&")
_COLON = re.compile(r":")
_MATRIX = re.compile(
    r"^([^=<>]*?)(?:\\cdot\s*)?\\begin\{([pbB]?matrix|smallmatrix|array)\}(?:\{[lcr| ]*\})?(.*)\\end\{\2\}$",
    re.DOTALL,
)
_SYSTEM = re.compile(
    r"^(?:\\\{\s*\\begin\{(?=array|aligned)|\\begin\{(?=cases))(\w+)\}(?:\{[lcr ]*\})?(.*)\\end\{\1\}$",
    re.DOTALL,
)
_NUMBER_IN_TEXT = re.compile(r"^\\text\{\s*((?:\\\$)?[-+]?\.?\d[^{}]*)\}$")
_THOUSANDS = re.compile(r"^[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_BUILDER = re.compile(r"\\mid(?![A-Za-z])|(?<!\\)\||:")
_BRACKETS: dict[tuple[str, str], Bracket] = {
    ("(", ")"): "round",
    ("[", "]"): "square",
    ("(", "]"): "left-open",
    ("[", ")"): "right-open",
}
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_MAX_DEPTH = 12


def read_structure(text: str, depth: int = 0) -> Structure:
    r"""The structure of a normalised answer.

    >>> read_structure(r"\{1, 2\}").items
    (Expression(text='1'), Expression(text='2'))
    """
    text = _bare(text)
    if depth > _MAX_DEPTH:
        return Expression(text)
    if "," in text and _THOUSANDS.match(split_unit(text)[0]):
        return Expression(text)
    grid = _grid(text, depth)
    if grid is not None:
        return grid
    system = _system(text)
    if system is not None:
        return Listing("none", _flatten(system, depth))
    parts = [part for part in split_top(text, _LIST_MARK) if part]
    if len(parts) > 1:
        joined_by_or = len(split_top(text, _OR)) > 1
        return Listing("none", _flatten(parts, depth), joined_by_or)
    enclosed = _enclosed(text, depth)
    if enclosed is not None:
        return enclosed
    sets = split_top(text, _CUP)
    if len(sets) > 1 and all(sets):
        return Union(tuple(read_structure(part, depth + 1) for part in sets))
    terms = split_top(text, _COLON) if ":" in text and "=" not in text else []
    if len(terms) > 1 and all(terms):
        return Listing("ratio", tuple(read_structure(term, depth + 1) for term in terms))
    if r"\pm" in text:
        return Listing("none", _flatten([text], depth))
    return Expression(text)


def _bare(text: str) -> str:
    r"""Without brackets that enclose a single item: ((x)), {x}, `\text{8}`, and those around a matrix. The
    parser of math-verify takes exponential time on deep ones."""
    text = text.strip()
    while text[:1] in _CLOSING and text[-1:] == _CLOSING[text[0]] and matching(text, 0) == len(text) - 1:
        inside = text[1:-1].strip()
        if not inside or len(split_top(inside, _COMMA)) > 1:
            break
        if text[0] == "[" and not (inside.startswith(r"\begin") and _MATRIX.match(inside)):
            break
        text = inside
    if found := _NUMBER_IN_TEXT.match(text):
        return found[1].strip()
    return text


def as_list(text: str) -> Listing | None:
    """`100,200,300` read as a list after all; `read_structure` takes it for one number."""
    if not _THOUSANDS.match(text):
        return None
    return Listing("none", tuple(Expression(part) for part in text.split(",")))


def _grid(text: str, depth: int) -> Grid | None:
    r"""A matrix, or a number times a matrix: `2\begin{pmatrix}…` and `-\begin{pmatrix}…`."""
    found = _MATRIX.match(text) if r"\begin" in text else None
    if found is None or r"\begin" in found[3]:
        return None
    factor = found[1].strip()
    if factor and (
        factor[-1] in "+/^_|,(&" or (factor[-1] == "-" and len(factor) > 1) or not _balanced(factor)
    ):
        return None
    lines = [row for row in _ROW.split(found[3].replace(r"\hline", "")) if row.strip()]
    cells = [[_times(factor, cell) for cell in split_top(row, _CELL)] for row in lines]
    rows = tuple(tuple(read_structure(cell, depth + 1) for cell in row) for row in cells)
    return Grid(rows) if rows and len({len(row) for row in rows}) == 1 else None


def _system(text: str) -> list[str] | None:
    """The equations of a system, one under the other behind a brace."""
    found = _SYSTEM.match(text) if r"\begin" in text else None
    rows = [row.strip() for row in _ROW.split(found[2])] if found else []
    rows = [row.strip(",; ") for row in rows if row]
    return rows if len(rows) > 1 and all("=" in row and "&" not in row for row in rows) else None


def _times(factor: str, cell: str) -> str:
    return cell if not factor else f"-({cell})" if factor == "-" else rf"({factor})\cdot({cell})"


def _balanced(text: str) -> bool:
    return all(text.count(opening) == text.count(closing) for opening, closing in _CLOSING.items())


def _enclosed(text: str, depth: int) -> Structure | None:
    if text.startswith(r"\{") and text.endswith(r"\}") and matching(text, 1) == len(text) - 1:
        inside = text[2:-2]
        if len(split_top(inside, _BUILDER)) > 1:
            return None  # {x : x > 0} is an expression of its own
        return Listing("set", _flatten(split_top(inside, _COMMA), depth))
    if text.startswith(r"\langle") and text.endswith(r"\rangle"):
        inside = text[len(r"\langle") : -len(r"\rangle")]
        return (
            Listing("round", _flatten(split_top(inside, _COMMA), depth)) if r"\langle" not in inside else None
        )
    if not text or text[0] not in "([{" or matching(text, 0) != len(text) - 1:
        return None
    if text[0] == "{":  # {2,3,5}: the backslashes were left out
        items = split_top(text[1:-1], _COMMA)
        return Listing("set", _flatten(items, depth)) if len(items) > 1 and all(items) else None
    items = split_top(text[1:-1], _COMMA)
    bracket = _BRACKETS.get((text[0], text[-1]))
    if bracket is None or not all(items):
        return None
    if bracket != "square" and _THOUSANDS.match(text[1:-1]) and read_rational(text[1:-1]) is not None:
        items = text[1:-1].split(",")  # in brackets a comma separates
    return Listing(bracket, tuple(read_structure(item, depth + 1) for item in items))


def _flatten(parts: list[str], depth: int) -> tuple[Structure, ...]:
    r"""The structures of parts, `a \pm b` as two of them."""
    structures: list[Structure] = []
    for part in parts:
        if r"\pm" in part:
            for plus, minus in (("+", "-"), ("-", "+")):
                signed = part.replace(r"\pm", plus).replace(r"\mp", minus).strip()
                # A chain's name stays outside: x = 1 + 2, x = 1 - 2.
                structures.append(read_structure(re.sub(r"(^|[=(,])\s*\+", r"\1", signed), depth + 1))
        else:
            structures.append(read_structure(part, depth + 1))
    return tuple(structures)
