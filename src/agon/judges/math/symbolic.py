r"""Expressions compared by value: math-verify's parser, then evaluation to many digits.

Two expressions with variables are equal if they agree at fixed points to twenty digits; two without
variables if they agree to thirty, or to a relative error of 1e-6 where one is a decimal. Relative, so
that tiny and huge numbers are told apart. Whatever cannot be evaluated (sets, inequalities, infinite
sums) goes to math-verify's own comparison.

What its parser would drop although it matters (primes, transposes) is not given to it; letter case is kept.
"""

import re
import zlib
from functools import lru_cache
from typing import Any

_UNREADABLE = re.compile(
    r"'|!\s*!|\\prime|\\top|\^\{(?:T|\\ast|\*|\\dagger|c|C|\\circ)\}|\\dagger|\\[lcvdi]?dots|\.\.|\\text|\\bmod|\\pmod"
    r"|\\gcd|\\lcm|\\operatorname|\\overline|\\bar|\\hat|\\tilde|\\vec|\d \d|\\to(?![A-Za-z])|[^\x00-\x7f]"
)
_MAX_DEPTH = 15
_POINTS = 4
_TRIALS = 10
_EXACT_DIGITS = 60
_POINT_DIGITS = 35


def readable(text: str) -> bool:
    """Whether the parser reads all of this correctly."""
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return depth == 0 and deepest <= _MAX_DEPTH and not _UNREADABLE.search(text)


@lru_cache(maxsize=512)
def parse(text: str) -> Any:
    """The sympy object of a normalised expression, or None."""
    if not readable(text):
        return None
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy

    config = ConversionConfig(lowercase_symbols=False, interpret_as_mixed_fractions=False)
    # `\log` without a base is the natural one, as in most of mathematics.
    text = text.replace(r"\cr", r"\\")
    text = re.sub(r"\\log(?![A-Za-z]|\s*_)", r"\\ln", text)
    try:
        parsed = latex2sympy(
            text, is_real=None, convert_degrees=False, normalization_config=None, conversion_config=config
        )
    except MemoryError:
        raise
    except Exception:  # its parser raises whatever it met: syntax, type and attribute errors
        return None
    return parsed if not isinstance(parsed, (list, str)) else None


def equal_values(gold: str, answer: str, tolerance: float | None) -> bool | None:
    """Whether two expressions have the same value everywhere; None where that cannot be evaluated.

    `tolerance` is the relative error allowed between numbers, None for exactness.
    """
    import sympy

    first, second = parse(gold), parse(answer)
    if first is None or second is None:
        return False
    if not (isinstance(first, sympy.Expr) and isinstance(second, sympy.Expr)):
        return None
    first, second = _prepared(first), _prepared(second)
    if first == second:
        return first not in (sympy.nan, sympy.zoo)
    if first.has(sympy.oo, sympy.zoo, sympy.nan) or second.has(sympy.oo, sympy.zoo, sympy.nan):
        return bool(first.doit() == second.doit()) and not first.has(sympy.zoo, sympy.nan)
    if first.free_symbols != second.free_symbols:
        return False
    if not first.free_symbols:
        return _equal_numbers(first, second, tolerance)
    return _equal_at_points(_with_rationals(first), _with_rationals(second))


def proportional(gold: str, answer: str, sign_matters: bool) -> bool:
    """Whether one expression is a constant multiple of the other: the same equation or inequality."""
    import sympy

    first, second = parse(gold), parse(answer)
    if not (isinstance(first, sympy.Expr) and isinstance(second, sympy.Expr)):
        return False
    first, second = _with_rationals(_prepared(first)), _with_rationals(_prepared(second))
    if not first.free_symbols or first.free_symbols != second.free_symbols:
        return False
    ratio = None
    agreed = 0
    for trial in range(_TRIALS):
        value, other = _value_at(first, trial), _value_at(second, trial)
        if value is None or other is None or value == 0 or other == 0:
            continue
        if ratio is None:
            ratio = value / other
        elif not _close(value / other, ratio, 1e-20):
            return False
        agreed += 1
    return agreed >= _POINTS and not (sign_matters and not bool(sympy.re(ratio) > 0))


