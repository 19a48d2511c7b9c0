"""Whether two answers are equal: the rules of `judge.py`, one function each."""

import re
from collections.abc import Sequence
from fractions import Fraction

from agon.judges.math.latex import normalise, split_top, squeeze
from agon.judges.math.rationals import Rational, read_rational
from agon.judges.math.structure import Expression, Grid, Listing, Structure, Union, as_list, read_structure
from agon.judges.math.symbolic import equal_values, math_verify_equal, proportional
from agon.judges.math.units import split_unit
from agon.judges.math.words import choice, has_words, words

MAX_LENGTH = 2000
RELATIVE_ERROR = Fraction(1, 10**6)
_EXACT_BELOW = 10**15

_EQUALS = re.compile(r"=|\\approx(?![A-Za-z])")
_IN = re.compile(r"\\in(?![A-Za-z])")
_RELATION = re.compile(r"\\leq|\\geq|\\neq|<|>")
_DESCRIPTION = re.compile(r"\\leq|\\geq|\\neq|<|>|\\setminus|\\cap|\\mathbb|\\cup")
_FLIPPED = {r"\leq": r"\geq", r"\geq": r"\leq", "<": ">", ">": "<", r"\neq": r"\neq"}
_NAME = re.compile(
    r"^\(?(?:\\[A-Za-z]+|[A-Za-z])(?:_\{[^{}]*\}|')*(?:\((?:\\?\w+|[A-Za-z]_\{\w+\})(?:, ?\w+)*\))?"
    r"(?:, ?[A-Za-z](?:_\{[^{}]*\})?)*\)?$"
)
_NOT_NAMES = frozenset([r"\pi", r"\infty", "e", "i"])
_BASE = re.compile(r"^([0-9A-Fa-f]+)_\{(\d+)\}$")


def equal(gold: str, answer: str) -> bool:
    """Whether an answer, as it stands in a section or box, is the gold.

    >>> equal(r"\\frac{1}{2}", "0.5"), equal("42", "41 or 42"), equal("2^{-99}", "2^{-98}")
    (True, False, False)
    """
    if max(len(gold), len(answer)) > MAX_LENGTH:
        return " ".join(gold.split()) == " ".join(answer.split())
    gold, answer = normalise(gold), normalise(answer)
    if not gold or not answer:
        return False
    if squeeze(gold) == squeeze(answer):
        return True
    by_words = _equal_words(gold, answer)
    if by_words is not None:
        return by_words
    if _equal_structures(read_structure(gold), read_structure(answer)):
        return True
    # `100,200,300` is one number or three: the second reading is tried where only one side allows it.
    gold_list, answer_list = as_list(gold), as_list(answer)
    if gold_list is not None and answer_list is None:
        return _equal_structures(gold_list, read_structure(answer))
    if answer_list is not None and gold_list is None:
        return _equal_structures(read_structure(gold), answer_list)
    return False


def _equal_words(gold: str, answer: str) -> bool | None:
    """Whether they are equal where either side is in words, None where neither is."""
    if choice(gold) and choice(answer):
        return choice(gold) == choice(answer)
    first, second = words(gold), words(answer)
    if first is None and second is None:
        return None
    return first == second


def _equal_structures(gold: Structure, answer: Structure) -> bool:
    match gold, answer:
        case Expression(), Expression():
            return _equal_expressions(gold.text, answer.text)
        case Grid(), Grid():
            return len(gold.rows) == len(answer.rows) and all(map(_in_order, gold.rows, answer.rows))
        case Listing(), Listing():
            return _equal_listings(gold, answer)
        case Union(), Union() if _in_any_order(gold.parts, answer.parts):
            return True
        case Listing(bracket="set", items=(only,)), Expression():
            return _equal_structures(only, answer)
        case Expression(), Listing(bracket="set", items=(only,)):
            return _equal_structures(gold, only)
        case (Expression(), Listing() | Grid()) | (Listing() | Grid(), Expression()):
            without_name = _equal_without_name(gold, answer)
            if without_name is not None:
                return without_name
            return _described(gold, answer) and _equal_by_math_verify(gold, answer)
        case (Grid(), _) | (_, Grid()):
            return False
    return _equal_by_math_verify(gold, answer)


def _described(gold: Structure, answer: Structure) -> bool:
    """Whether one side describes what the other lists: an inequality and an interval, a difference of
    sets, a multiple of a matrix. A list of two numbers is never described by one number."""
    text, listed = (gold.text, answer) if isinstance(gold, Expression) else (_text(answer), gold)
    if isinstance(listed, Grid):
        return r"\begin" in text
    return isinstance(listed, Listing) and listed.bracket != "none" and bool(_DESCRIPTION.search(text))


