r"""Values on both sides: numbers with a base, unit, currency or percent sign beside them, then expressions."""

import re
from fractions import Fraction

from agon.judges.math.latex import squeeze
from agon.judges.math.rationals import Rational, read_rational
from agon.judges.math.symbolic import equal_values, math_verify_equal
from agon.judges.math.units import Unit, split_unit
from agon.judges.math.words import has_words

RELATIVE_ERROR = Fraction(1, 10**6)
_EXACT_BELOW = 10**15
_BASE = re.compile(r"^\(?([0-9A-Z]+)\)?_\{\(?(\d+)\)?\}$", re.IGNORECASE)


def same_value(gold: str, answer: str) -> bool:
    """Numbers, with a base, unit or percent sign beside them, then expressions."""
    based = _equal_bases(gold, answer)
    if based is not None:
        return based
    (number, unit), (other, other_unit) = split_unit(gold), split_unit(answer)
    if unit != other_unit:
        if r"\degree" in number or r"\degree" in other:
            number, other = gold, answer  # 30^\circ + 60^\circ and 90^\circ: as expressions
        elif (unit and other_unit) or not _may_be_dropped(unit, other_unit):
            return False
    gold, answer = number, other
    first, second = read_rational(gold), read_rational(answer)
    if first is not None and second is not None:
        if first.percent != second.percent and (unit or other_unit):
            return False  # 18 dollars and 18%
        return _equal_numbers(first, second)
    if has_words(gold) or has_words(answer) or "%" in gold or "%" in answer:
        return False
    verdict = equal_values(gold, answer, _tolerance(gold, answer, first))
    return math_verify_equal(gold, answer) if verdict is None else verdict


def _may_be_dropped(unit: Unit | None, other: Unit | None) -> bool:
    """A K of the gold is kelvin; of an answer it may be a thousand."""
    return (unit is None or unit.may_be_dropped or unit.name == "K") and (
        other is None or other.may_be_dropped
    )


def _equal_bases(gold: str, answer: str) -> bool | None:
    first, second = _based(gold), _based(answer)
    if first is None and second is None:
        return None
    if first is None or second is None:
        plain = squeeze(answer if second is None else gold).lower()
        digits, base = first or second or ("", 0)
        return (first is not None or base == 10) and digits == plain
    return first == second


def _based(text: str) -> tuple[str, int] | None:
    """The digits and the base of `52_8`. A letter with an index is none: `a_1`, `F_5`, `A_{12}`."""
    found = _BASE.match(squeeze(text)) if "_" in text else None
    if found is None or (not found[1][0].isdigit() and not (len(found[1]) > 1 and found[2] == "16")):
        return None
    digits, base = found[1].lower(), int(found[2])
    valid = 2 <= base <= 36 and all(int(digit, 36) < base for digit in digits)
    return (digits, base) if valid else None


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
