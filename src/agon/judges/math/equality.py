"""Whether two answers are equal: the rules of `judge.py`, one function each."""

import re
from collections.abc import Sequence
from fractions import Fraction

from agon.judges.math.latex import normalise, split_top, squeeze
from agon.judges.math.names import is_label, is_name
from agon.judges.math.rationals import read_rational
from agon.judges.math.real_sets import describes_a_set, equal_sets, has_numbers_only, read_real_set
from agon.judges.math.structure import Expression, Grid, Listing, Structure, Union, as_list, read_structure
from agon.judges.math.symbolic import math_verify_equal, number_value, proportional
from agon.judges.math.values import same_value
from agon.judges.math.words import choice, has_words, named_set, words

MAX_LENGTH = 2000

_EQUALS = re.compile(r"=|\\approx(?![A-Za-z])")
_ABOUT = re.compile(r"^\\approx(?![A-Za-z]) ?")
_APPROX = re.compile(r"\\approx(?![A-Za-z])")
_IN = re.compile(r"\\in(?![A-Za-z])")
_RELATION = re.compile(r"\\leq|\\geq|\\neq|<|>")
_DESCRIPTION = re.compile(r"\\leq|\\geq|\\neq|<|>|\\setminus|\\cap|\\mathbb|\\cup")
_FLIPPED = {r"\leq": r"\geq", r"\geq": r"\leq", "<": ">", ">": "<", r"\neq": r"\neq"}
_JOINT = re.compile(r"\\text\{ ?(?:, ?)?(?:and|or|but) ?\}|(?<= )(?:and|or|but)(?= )")
_CLOCK = re.compile(r"^\d{1,2}:\d{2}$")


def equal(gold: str, answer: str) -> bool:
    """Whether an answer, as it stands in a section or box, is the gold.

    >>> equal(r"\\frac{1}{2}", "0.5"), equal("42", "41 or 42"), equal("2^{-99}", "2^{-98}")
    (True, False, False)
    """
    if max(len(gold), len(answer)) > MAX_LENGTH:
        return " ".join(gold.split()) == " ".join(answer.split())
    gold, answer = named_set(normalise(gold)), named_set(normalise(answer))
    if not gold or not answer:
        return False
    if squeeze(gold) == squeeze(answer):
        return True
    if _ABOUT.match(gold):  # a gold may say that it is rounded, and the answer may then say so too
        gold, answer = _ABOUT.sub("", gold), _ABOUT.sub("", answer)
    by_words = _equal_words(gold, answer)
    if by_words is not None:
        return by_words
    by_sets = _equal_real_sets(gold, answer)
    if by_sets is not None:
        return by_sets
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


def _equal_real_sets(gold: str, answer: str) -> bool | None:
    """Whether they are the same set of real numbers where one side describes it, None where neither does."""
    if not (describes_a_set(gold) or describes_a_set(answer)) or has_words(
        _JOINT.sub(" ", f"{gold} , {answer}")
    ):
        return None
    first, second = read_real_set(gold), read_real_set(answer)
    if first is None or second is None:
        return None
    if equal_sets(first, second, same_value):
        return True
    # With letters as endpoints there may be another way to see that they are equal.
    return False if has_numbers_only(first) and has_numbers_only(second) else None


def _equal_structures(gold: Structure, answer: Structure) -> bool:
    match gold, answer:
        case Expression(), Expression():
            return _equal_expressions(gold.text, answer.text)
        case Grid(), Grid():
            return len(gold.rows) == len(answer.rows) and all(map(_in_order, gold.rows, answer.rows))
        case Listing(bracket="set", items=(Listing(bracket="round") as only,)), Listing(bracket="round"):
            return _equal_structures(only, answer)  # the solution set of a system has one point
        case Listing(bracket="round"), Listing(bracket="set", items=(Listing(bracket="round") as only,)):
            return _equal_structures(gold, only)
        case Listing(), Listing():
            return _equal_listings(gold, answer)
        case Union(), Union() if _in_any_order(gold.parts, answer.parts):
            return True
        case Listing(bracket="set", items=(only,)), Expression() if not _is_set(only):
            return _equal_structures(only, answer)
        case Expression(), Listing(bracket="set", items=(only,)) if not _is_set(only):
            return _equal_structures(gold, only)
        case (Listing(bracket="set"), Expression()) | (Expression(), Listing(bracket="set")) if _is_set(
            gold
        ) and _is_set(answer):
            return False  # the empty set is not the set that holds it
        case (Listing(bracket="ratio"), Expression()) | (Expression(), Listing(bracket="ratio")):
            without_name = _equal_without_name(gold, answer)
            return _equal_ratio(gold, answer) if without_name is None else without_name
        case (Expression(), Listing() | Grid()) | (Listing() | Grid(), Expression()):
            without_name = _equal_without_name(gold, answer)
            if without_name is not None:
                return without_name
            return _described(gold, answer) and _equal_by_math_verify(gold, answer)
        case (Grid(), _) | (_, Grid()):
            return False
    return _equal_by_math_verify(gold, answer)


