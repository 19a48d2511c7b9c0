r"""Exact arithmetic on rational numbers in an answer: `\frac{1}{2004!}`, `2^{-99}`, `3\frac{1}{2}`, `1,234.50`.

Most answers are rational numbers, and for these nothing should be approximated, simplified or guessed.
A small recursive-descent parser returns a fraction, or None where the text is anything else.
"""

import math
import re
from dataclasses import dataclass
from fractions import Fraction

_MAX_BITS = 60_000
_MAX_FACTORIAL = 3000
_MAX_DEPTH = 40

_TOKEN = re.compile(
    r"(?P<mixed>\d+ \d+ ?/ ?\d+(?![\d.!^]))"
    r"|(?P<repeating>\d*\.\d*\\overline\{\d+\})"
    r"|(?P<number>(?:\d{1,3}(?:,\d{3})+(?![\d])|\d{1,3}(?: \d{3})+(?![\d])|\d+)(?:\.\d*)?|\.\d+)"
    r"(?P<exponent>[eE][+-]?\d+(?![\d.]))?"
    r"|(?P<frac>\\frac(?=\{))|(?P<cdot>\\cdot)|(?P<sign>[-+/^!(){}%])|(?P<space> )|(?P<other>.)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Rational:
    """A rational number, and whether it was written with a decimal point or exponent, or in percent."""

    value: Fraction
    decimal: bool
    percent: bool = False

    @property
    def integer(self) -> bool:
        return self.value.denominator == 1


def read_rational(text: str) -> Rational | None:
    r"""The exact value of a normalised expression, or None.

    >>> read_rational(r"\frac{3}{4}").value, read_rational("1,234").value, read_rational(r"\sqrt{2}")
    (Fraction(3, 4), Fraction(1234, 1), None)
    """
    parser = _Parser(text)
    try:
        value = parser.sum(0)
        percent = parser.accept("%")
    except (_NotRationalError, ZeroDivisionError, OverflowError):
        return None
    return Rational(value, parser.decimal, percent) if parser.at_end() else None


class _NotRationalError(Exception):
    pass


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = [(str(found.lastgroup), found) for found in _TOKEN.finditer(text)]
        if any(kind == "other" for kind, _ in self._tokens):
            self._tokens = [("other", self._tokens[0][1])]
        self._at = 0
        self.decimal = False

    def at_end(self) -> bool:
        return self._peek() == ""

    def accept(self, sign: str) -> bool:
        if self._peek() == sign:
            self._at += 1
            return True
        return False

    def _peek(self) -> str:
        """The next token: a sign as itself, otherwise its kind."""
        while self._at < len(self._tokens) and self._tokens[self._at][0] == "space":
            self._at += 1
        if self._at >= len(self._tokens):
            return ""
        kind, found = self._tokens[self._at]
        return found[0] if kind == "sign" else "number" if kind == "exponent" else kind

    def sum(self, depth: int) -> Fraction:
        if depth > _MAX_DEPTH:
            raise _NotRationalError
        value = self._product(depth)
        while (sign := self._peek()) in ("+", "-"):
            self._at += 1
            term = self._product(depth)
            value = _check_size(value + term if sign == "+" else value - term)
        return value

    def _product(self, depth: int) -> Fraction:
        value = self._factor(depth)
        while True:
            following = self._peek()
            if following == "cdot":
                self._at += 1
                value = _check_size(value * self._factor(depth))
            elif following == "/":
                self._at += 1
                value = _check_size(value / self._factor(depth))
            elif following in ("(", "frac") and self._factor_may_follow():
                value = _check_size(value * self._power(depth))
            else:
                return value

    def _factor_may_follow(self) -> bool:
        """Whether a factor may follow without a sign; `3\\frac{1}{2}` was read before as a mixed number."""
        return self._tokens[self._at - 1][1][0] in ")}!" or self._peek() == "("

    def _factor(self, depth: int) -> Fraction:
        if self.accept("-"):
            return -self._factor(depth + 1) if depth < _MAX_DEPTH else self._refuse()
        if self.accept("+"):
            return self._factor(depth + 1) if depth < _MAX_DEPTH else self._refuse()
        return self._power(depth)

    def _power(self, depth: int) -> Fraction:
        base = self._postfix(depth)
        if not self.accept("^"):
            return base
        return _power_of(base, self._group("{", "}", depth))

    def _postfix(self, depth: int) -> Fraction:
        value = self._atom(depth)
        while self.accept("!"):
            if value.denominator != 1 or not 0 <= value <= _MAX_FACTORIAL or self._peek() == "!":
                raise _NotRationalError  # a double factorial is another function
            value = Fraction(math.factorial(value.numerator))
        return value

    def _atom(self, depth: int) -> Fraction:
        kind = self._peek()
        if kind == "(":
            return self._group("(", ")", depth)
        if kind == "{":
            return self._group("{", "}", depth)
        found = self._tokens[self._at][1] if kind else None
        self._at += 1
        if found is None:
            raise _NotRationalError
        if kind == "frac":
            return self._group("{", "}", depth) / self._nonzero(self._group("{", "}", depth))
        if kind == "mixed":
            whole, top, bottom = map(int, re.findall(r"\d+", found[0]))
            return Fraction(whole) + Fraction(top, bottom)
        if kind == "repeating":
            return _repeating(found[0])
        if kind != "number":
            raise _NotRationalError
        return self._number(found, depth)

    def _number(self, found: re.Match[str], depth: int) -> Fraction:
        digits = found["number"].replace(",", "").replace(" ", "")
        exponent = int(found["exponent"][1:]) if found["exponent"] else 0
        if abs(exponent) > 10_000 or len(digits) > 4000:
            raise _NotRationalError
        self.decimal |= "." in digits or bool(exponent)
        value = Fraction(digits) * Fraction(10) ** exponent
        if self._peek() == "frac" and value.denominator == 1 and "." not in digits:
            self._at += 1
            top, bottom = self._group("{", "}", depth), self._nonzero(self._group("{", "}", depth))
            if top.denominator != 1 or bottom.denominator != 1 or not 0 < top < bottom:
                raise _NotRationalError  # 2\frac{7}{3} could be a product; leave it to sympy
            return value + top / bottom
        return value

    def _group(self, opening: str, closing: str, depth: int) -> Fraction:
        if not self.accept(opening):
            raise _NotRationalError
        value = self.sum(depth + 1)
        if not self.accept(closing):
            raise _NotRationalError
        return value

    @staticmethod
    def _nonzero(value: Fraction) -> Fraction:
        if value == 0:
            raise _NotRationalError
        return value

    @staticmethod
    def _refuse() -> Fraction:
        raise _NotRationalError


def _check_size(value: Fraction) -> Fraction:
    if value.numerator.bit_length() + value.denominator.bit_length() > _MAX_BITS:
        raise _NotRationalError
    return value


def _power_of(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1 or (base == 0 and exponent <= 0):
        raise _NotRationalError
    bits = base.numerator.bit_length() + base.denominator.bit_length()
    if abs(exponent.numerator) * bits > _MAX_BITS:
        raise _NotRationalError
    return base**exponent.numerator


def _repeating(text: str) -> Fraction:
    """A decimal with a bar: 0.1\\overline{6} is 1/6."""
    whole, _, rest = text.partition(".")
    once, _, repeated = rest.partition("\\overline{")
    repeated = repeated.rstrip("}")
    shift = 10 ** len(once)
    start = Fraction(int(whole or "0")) + Fraction(int(once or "0"), shift)
    return start + Fraction(int(repeated), (10 ** len(repeated) - 1) * shift)
