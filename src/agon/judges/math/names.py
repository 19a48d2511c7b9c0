r"""What may stand on the left of an answer's `=`: `x = 5`, `AB = 6`, `m+n = 6`, `f^{-1}(x) = …`, `\text{Area} = 6`.

A name says which quantity the value on the right is. An equation that still has to be solved has none:
`x^2 = 5` and `2x = 6` do not give 5 and 6. So the rule is narrow: a letter, with index, primes or argument;
points (AB, `\angle ABC`); a sum, difference or product of at least two different letters, without numbers; a
function of an angle that has a Greek or capital letter; words, unless one of them changes the meaning.
"""

import re

from agon.judges.math.latex import matching
from agon.judges.math.units import changes_the_value

_GREEK = (
    r"\\(?:alpha|beta|gamma|delta|epsilon|theta|lambda|mu|rho|sigma|tau|phi|varphi|psi|omega|Delta|ell)"
    r"(?![A-Za-z])"
)
_INDEX = r"(?:_\{(?:[^{}]|\{[^{}]*\})*\}|'|\^\{(?:\\prime ?)+\})*"
_NAME = re.compile(
    r"^\(?(?:\\[A-Za-z]+|[A-Za-z])" + _INDEX + r"(?:\((?:\\?\w+|[A-Za-z]_\{\w+\})(?:, ?\w+)*\))?"
    r"(?:, ?[A-Za-z](?:_\{[^{}]*\})?)*\)?$"
)
_NOT_NAMES = frozenset([r"\pi", r"\infty", "e", "i"])
_POINTS = re.compile(
    rf"^(?:m ?)?(?:\\(?:angle|triangle)(?![A-Za-z])\s*[A-Z]|[A-Z]{_INDEX}[A-Z])(?:{_INDEX}[A-Z]){{0,4}}{_INDEX}$"
)
_DRESSED = re.compile(
    r"^(?:\||\\(?:overline|widehat|overrightarrow|vec|overarc|bar|hat)\s*\{?)\s*(\\vec\{?\w\}?|[A-Z]{1,2}|[a-z])\s*[|}]?$"
)
_LETTER = re.compile(rf"(?:[A-Za-z]|{_GREEK})(?:_\{{\w+\}})?")
_COMBINED = re.compile(rf"^(?:(?:[A-Za-z]|{_GREEK})(?:_\{{\w+\}})?\s*[-+]?\s*){{2,6}}$")
_FUNCTION = re.compile(
    r"^(?:[fghuvwpqFGHPETV]|\([fgh] ?\\circ ?[fgh]\))"
    + _INDEX
    + r"(?:\^\{-1\}|\^\{\(\w\)\})?"
    + _INDEX
    + r"\s*[(\[]"
)
_OF_AN_ANGLE = re.compile(
    rf"^\\(?:sin|cos|tan|cot|sec|csc)(?:\^\{{2\}})?\s*(?:[A-Z()+\-\d\s{{}}]|\\(?:frac|angle)(?![A-Za-z])|{_GREEK})*$"
)
_CAPITAL_OR_GREEK = re.compile(rf"[A-Z]|{_GREEK}")
_DERIVATIVE = re.compile(
    r"^\\frac\{(?:d|\\partial ?)(?:\^\{\d\})? ?[A-Za-z]?\}\{(?:d|\\partial ?) ?[A-Za-z](?:\^\{\d\})?\}$"
)
_TEXT = r"\\text\{[A-Za-z' ]+\}"
_WORDS = re.compile(
    rf"^(?:{_TEXT}|[A-Za-z]{{3,}})(?: ?{_TEXT}| [A-Za-z]+|(?<=\}})[A-Za-z]+)*{_INDEX}(?:\([A-Za-z, ]*\))?$"
)
_RATIO = re.compile(r"^[A-Za-z]{1,2}(?: ?: ?[A-Za-z]{1,2})+$")
_COORDINATES = frozenset("xyz")


def is_name(text: str) -> bool:
    """Whether a text names a quantity that has one letter."""
    return bool(_NAME.match(text)) and text not in _NOT_NAMES


def is_label(text: str, of_gold: bool = False) -> bool:
    r"""Whether a text names a quantity, in any of the ways above.

    >>> is_label("AB"), is_label("m+n"), is_label(r"\cos A"), is_label("x^{2}"), is_label("2x")
    (True, True, True, False, False)

    A gold `x+y=6` is the equation of a line, an answer `x+y=6` to the gold 6 a named value.
    """
    text = text.strip()
    if len(text) > 120:
        return False
    if (
        _RATIO.match(text)
        or is_name(text)
        or _POINTS.match(text)
        or (_OF_AN_ANGLE.match(text) and _CAPITAL_OR_GREEK.search(text))
    ):
        return True
    if _DERIVATIVE.match(text):
        return True
    if (found := _DRESSED.match(text)) and (found[1] != "x" or not text.startswith("|")):
        return True
    if found := _FUNCTION.match(text):
        return matching(text, found.end() - 1) == len(text) - 1
    if _WORDS.match(text):
        return not changes_the_value(text)
    if _COMBINED.match(text) and text[-1] not in "+- ":
        letters = set(_LETTER.findall(text))
        return len(letters) > 1 and not letters & _NOT_NAMES and not (of_gold and letters & _COORDINATES)
    return False