def _is_set(structure: Structure) -> bool:
    return (isinstance(structure, Expression) and structure.text.strip() == r"\emptyset") or (
        isinstance(structure, Listing) and structure.bracket == "set"
    )


def _equal_ratio(gold: Structure, answer: Structure) -> bool:
    """3:4 is 3/4; what may be a time of day is only itself."""
    ratio, value = (gold, answer) if isinstance(gold, Listing) else (answer, gold)
    if not isinstance(ratio, Listing) or len(ratio.items) != 2 or _CLOCK.match(squeeze(_text(ratio))):
        return False
    first, second = map(_text, ratio.items)
    return not has_words(_text(ratio)) and same_value(rf"\frac{{{first}}}{{{second}}}", _text(value))


def _described(gold: Structure, answer: Structure) -> bool:
    """Whether one side describes what the other lists: an inequality and an interval, a difference of
    sets, a multiple of a matrix. A list of two numbers is never described by one number."""
    text, listed = (gold.text, answer) if isinstance(gold, Expression) else (_text(answer), gold)
    if isinstance(listed, Grid):
        return r"\begin" in text
    return isinstance(listed, Listing) and listed.bracket != "none" and bool(_DESCRIPTION.search(text))


def _equal_listings(gold: Listing, answer: Listing) -> bool:
    brackets = {gold.bracket, answer.bracket}
    if len(gold.items) != len(answer.items) or ("ratio" in brackets and len(brackets) > 1):
        return False
    if "ratio" in brackets and any(_CLOCK.match(squeeze(_text(side))) for side in (gold, answer)):
        return squeeze(_text(gold)) == squeeze(_text(answer))  # 7:05 is not 7:5
    if gold.joined_by_or != answer.joined_by_or and any(
        isinstance(item, Expression) and _RELATION.search(item.text) for item in gold.items
    ):
        return False  # x < a or y > b, x < a and y > b
    if brackets <= {"none", "set", "round"}:
        by_names = _equal_named_values(gold, answer)
        if by_names is not None:
            return by_names
    if brackets <= {"none", "set"}:
        if (
            all(isinstance(item, Expression) and _is_word(item.text) for item in gold.items)
            and "set" not in brackets
        ):
            return _in_order(gold.items, answer.items)
        return _in_any_order(gold.items, answer.items)
    if "set" in brackets:
        return False
    if "none" in brackets:
        # [2,5] is an interval, and 2, 5 are two numbers.
        listed = "round" in brackets or ("square" in brackets and len(gold.items) > 2)
        return listed and _in_order(gold.items, answer.items)
    # With three or more entries it is no interval, and [1,2,3] is equal to (1,2,3).
    same_kind = len(brackets) == 1 or (len(gold.items) > 2 and brackets == {"round", "square"})
    return same_kind and _in_order(gold.items, answer.items)


def _equal_named_values(gold: Listing, answer: Listing) -> bool | None:
    """`x=1, y=2` against values without names: in the order in which they are written, and against a tuple
    in the order of the names. None where that is not the question."""
    first, second = _named(gold.items), _named(answer.items)
    if (first is None) == (second is None):
        return None
    named, other = (first, answer) if first is not None else (second, gold)
    assert named is not None
    if other.bracket == "round":
        named = dict(sorted(named.items()))
    if other.bracket == "set":
        # Roots with indices are in no order; x and y are.
        roots = all(re.fullmatch(r"x_\{\d\}", name) for name in named)
        return None if roots else False
    values = [read_structure(value) for value in named.values()]
    return _in_order(values, other.items) if first is not None else _in_order(other.items, values)


def _named(items: Sequence[Structure]) -> dict[str, str] | None:
    """The values by name, if every item has a name of its own."""
    named = {}
    for item in items:
        sides = split_top(item.text, _EQUALS) if isinstance(item, Expression) else []
        if len(sides) != 2 or not is_label(sides[0]):
            return None
        named[squeeze(sides[0])] = sides[1]
    return named if len(named) == len(items) > 1 else None


def _is_word(text: str) -> bool:
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
    if _is_set(gold) != _is_set(answer):
        return False  # {{1}} is not {1}
    return _equal_parts(gold, answer)


