r"""math-verify's parser, given only what it reads as it is meant.

What it would drop or misread although it matters (primes, transposes, subscripts of numbers, commands that it
does not know) makes a text unreadable, and such texts are compared letter for letter. What it reads differently is
spelled out before: `\log` without a base, degrees, `I`, `db`, `2(3)`. Letter case is kept.
"""

import re
from functools import lru_cache
from typing import Any

_UNREADABLE = re.compile(
    r"'|!\s*!|\^\{(?:T|\\ast|\*|c|C|\\circ)\}|\.\.|\d \d|[^\x00-\x7f]"
    r"|\d\s*_|[})]\s*\.\d|\\[^A-Za-z{}]|&(?!.*\\end)"
    # 1/2x is half of x, or half of 1/x
    r"|/\s*\d+\s*(?:[A-Za-z(]|\\(?!cdot|leq|geq|neq|cr|end|mid|cup|in|setminus|degree))"
)
# The commands that the parser reads as they are meant. Any other is compared as text: the parser drops
# some (41 \equiv 42 was 42) and takes others for variables.
_GREEK = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi rho sigma tau "
    "upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar aleph"
)
_READ = (
    "frac sqrt binom cdot pm mp leq geq neq infty cup cap setminus emptyset mathbb in mid begin end cr lfloor "
    "rfloor lceil rceil sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth ln log exp max min sum prod "
    "int lim to det degree"
)
_COMMANDS = frozenset([*_GREEK.split(), *_READ.split()])
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_LETTER_AND_DIGIT = re.compile(r"[A-Za-z]\d")  # x1 was x
_TRIGONOMETRIC = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")
_DEGREES = re.compile(r"(\d+(?:\.\d+)?|(?<![A-Za-z\\])[A-Za-z])\s*\\degree(?![A-Za-z])")
# Applied before parsing; each is something that the parser reads differently.
_REWRITTEN = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\\cr(?![A-Za-z])", r"\\\\"),
        (
            r"\\log(?![A-Za-z]|\s*_)",
            r"\\ln",
        ),  # without a base it is the natural one, as in most of mathematics
        (r"(\d)\s*\(", r"\1\\cdot("),  # an integer before a number in brackets was added to it
    ]
]
_NUMBER_AND_FRACTION = re.compile(r"(\d)\s*\\frac\{(\d+)\}\{(\d+)\}")
_DIFFERENTIAL = re.compile(r"\\int|\\frac\{d")
_LETTER = re.compile(r"\\[A-Za-z]+|(I)(?:_\{(\w*)\})?|(d)(?=[A-Za-z])")
_MAX_DEPTH = 15
_MAX_LENGTH = 2000


def readable(text: str) -> bool:
    """Whether the parser reads all of this correctly."""
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if len(text) > _MAX_LENGTH or depth != 0 or deepest > _MAX_DEPTH or _UNREADABLE.search(text):
        return False
    if _LETTER_AND_DIGIT.search(_COMMAND.sub(" ", text)):
        return False
    return all(command in _COMMANDS for command in _COMMAND.findall(text))


@lru_cache(maxsize=512)
def parse(text: str) -> Any:
    """The sympy object of a normalised expression, or None."""
    if not readable(text):
        return None
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy

    config = ConversionConfig(lowercase_symbols=False, interpret_as_mixed_fractions=False)
    try:
        parsed = latex2sympy(
            _rewritten(text),
            is_real=None,
            convert_degrees=False,
            normalization_config=None,
            conversion_config=config,
        )
    except MemoryError:
        raise
    except Exception:  # its parser raises whatever it met: syntax, type and attribute errors
        return None
    return parsed if not isinstance(parsed, (list, str)) else None


def _rewritten(text: str) -> str:
    """With what the parser reads differently spelled out."""
    if r"\degree" in text:
        # Inside a function a degree is a number; elsewhere it stays a unit that both sides must have.
        value = r"\\frac{\1\\pi}{180}" if _TRIGONOMETRIC.search(text) else r"{\1\\cdot\\Upsilon_{o}}"
        text = _DEGREES.sub(value, text)
    if "I" in text or "d" in text:
        text = _LETTER.sub(_spelled_out if not _DIFFERENTIAL.search(text) else _current, text)
    text = _NUMBER_AND_FRACTION.sub(_mixed_or_product, text)
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    return text


def _mixed_or_product(found: re.Match[str]) -> str:
    r"""`2\frac{1}{2}` is a mixed number, `2\frac{3}{2}` a product; the parser would add both."""
    if int(found[2]) < int(found[3]):
        return found[0]
    return rf"{found[1]}\cdot\frac{{{found[2]}}}{{{found[3]}}}"


def _current(found: re.Match[str]) -> str:
    """Any I, with any index, would be read as the imaginary unit."""
    return rf"\Upsilon_{{I{found[2] or ''}}}" if found[1] else found[0]


def _spelled_out(found: re.Match[str]) -> str:
    """Where nothing is integrated or derived, db is d times b; it would be read as one symbol."""
    return "{d}" if found[3] else _current(found)
