"""Our own scorers, for datasets whose scorer executes something or accepts what is no answer.

Each takes the answer and the entry and says whether the answer earns the full score. Partial credit is of
no use here: the library's scorers execute Python for the sake of it (`binary_matrix` gives 0.1 for a list
of lists), and only the full score is correct.
"""

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from agon.judges.gym.expressions import NotAFormulaError, arithmetic, polynomial, symbolic

Entry = Mapping[str, Any]
Scorer = Callable[[str, Entry], bool]

_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,400}|0[bB][01]{1,1600}|0[oO][0-7]{1,500}|[0-9]{1,400})")
_NUMBER = re.compile(r"[+-]?[0-9][0-9,]{0,400}(?:\.[0-9]{1,400})?", re.ASCII)


def _gold(entry: Entry) -> str:
    return str(entry["answer"])


def _same_text(answer: str, entry: Entry) -> bool:
    return answer.strip() == _gold(entry).strip()


def _same_words(answer: str, entry: Entry) -> bool:
    return answer.lower().split() == _gold(entry).lower().split()


def _same_list(answer: str, entry: Entry) -> bool:
    return [word.strip() for word in answer.split(",")] == entry["metadata"]["sorted_words"]


def _same_letters(answer: str, entry: Entry) -> bool:
    """Drawn letters: spaces between them and case do not matter."""
    return "".join(answer.lower().split()) == _gold(entry).strip().lower()


def _one_of_the_boards(answer: str, entry: Entry) -> bool:
    return answer in entry["metadata"]["valid_answers"]


def _same_integer(answer: str, entry: Entry) -> bool:
    given = answer.strip()
    return bool(_INTEGER.fullmatch(given)) and int(given, 0) == int(_gold(entry), 0)


def _same_number(answer: str, entry: Entry) -> bool:
    given = answer.strip()
    return bool(_NUMBER.fullmatch(given)) and Decimal(given.replace(",", "")) == Decimal(_gold(entry))


def _same_numbers_in_order(answer: str, entry: Entry) -> bool:
    return _numbers(answer) is not None and _numbers(answer) == _numbers(_gold(entry))


def _numbers(text: str) -> list[Decimal] | None:
    """A list of numbers, each in quotes or bare."""
    try:
        found = json.loads(text.replace("'", '"'), parse_float=str, parse_int=str)
        return [Decimal(number) for number in found] if _all_text(found) else None
    except (ValueError, InvalidOperation, RecursionError):
        return None


def _all_text(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(number, str) for number in found)


def _same_cells(answer: str, entry: Entry) -> bool:
    """The same rows of the same length; a cell of 1.0 or true is no 1."""
    if not re.fullmatch(r"[\[\]\s,0-9-]+", answer):
        return False
    try:
        return bool(json.loads(answer) == json.loads(_gold(entry)))
    except (ValueError, RecursionError):
        return False


def _makes_target(answer: str, entry: Entry, target: Fraction) -> bool:
    """A formula of exactly the given numbers that has the target as its value."""
    try:
        value, used = arithmetic(answer)
    except NotAFormulaError:
        return False
    return sorted(used) == sorted(entry["metadata"]["numbers"]) and value == target


def _countdown(answer: str, entry: Entry) -> bool:
    return _makes_target(answer, entry, Fraction(entry["metadata"]["target"]))


def _puzzle24(answer: str, entry: Entry) -> bool:
    return _makes_target(answer, entry, Fraction(24))


def _same_polynomial(answer: str, entry: Entry) -> bool:
    try:
        return polynomial(answer) == polynomial(_gold(entry))
    except NotAFormulaError:
        return False


def _antiderivative(answer: str, entry: Entry) -> bool:
    """Its derivative is the integrand."""
    import sympy

    name = str(entry["metadata"]["variable"])
    variable = sympy.Symbol(name)
    integrand = symbolic(str(entry["metadata"]["integrand"]), {name: variable})
    try:
        given = symbolic(answer, {"C": sympy.Symbol("C"), name: variable})
    except NotAFormulaError:
        return False
    return bool(sympy.simplify(sympy.diff(given, variable) - integrand) == 0)


OWN_SCORERS: dict[str, Scorer] = {
    # The library executes the answer.
    "binary_matrix": _same_text,
    "countdown": _countdown,
    "intermediate_integration": _antiderivative,
    "n_queens": _one_of_the_boards,
    "polynomial_multiplication": _same_polynomial,
    "puzzle24": _puzzle24,  # and it accepts other numbers than the given ones
    "simple_integration": _antiderivative,
    "spiral_matrix": _same_text,
    "string_insertion": _same_text,
    # The library executes a text of the entry, which may come from a file.
    "bitwise_arithmetic": _same_integer,
    "number_sorting": _same_numbers_in_order,  # and each number may be off by 1
    # The library gives the full score to wrong answers.
    "figlet_font": _same_letters,  # ten right letters and anything after them
    "game_of_life": _same_cells,  # more rows and cells than there are
    "game_of_life_halting": _same_words,  # any text is true
    "gsm_symbolic": _same_number,  # the first number of a text, its sign dropped
    "letter_jumble": _same_words,  # the right words and anything after them
    "spell_backward": _same_letters,  # rounding: sums of 1/length can pass 1
    "word_sorting": _same_list,  # the right words and more of them
}