def _equal_parts(gold: Structure, answer: Structure) -> bool:
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
                if len(rest) == 1 and is_label(name, of_gold=side is gold):
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
    gold, answer = _without_rounding(gold), _without_rounding(answer)
    if r"\approx" in answer and r"\approx" not in gold and "." not in gold:
        return False  # about 5 is not 5; only a decimal may be about itself
    first, second = split_top(gold, _EQUALS), split_top(answer, _EQUALS)
    if len(first) > 1 or len(second) > 1:
        return _equal_chains(first, second)
    if _RELATION.search(gold) or _RELATION.search(answer):
        return _equal_relations(gold, answer)
    return same_value(gold, answer)


def _equal_memberships(gold: str, answer: str) -> bool | None:
    first, second = split_top(gold, _IN), split_top(answer, _IN)
    if len(first) == len(second) or max(len(first), len(second)) != 2:
        return None
    membership = first if len(first) == 2 else second
    if not is_name(membership[0]):
        return None
    return _equal_structures(read_structure(first[-1]), read_structure(second[-1]))


def _equal_chains(gold: list[str], answer: list[str]) -> bool:
    """Rule 4. Each list holds the sides of a chain of equalities."""
    if len(gold) > 2 or not all(gold) or not all(answer):
        return False
    if len(gold) == 1:
        if len(answer) == 2 and is_name(answer[1]) and not is_name(answer[0]):
            answer = answer[::-1]  # 5 = x
        values = answer[1:] if is_label(answer[0]) else answer
        return len(answer) <= 8 and all(_equal_sides(gold[0], value) for value in values)
    name, value = gold
    if is_label(name, of_gold=True):
        if len(answer) == 1:
            return _equal_sides(value, answer[0])
        if _same_name(name, answer[0]):
            return len(answer) <= 8 and all(_equal_sides(value, side) for side in answer[1:])
    if len(answer) != 2 or any(has_words(side) for side in (*gold, *answer)):
        return False
    first, second = (f"({left})-({right})" for left, right in (gold, answer))
    return proportional(first, second, sign_matters=False)


def _same_name(gold: str, answer: str) -> bool:
    """y is also what f(x) is called."""
    first, second = squeeze(gold), squeeze(answer)
    return first == second or {first, second} == {"y", "f(x)"}


def _equal_sides(gold: str, answer: str) -> bool:
    return _equal_parts(read_structure(gold), read_structure(answer))


def _without_rounding(text: str) -> str:
    r"""`\sqrt{2} \approx 1.414` without its rounding, if that is right in every digit it has."""
    exact, *rounded = split_top(text, _APPROX)
    if len(rounded) != 1 or not exact or is_name(exact):
        return text
    number = read_rational(rounded[0])
    value = number_value(split_top(exact, _EQUALS)[-1])
    if number is None or value is None:
        return text
    _, _, decimals = rounded[0].strip().partition(".")
    return exact if abs(value - number.value) <= Fraction(1, 2 * 10 ** len(decimals)) else text


def _equal_relations(gold: str, answer: str) -> bool:
    """Inequalities: side by side, read in either direction; up to a factor; or as the sets they describe."""
    first, second = split_top(gold, _RELATION), split_top(answer, _RELATION)
    signs, other_signs = _RELATION.findall(gold), _RELATION.findall(answer)
    if has_words(gold) or has_words(answer) or not all(first) or not all(second):
        return False
    if signs and other_signs and len(first) == len(second):
        if signs == other_signs and all(map(same_value, first, second)):
            return True
        flipped = [_FLIPPED[sign] for sign in reversed(other_signs)]
        if signs == flipped and all(map(same_value, first, reversed(second))):
            return True
        if len(signs) == 1:
            left, right = f"({first[0]})-({first[1]})", f"({second[0]})-({second[1]})"
            if signs[0] == other_signs[0]:
                return proportional(left, right, sign_matters=signs[0] != r"\neq")
            return signs == flipped and proportional(left, f"-({right})", sign_matters=True)
        return False
    return math_verify_equal(gold, answer)


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
    "ratio": ("", ""),
}


def _text(structure: Structure) -> str:
    match structure:
        case Expression():
            return structure.text
        case Listing():
            opening, closing = _OPEN_CLOSE[structure.bracket]
            return (
                opening
                + (":" if structure.bracket == "ratio" else ",").join(map(_text, structure.items))
                + closing
            )
        case Union():
            return r"\cup ".join(map(_text, structure.parts))
        case Grid():
            return (
                r"\begin{pmatrix}"
                + r"\\".join("&".join(map(_text, row)) for row in structure.rows)
                + r"\end{pmatrix}"
            )