def _equal_listings(gold: Listing, answer: Listing) -> bool:
    brackets = {gold.bracket, answer.bracket}
    if len(gold.items) != len(answer.items):
        return False
    if brackets <= {"none", "set"}:
        if (
            all(isinstance(item, Expression) and _is_label(item.text) for item in gold.items)
            and "set" not in brackets
        ):
            return _in_order(gold.items, answer.items)
        return _in_any_order(gold.items, answer.items)
    if "set" in brackets:
        return False
    if "none" in brackets:
        return not brackets & {"left-open", "right-open"} and _in_order(gold.items, answer.items)
    # With three or more entries it is no interval, and [1,2,3] is equal to (1,2,3).
    same_kind = len(brackets) == 1 or (len(gold.items) > 2 and brackets == {"round", "square"})
    return same_kind and _in_order(gold.items, answer.items)


def _is_label(text: str) -> bool:
    return choice(text) is not None or words(text) is not None


def _in_order(gold: Sequence[Structure], answer: Sequence[Structure]) -> bool:
    return len(gold) == len(answer) and all(map(_equal_items, gold, answer))


def _in_any_order(gold: Sequence[Structure], answer: Sequence[Structure]) -> bool:
    """Whether the items can be paired. Each takes the first partner that is left: equality is nearly
    transitive, so another choice would hardly ever lead to another result."""
    if len(gold) != len(answer) or len(gold) > 30:
        return False
    left = list(answer)
    for item in gold:
        found = next((index for index, other in enumerate(left) if _equal_items(item, other)), None)
        if found is None:
            return False
        del left[found]
    return True


def _equal_items(gold: Structure, answer: Structure) -> bool:
    if isinstance(gold, Expression) and isinstance(answer, Expression):
        if squeeze(gold.text) == squeeze(answer.text):
            return bool(gold.text)
        by_words = _equal_words(gold.text, answer.text)
        if by_words is not None:
            return by_words
    return _equal_structures(gold, answer)


def _equal_without_name(gold: Structure, answer: Structure) -> bool | None:
    """A named list against a list: `x = (1,2)`, `x \\in [1,2]`."""
    for side, other in ((gold, answer), (answer, gold)):
        if isinstance(side, Expression):
            for mark in (_EQUALS, _IN):
                name, *rest = split_top(side.text, mark)
                if len(rest) == 1 and _is_name(name):
                    value = read_structure(rest[0])
                    return (
                        _equal_structures(value, other) if side is gold else _equal_structures(other, value)
                    )
    return None


def _equal_expressions(gold: str, answer: str) -> bool:
    if not gold or not answer:
        return False
    if squeeze(gold) == squeeze(answer):
        return True
    membership = _equal_memberships(gold, answer)
    if membership is not None:
        return membership
    first, second = split_top(gold, _EQUALS), split_top(answer, _EQUALS)
    if len(first) > 1 or len(second) > 1:
        return _equal_chains(first, second)
    if _RELATION.search(gold) or _RELATION.search(answer):
        return _equal_relations(gold, answer)
    return _equal_values(gold, answer)


def _equal_memberships(gold: str, answer: str) -> bool | None:
    first, second = split_top(gold, _IN), split_top(answer, _IN)
    if len(first) == len(second) or max(len(first), len(second)) != 2:
        return None
    membership = first if len(first) == 2 else second
    if not _is_name(membership[0]):
        return None
    return _equal_structures(read_structure(first[-1]), read_structure(second[-1]))


def _equal_chains(gold: list[str], answer: list[str]) -> bool:
    """Rule 4. Each list holds the sides of a chain of equalities."""
    if len(gold) > 2 or not all(gold) or not all(answer):
        return False
    if len(gold) == 1:
        values = answer[1:] if _is_name(answer[0]) else answer
        return len(answer) <= 8 and all(_equal_sides(gold[0], value) for value in values)
    name, value = gold
    if _is_name(name):
        if len(answer) == 1:
            return _equal_sides(value, answer[0])
        if squeeze(name) == squeeze(answer[0]):
            return len(answer) <= 8 and all(_equal_sides(value, side) for side in answer[1:])
    if len(answer) != 2 or any(has_words(side) for side in (*gold, *answer)):
        return False
    first, second = (f"({left})-({right})" for left, right in (gold, answer))
    return proportional(first, second, sign_matters=False)


