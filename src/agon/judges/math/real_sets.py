r"""Sets of real numbers, however they are written: `x > 2`, `(2,\infty)`, `\{x \mid x > 2\}`, `x \neq 0`.

Everything is read into intervals between endpoints. "or" and `\cup` join, "and" intersects: `x < 1` or
`x > 2` is not `x < 1` and `x > 2`. A comma between conditions means "and" where that leaves anything,
and "or" where it would leave nothing, as in `x < 1, x > 2`. Where an endpoint is no number (`x > a`),
intervals are neither joined nor intersected, only compared as they stand.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from agon.judges.math.latex import matching, split_top
from agon.judges.math.rationals import read_rational
from agon.judges.math.symbolic import number_value

INFINITY = r"\infty"
_MEANS_A_SET = re.compile(r"[<>]|\\leq|\\geq|\\neq|\\mathbb|\\mid|\||\\setminus|\\in(?![A-Za-z])|\\cup")
_SIGN = re.compile(r"\\leq|\\geq|\\neq|<|>")
_UNEQUAL = re.compile(r"\\neq")
_FLIPPED = {r"\leq": r"\geq", r"\geq": r"\leq", "<": ">", ">": "<", r"\neq": r"\neq"}
_OR = re.compile(r"\\text\{ ?(?:, ?)?or ?\}| or |\\lor(?![A-Za-z])|\\vee(?![A-Za-z])|\\cup(?![A-Za-z])")
_AND = re.compile(
    r"\\text\{ ?(?:, ?)?and ?\}| and |\\land(?![A-Za-z])|\\wedge(?![A-Za-z])|\\cap(?![A-Za-z])|\\text\{ ?but ?\}| but "
)
_COMMA = re.compile(r",|;")
_BAR = re.compile(r"\\mid(?![A-Za-z])|\||:")
_IN = re.compile(r"\\in(?![A-Za-z])")
_MINUS = re.compile(r"\\setminus(?![A-Za-z])|\\backslash(?![A-Za-z])|-(?=\s*\\\{)")
_VARIABLE = re.compile(
    r"^(?:[A-Za-z]|\\(?:alpha|beta|gamma|theta|lambda|mu|omega|varphi|phi|rho))(?:_\{\w+\})?$"
)
_REALS = frozenset([r"\mathbb{R}", "R"])
_UNKNOWNS = frozenset("xyz")
_CONSTANTS = frozenset(["e", "i"])
_MAX_PARTS = 12


@dataclass(frozen=True)
class Interval:
    """From one endpoint to another; the same endpoint twice, both closed, is a single number."""

    low: str
    high: str
    low_closed: bool
    high_closed: bool


@dataclass(frozen=True)
class RealSet:
    """Intervals in a row, and the variable of the condition that described them."""

    intervals: tuple[Interval, ...]
    variable: str | None = None


Same = Callable[[str, str], bool]
_ALL = Interval("-" + INFINITY, INFINITY, False, False)


class _NotASetError(Exception):
    pass


def describes_a_set(text: str) -> bool:
    """Whether a text may be a set that is described and not only listed."""
    return bool(_MEANS_A_SET.search(text))


def read_real_set(text: str) -> RealSet | None:
    r"""The set of real numbers that a normalised answer describes, None if it does not.

    >>> read_real_set(r"x>2").intervals
    (Interval(low='2', high='\\infty', low_closed=False, high_closed=False),)
    """
    try:
        found = _condition(text.strip())
    except _NotASetError:
        return None
    return RealSet(_joined(found.intervals), found.variable)


def has_numbers_only(found: RealSet) -> bool:
    """Whether every endpoint is a number, so that two such sets are equal or not."""
    try:
        return all(
            _place(end) is not None for interval in found.intervals for end in (interval.low, interval.high)
        )
    except _NotASetError:
        return False


def equal_sets(gold: RealSet, answer: RealSet, same: Same) -> bool:
    """Whether two sets are equal; `same` compares two endpoints."""
    if gold.variable and answer.variable and gold.variable != answer.variable:
        return False
    if len(gold.intervals) != len(answer.intervals):
        return False
    left = list(answer.intervals)
    for interval in gold.intervals:
        found = next((other for other in left if _equal_intervals(interval, other, same)), None)
        if found is None:
            return False
        left.remove(found)
    return True


def _equal_intervals(gold: Interval, answer: Interval, same: Same) -> bool:
    closed = (gold.low_closed, gold.high_closed) == (answer.low_closed, answer.high_closed)
    return closed and same(gold.low, answer.low) and same(gold.high, answer.high)


def _condition(text: str, depth: int = 0) -> RealSet:
    """Conditions joined by or, and, or commas; or one of them."""
    if depth > 8:
        raise _NotASetError
    alternatives = split_top(text, _OR)
    if len(alternatives) > 1:
        return _union(_condition(part, depth + 1) for part in _few(alternatives))
    together = split_top(text, _AND)
    if len(together) > 1:
        return _intersection([_condition(part, depth + 1) for part in _few(together)])
    listed = split_top(text, _COMMA)
    if len(listed) > 1:
        name, *rest = split_top(listed[0], _UNEQUAL)
        if rest and not any(_SIGN.search(part) for part in listed[1:]):
            listed = [listed[0], *(rf"{name}\neq {part}" for part in listed[1:])]  # x \neq 1, 2
        if not all(_SIGN.search(part) or _IN.search(part) for part in listed):
            raise _NotASetError  # (1,2),(3,4) are two points
        parts = [_condition(part, depth + 1) for part in _few(listed)]
        common = _intersection(parts)
        return common if common.intervals else _union(parts)
    return _single(text, depth)


def _single(text: str, depth: int) -> RealSet:
    parts = split_top(text, _IN)
    if len(parts) == 2 and _is_variable(parts[0]):
        found = RealSet((_ALL,)) if parts[1] in _REALS else _condition(parts[1], depth + 1)
        return RealSet(found.intervals, parts[0])
    if text.startswith(r"\{") and text.endswith(r"\}") and matching(text, 1) == len(text) - 1:
        return _braces(text[2:-2], depth)
    if text[:1] == "{" and matching(text, 0) == len(text) - 1:
        return _braces(text[1:-1], depth)
    if _SIGN.search(text):
        return _relation(text)
    if text == r"\mathbb{R}":
        return RealSet((_ALL,))
    if text == r"\emptyset":
        return RealSet(())
    if text.replace(" ", "") == r"\mathbb{R}^{+}":
        return RealSet((Interval("0", INFINITY, False, False),))
    without = split_top(text, _MINUS)
    if len(without) == 2 and all(without):
        return _difference(_condition(without[0], depth + 1), _condition(without[1], depth + 1))
    return _interval(text, depth)


def _braces(inside: str, depth: int) -> RealSet:
    """`{x | x > 2}`, or numbers one by one."""
    head, *rest = split_top(inside, _BAR)
    if rest:
        # The bars of an absolute value would be split as well: not read.
        if len(rest) != 1 or not rest[0]:
            raise _NotASetError
        name, *domain = split_top(head, _IN)
        if not _is_variable(name) or len(domain) > 1 or (domain and domain[0] not in _REALS):
            raise _NotASetError
        found = _condition(rest[0], depth + 1)
        if found.variable not in (name, None):
            raise _NotASetError
        return RealSet(found.intervals)
    numbers = split_top(inside, _COMMA)
    if not all(numbers) or any(_SIGN.search(number) for number in numbers):
        raise _NotASetError
    return RealSet(tuple(Interval(number, number, True, True) for number in _few(numbers)))


def _relation(text: str) -> RealSet:
    """`x > 2`, `1 < x \\leq 2`, `x \\neq 0`."""
    sides, signs = split_top(text, _SIGN), _SIGN.findall(text)
    if len(sides) != len(signs) + 1 or not all(sides):
        raise _NotASetError
    if (
        len(signs) == 1
        and all(map(_is_variable, sides))
        and (sides[0] in _UNKNOWNS) == (sides[1] in _UNKNOWNS)
    ):
        raise _NotASetError  # a < b says as much about b
    if len(signs) == 1 and _is_variable(sides[1]) and sides[0] not in _UNKNOWNS:
        sides, signs = sides[::-1], [_FLIPPED[signs[0]]]
    if len(signs) == 1 and _is_variable(sides[0]) and not _mentions(sides[1], sides[0]):
        if r"\pm" in sides[1] and signs[0] == r"\neq":
            both = [RealSet(_one_sided(r"\neq", sides[1].replace(r"\pm", sign))) for sign in "+-"]
            return RealSet(_intersection(both).intervals, sides[0])
        return RealSet(_one_sided(signs[0], sides[1]), sides[0])
    if len(signs) == 2 and signs[0] in (">", r"\geq"):
        sides, signs = sides[::-1], [_FLIPPED[sign] for sign in reversed(signs)]
    upwards = all(sign in ("<", r"\leq") for sign in signs)
    if len(signs) != 2 or not upwards or not _is_variable(sides[1]):
        raise _NotASetError
    if _mentions(sides[0], sides[1]) or _mentions(sides[2], sides[1]):
        raise _NotASetError
    low_closed, high_closed = (sign == r"\leq" for sign in signs)
    return RealSet((Interval(sides[0], sides[2], low_closed, high_closed),), sides[1])


def _one_sided(sign: str, bound: str) -> tuple[Interval, ...]:
    below = Interval("-" + INFINITY, bound, False, sign == r"\leq")
    above = Interval(bound, INFINITY, sign == r"\geq", False)
    return (below,) if sign in ("<", r"\leq") else (above,) if sign in (">", r"\geq") else (below, above)


def _interval(text: str, depth: int) -> RealSet:
    if not text or text[0] not in "([" or text[-1] not in ")]" or matching(text, 0) != len(text) - 1:
        raise _NotASetError
    ends = split_top(text[1:-1], _COMMA)
    if len(ends) == 1 and text[0] == "(" and text[-1] == ")":
        return _condition(ends[0], depth + 1)
    if len(ends) != 2 or not all(ends) or any(_SIGN.search(end) for end in ends):
        raise _NotASetError
    return RealSet((Interval(ends[0], ends[1], text[0] == "[", text[-1] == "]"),))


def _is_variable(text: str) -> bool:
    return bool(_VARIABLE.match(text)) and text not in _CONSTANTS


def _mentions(text: str, variable: str) -> bool:
    return bool(re.search(rf"(?<![A-Za-z\\]){re.escape(variable)}(?![A-Za-z])", text))


def _few(parts: list[str]) -> list[str]:
    if len(parts) > _MAX_PARTS or not all(parts):
        raise _NotASetError
    return parts


def _common_variable(sets: list[RealSet]) -> str | None:
    names = {found.variable for found in sets} - {None}
    if len(names) > 1:
        raise _NotASetError
    return names.pop() if names else None


def _union(parts: Iterable[RealSet]) -> RealSet:
    sets = list(parts)
    return RealSet(tuple(interval for found in sets for interval in found.intervals), _common_variable(sets))


def _intersection(sets: list[RealSet]) -> RealSet:
    common = sets[0].intervals
    for other in sets[1:]:
        if _ALL in (*common, *other.intervals) and 1 in (len(common), len(other.intervals)):
            common = other.intervals if common == (_ALL,) else common
            continue
        pairs = [_overlap(first, second) for first in common for second in other.intervals]
        common = tuple(pair for pair in pairs if pair is not None)
    return RealSet(common, _common_variable(sets))


def _overlap(first: Interval, second: Interval) -> Interval | None:
    low, low_closed = max(_low(first), _low(second))[1:]
    high, high_closed = min(_high(first), _high(second))[1:]
    found = Interval(low, high, not low_closed, not high_closed)
    return found if _is_filled(found) else None


def _is_filled(interval: Interval) -> bool:
    low, high = _place(interval.low), _place(interval.high)
    return bool(low < high or (low == high and interval.low_closed and interval.high_closed))


def _low(interval: Interval) -> Any:
    """Sorts by the lower end; an open end starts later. The flag is True for an open one."""
    return (_place(interval.low), not interval.low_closed), interval.low, not interval.low_closed


def _high(interval: Interval) -> Any:
    return (_place(interval.high), interval.high_closed), interval.high, not interval.high_closed


def _difference(whole: RealSet, removed: RealSet) -> RealSet:
    found = whole
    for interval in removed.intervals:
        outside = []
        if interval.low != "-" + INFINITY:
            outside.append(Interval("-" + INFINITY, interval.low, False, not interval.low_closed))
        if interval.high != INFINITY:
            outside.append(Interval(interval.high, INFINITY, not interval.high_closed, False))
        found = _intersection([found, RealSet(tuple(outside))])
    return found


def _joined(intervals: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """Overlapping and touching intervals as one, where all endpoints are numbers."""
    try:
        waiting = sorted((interval for interval in intervals if _is_filled(interval)), key=_low)
    except _NotASetError:
        return intervals
    joined: list[Interval] = []
    for interval in waiting:
        last = joined[-1] if joined else None
        if last is not None and _touch(last, interval):
            high, is_open = max(_high(last), _high(interval))[1:]
            joined[-1] = Interval(last.low, high, last.low_closed, not is_open)
        else:
            joined.append(interval)
    return tuple(joined)


def _touch(first: Interval, second: Interval) -> bool:
    end, start = _place(first.high), _place(second.low)
    return bool(start < end or (start == end and (first.high_closed or second.low_closed)))


def _place(end: str) -> Any:
    """Where an endpoint is on the line: a fraction where it is rational, else its value."""
    plain = end.replace(" ", "").removeprefix("+")
    if plain in (INFINITY, "-" + INFINITY):
        return float(plain.replace(INFINITY, "inf"))
    number = read_rational(end)
    if number is not None:
        return number.value
    value = number_value(end)
    if value is None:
        raise _NotASetError
    return value