def math_verify_equal(gold: str, answer: str) -> bool:
    """math-verify's own comparison, for what has no single value (sets, inequalities)."""
    from math_verify import verify

    first, second = parse(gold), parse(answer)
    if first is None or second is None:
        return False
    return bool(verify([first], [second], strict=True, allow_set_relation_comp=True, timeout_seconds=None))


def _prepared(expression: Any) -> Any:
    """`i` is the imaginary unit, and functions whose names we know are those functions."""
    import sympy
    from sympy.core.function import AppliedUndef

    known = {
        "W": sympy.LambertW,
        r"\zeta": sympy.zeta,
        "zeta": sympy.zeta,
        r"\Gamma": sympy.gamma,
        "erf": sympy.erf,
    }
    expression = expression.subs({sympy.Symbol("i"): sympy.I})
    return expression.replace(
        lambda part: isinstance(part, AppliedUndef) and part.func.__name__ in known,
        lambda part: known[part.func.__name__](*part.args),
    )


def _with_rationals(expression: Any) -> Any:
    """With decimals as fractions: an expression with variables is compared exactly."""
    import sympy

    return expression.replace(
        lambda part: isinstance(part, sympy.Float), lambda part: sympy.Rational(str(part))
    )


def _equal_numbers(first: Any, second: Any, tolerance: float | None) -> bool | None:
    import sympy

    if first.is_zero or second.is_zero:
        return bool((first - second).equals(0))
    values = [_number(sympy.N(expression, _EXACT_DIGITS, maxn=400)) for expression in (first, second)]
    if values[0] is None or values[1] is None:
        return None
    return _close(values[0], values[1], tolerance or 1e-30)


def _equal_at_points(first: Any, second: Any) -> bool | None:
    agreed = 0
    for trial in range(_TRIALS):
        values = _value_at(first, trial), _value_at(second, trial)
        if values[0] is None or values[1] is None:
            continue
        if not _close(values[0], values[1], 1e-20):
            return False
        agreed += 1
        if agreed == _POINTS:
            return True
    return None


def _value_at(expression: Any, trial: int) -> Any:
    """The value at a point that depends only on the trial and on each variable's name."""
    import sympy
    from sympy.core.function import AppliedUndef

    def coordinate(symbol: Any) -> Any:
        if trial >= 6:  # for sums and products up to n, and the like
            return sympy.Integer(2 + (zlib.crc32(str(symbol).encode()) + trial) % 7)
        seed = zlib.crc32(f"{symbol}/{trial}".encode())
        size = sympy.Rational(seed % 9973 + 1200, 4001)
        return -size if trial in (1, 3, 5) and seed & 0x10000 else size

    def unknown_function(part: Any) -> Any:
        """A value that depends on the function's name and its arguments."""
        seed = sympy.Rational(zlib.crc32(part.func.__name__.encode()) % 997 + 100, 499)
        return sympy.cos(seed + sum((index + seed) * value for index, value in enumerate(part.args, 1)))

    try:
        point = {symbol: coordinate(symbol) for symbol in expression.free_symbols}
        value = expression.subs(point, simultaneous=True)
        value = value.replace(lambda part: isinstance(part, AppliedUndef), unknown_function)
        return _number(sympy.N(value, _POINT_DIGITS, maxn=200))
    except (TypeError, ValueError, ArithmeticError, AttributeError, NotImplementedError):
        return None


def _number(value: Any) -> Any:
    """The value if it is a finite number, real or complex."""
    parts = value.as_real_imag()
    plain = all(part.is_Float or part.is_Rational for part in parts)
    return value if plain and value.is_finite else None


def _close(first: Any, second: Any, tolerance: float) -> bool:
    import sympy

    size = max(abs(first), abs(second))
    return bool(size == 0 or abs(first - second) <= sympy.Float(tolerance * (1 + 1e-9), 50) * size)