def _equal_sides(gold: str, answer: str) -> bool:
    return _equal_items(read_structure(gold), read_structure(answer))


def _is_name(text: str) -> bool:
    return bool(_NAME.match(text)) and text not in _NOT_NAMES


def _equal_relations(gold: str, answer: str) -> bool:
    """Inequalities: side by side, read in either direction; up to a factor; or as the sets they describe."""
    first, second = split_top(gold, _RELATION), split_top(answer, _RELATION)
    signs, other_signs = _RELATION.findall(gold), _RELATION.findall(answer)
    if has_words(gold) or has_words(answer) or not all(first) or not all(second):
        return False
    if signs and other_signs and len(first) == len(second):
        if signs == other_signs and all(map(_equal_values, first, second)):
            return True
        flipped = [_FLIPPED[sign] for sign in reversed(other_signs)]
        if signs == flipped and all(map(_equal_values, first, reversed(second))):
            return True
        if len(signs) == 1:
            left, right = f"({first[0]})-({first[1]})", f"({second[0]})-({second[1]})"
            if signs[0] == other_signs[0]:
                return proportional(left, right, sign_matters=signs[0] != r"\neq")
            return signs == flipped and proportional(left, f"-({right})", sign_matters=True)
        return False
    return math_verify_equal(gold, answer)


def _equal_values(gold: str, answer: str) -> bool:
    """Numbers, with a base, unit or percent sign beside them, then expressions."""
    based = _equal_bases(gold, answer)
    if based is not None:
        return based
    (gold, unit), (answer, other_unit) = split_unit(gold), split_unit(answer)
    if unit and other_unit and unit != other_unit:
        return False
    first, second = read_rational(gold), read_rational(answer)
    if first is not None and second is not None:
        return _equal_numbers(first, second)
    if has_words(gold) or has_words(answer) or "%" in gold or "%" in answer:
        return False
    verdict = equal_values(gold, answer, _tolerance(gold, answer, first))
    return math_verify_equal(gold, answer) if verdict is None else verdict


def _equal_bases(gold: str, answer: str) -> bool | None:
    first, second = _BASE.match(squeeze(gold)), _BASE.match(squeeze(answer))
    if first is None and second is None:
        return None
    if first is None:
        return False
    return first[1].lower() == (second[1] if second else squeeze(answer)).lower() and (
        second is None or first[2] == second[2]
    )


def _equal_numbers(gold: Rational, answer: Rational) -> bool:
    if gold.percent == answer.percent:
        return _same_number(gold, answer)
    hundredth = Fraction(1, 100)
    left = Rational(gold.value * hundredth, gold.decimal) if gold.percent else gold
    right = Rational(answer.value * hundredth, answer.decimal) if answer.percent else answer
    return _same_number(left, right) or (abs(gold.value) >= 1 and _same_number(gold, answer))


def _same_number(gold: Rational, answer: Rational) -> bool:
    if gold.value == answer.value:
        return True
    if not (gold.decimal or answer.decimal) or (gold.integer and abs(gold.value) < _EXACT_BELOW):
        return False
    return abs(gold.value - answer.value) <= RELATIVE_ERROR * abs(gold.value)


def _tolerance(gold: str, answer: str, number: Rational | None) -> float | None:
    if number is not None and number.integer and abs(number.value) < _EXACT_BELOW:
        return None
    return float(RELATIVE_ERROR) if re.search(r"\d\.\d|\.\d", gold + " " + answer) else None


def _equal_by_math_verify(gold: Structure, answer: Structure) -> bool:
    first, second = _text(gold), _text(answer)
    return not has_words(first) and not has_words(second) and math_verify_equal(first, second)


_OPEN_CLOSE = {
    "none": ("", ""),
    "set": (r"\{", r"\}"),
    "round": ("(", ")"),
    "square": ("[", "]"),
    "left-open": ("(", "]"),
    "right-open": ("[", ")"),
}


def _text(structure: Structure) -> str:
    match structure:
        case Expression():
            return structure.text
        case Listing():
            opening, closing = _OPEN_CLOSE[structure.bracket]
            return opening + ",".join(map(_text, structure.items)) + closing
        case Union():
            return r"\cup ".join(map(_text, structure.parts))
        case Grid():
            return (
                r"\begin{pmatrix}"
                + r"\\".join("&".join(map(_text, row)) for row in structure.rows)
                + r"\end{pmatrix}"
            )
