r"""Expressions compared by value: parsed (`parser.py`), then evaluation to many digits.

Two expressions with variables are equal if they agree at fixed points to twenty digits; two without
variables if they agree to 110 (25 with integrals and sums), or to a relative error of 1e-6 where one is a
decimal. Relative, so that tiny and huge numbers are told apart. Whatever cannot be evaluated (sets,
inequalities, infinite sums) goes to math-verify's own comparison.

Where an absolute value, a root, a logarithm or a rounding depends on a variable, the points have every
variable negative once alone and once with all others: `\sqrt{m^{2}}` is `|m|` and not `m`. Roots live in the
real numbers: a point at which a side is not real only counts if the sides agree there, and the cube
root of -8 is -2. With `i` in the expression, everything is complex.
"""

import zlib
from fractions import Fraction
from itertools import pairwise
from typing import Any

from agon.judges.math.parser import parse

_POINTS = 4
_TRIALS = 10
_MAX_SIGNS = 4
_MAX_ZEROS = 8
_SCALES = [
    Fraction(1),
    Fraction(1, 3),
    Fraction(5),
    Fraction(60),
    Fraction(900),
]  # sizes are up to 2.8 times that
_EXACT_DIGITS = 120
_POINT_DIGITS = 35


def number_value(text: str) -> Fraction | None:
    """The value of an expression without variables to thirty digits, None if it has none."""
    import sympy

    parsed = parse(text)
    if not isinstance(parsed, sympy.Expr):
        return None
    prepared = _prepared(parsed)
    if prepared.free_symbols or prepared.has(sympy.oo, sympy.zoo, sympy.nan):
        return None
    try:
        value = sympy.N(prepared, 30, maxn=200)
    except (TypeError, ValueError, ArithmeticError, AttributeError, NotImplementedError):
        return None
    return Fraction(str(value)) if value.is_Float or value.is_Rational else None


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
    for point in _points(first, second):
        (value, defined), (other, other_defined) = _value_at(first, point), _value_at(second, point)
        if value is None or other is None or value == 0 or other == 0:
            continue
        if not (defined and other_defined) and _undecided(first, second, (False, False)):
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
    if sympy.Symbol("i") in expression.free_symbols:
        expression = expression.subs({sympy.Symbol("i"): sympy.I})
    if expression.has(AppliedUndef):
        expression = expression.replace(
            lambda part: isinstance(part, AppliedUndef) and part.func.__name__ in known,
            lambda part: known[part.func.__name__](*part.args),
        )
    return expression if expression.has(sympy.I) else _with_real_roots(expression)


def _with_real_roots(expression: Any) -> Any:
    """The cube root of -8 is -2, as in school, and not a complex number."""
    import sympy

    def is_odd_root(part: Any) -> bool:
        exponent = part.exp if isinstance(part, sympy.Pow) else None
        return bool(
            isinstance(exponent, sympy.Rational)
            and exponent.q % 2 == 1
            and exponent.q > 1
            and part.base.is_number
            and part.base.is_negative
        )

    if not any(is_odd_root(part) for part in expression.atoms(sympy.Pow)):
        return expression
    return expression.replace(is_odd_root, lambda part: (-1) ** part.exp.p * (-part.base) ** part.exp)


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
    # Digits of an integral or a sum are expensive; elsewhere e^{108} is not e^{108} + 1.
    costly = any(side.has(sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit) for side in (first, second))
    digits = _POINT_DIGITS if costly else _EXACT_DIGITS
    values = [_number(sympy.N(expression, digits, maxn=400)) for expression in (first, second)]
    if values[0] is None or values[1] is None:
        return None
    return _close(values[0], values[1], tolerance or 10.0 ** (10 - digits))


def _equal_at_points(first: Any, second: Any) -> bool | None:
    import sympy

    agreed, unclear = 0, False
    points = _points(first, second)
    smooth = _is_smooth(first) and _is_smooth(second)
    # All signs where they matter, and integers too where something is rounded.
    rounded = first.has(sympy.floor, sympy.ceiling) or second.has(sympy.floor, sympy.ceiling)
    must_try = 0 if smooth else len(points) - (0 if rounded else _POINTS)
    for tried, point in enumerate(points):
        if agreed >= _POINTS and tried >= must_try:
            return True
        (value, defined), (other, other_defined) = _value_at(first, point), _value_at(second, point)
        if value is None or other is None:
            continue
        if _close(value, other, 1e-20):
            agreed += 1
        elif _undecided(first, second, (defined, other_defined)):
            unclear = True
        else:
            return False
    return True if agreed >= _POINTS else False if unclear else None


def _is_smooth(expression: Any) -> bool:
    """Whether agreement at a few points settles it, whatever the signs of the variables are."""
    import sympy

    kinked = (sympy.Abs, sympy.sign, sympy.Max, sympy.Min, sympy.floor, sympy.ceiling, sympy.log, sympy.Mod)
    return not any(part.free_symbols for part in expression.atoms(*kinked)) and not any(
        part.base.free_symbols and not part.exp.is_Integer for part in expression.atoms(sympy.Pow)
    )


def _roots(expression: Any) -> list[Any]:
    """The powers that are not real where their base is negative."""
    import sympy

    return [
        part
        for part in expression.atoms(sympy.Pow)
        if part.base.free_symbols and not (part.exp.is_Rational and part.exp.q % 2 == 1)
    ]


def _undecided(first: Any, second: Any, defined: tuple[bool, bool]) -> bool:
    r"""Whether a disagreement at a point says nothing, because a side is not real there.

    With roots one such side is enough: \sqrt{ab} and \sqrt{a}\sqrt{b} agree wherever both are real. With
    logarithms it takes both: \ln x^2 is defined where 2\ln x is not, and the two are told apart.
    """
    import sympy

    if first.has(sympy.I) or second.has(sympy.I):
        return False
    return not any(defined) if first.has(sympy.log) or second.has(sympy.log) else not all(defined)


def _points(first: Any, second: Any) -> list[dict[Any, Any]]:
    """Points that depend only on the names of the variables, in the order in which they are tried.

    Where signs matter: all positive and all negative, small and large (x^2 + x is negative between -1 and 0,
    100 - x beyond 100). With one variable, close to each other and between zeros; with
    several, each alone with its sign and alone without it, so that |bc| is seen in a + |bc|. Last, integers:
    for sums up to n, and the like.
    """
    import sympy

    symbols = sorted(first.free_symbols | second.free_symbols, key=str)
    everything = frozenset(symbols)
    if _is_smooth(first) and _is_smooth(second):
        tried = [
            _point(
                symbols, trial, frozenset(s for s in symbols if trial % 2 and _seed(f"{s}/{trial}") & 0x10000)
            )
            for trial in range(_TRIALS - _POINTS)
        ]
        return tried + _integer_points(symbols)
    # A variable in an exponent takes for ever at large numbers.
    scales = _SCALES[:-2] if _has_powers(first) or _has_powers(second) else _SCALES
    if len(symbols) == 1:
        halves = [sympy.Rational(2 * number + 1, 2) for number in range(-4, 4)]
        tried = [{symbols[0]: value} for value in (*halves, *_between_zeros((first, second), symbols[0]))]
        scales = [scale for scale in scales if scale not in (1, 5)]
    else:
        tried = []
        for turn in (0, 1):  # m^n - m is negative where m is large and n small
            sizes = [
                _point(symbols, 10 + turn, frozenset(), scale) for scale in (Fraction(5), Fraction(1, 3))
            ]
            tried.append({symbol: sizes[(at + turn) % 2][symbol] for at, symbol in enumerate(symbols)})
        for index, symbol in enumerate(symbols[:_MAX_SIGNS], 1):
            tried.append(_point(symbols, 2 * index, frozenset([symbol]), scale=Fraction(4)))
            tried.append(_point(symbols, 2 * index + 1, everything - {symbol}, scale=Fraction(1, 3)))
    for index, scale in enumerate(scales):
        tried.append(_point(symbols, 20 + 2 * index, frozenset(), scale))
        tried.append(_point(symbols, 21 + 2 * index, everything, scale))
    return tried + _integer_points(symbols)


def _between_zeros(sides: tuple[Any, Any], symbol: Any) -> list[Any]:
    """Points on both sides of every zero of what stands in bars or is squared under a root: n(2n + 1) is
    negative between -1/2 and 0 only."""
    import sympy

    inside = {part.args[0] for side in sides for part in side.atoms(sympy.Abs)}
    for root in (part for side in sides for part in side.atoms(sympy.Pow) if part.exp == sympy.S.Half):
        inside |= {part.base for part in root.base.atoms(sympy.Pow) if part.exp == 2}
    places: list[float] = []
    for argument in sorted(inside, key=str)[:_MAX_ZEROS]:
        try:
            zeros = sympy.Poly(argument, symbol).nroots(n=8, maxsteps=50)
        except MemoryError:
            raise
        except Exception:  # no polynomial, or mpmath's search for its zeros did not converge
            continue
        places += [float(sympy.re(zero)) for zero in zeros[:_MAX_ZEROS] if abs(sympy.im(zero)) < 1e-6]
    places.sort()
    ends = [places[0] - 1, *places, places[-1] + 1] if places else []
    return [
        sympy.Rational(round(500 * (low + high)), 1000) for low, high in pairwise(ends) if high - low > 0.01
    ]


def _has_powers(expression: Any) -> bool:
    import sympy

    return expression.has(sympy.exp) or any(part.exp.free_symbols for part in expression.atoms(sympy.Pow))


def _point(
    symbols: list[Any], trial: int, negative: frozenset[Any], scale: Fraction = Fraction(1)
) -> dict[Any, Any]:
    import sympy

    point = {}
    for symbol in symbols:
        size = scale * Fraction(_seed(f"{symbol}/{trial}") % 9973 + 1200, 4001)
        signed = -size if symbol in negative else size
        point[symbol] = sympy.Rational(signed.numerator, signed.denominator)
    return point


def _integer_points(symbols: list[Any]) -> list[dict[Any, Any]]:
    import sympy

    return [
        {symbol: sympy.Integer(2 + (_seed(symbol) + trial) % 7) for symbol in symbols}
        for trial in range(_TRIALS - _POINTS, _TRIALS)
    ]


def _seed(name: Any) -> int:
    return zlib.crc32(str(name).encode())


def _value_at(expression: Any, point: dict[Any, Any]) -> tuple[Any, bool]:
    """The value at a point, None if there is none, and whether it is real all the way through."""
    import sympy
    from sympy.core.function import AppliedUndef

    def unknown_function(part: Any) -> Any:
        """A value that depends on the function's name and its arguments."""
        seed = sympy.Rational(_seed(part.func.__name__) % 997 + 100, 499)
        return sympy.cos(seed + sum((index + seed) * value for index, value in enumerate(part.args, 1)))

    try:
        value = expression.subs(
            {symbol: point[symbol] for symbol in expression.free_symbols}, simultaneous=True
        )
        if value.has(AppliedUndef):
            value = value.replace(lambda part: isinstance(part, AppliedUndef), unknown_function)
        if not expression.has(sympy.I):
            value = _with_real_roots(value)
        defined = not value.has(sympy.I) and all(
            part.base.subs(point).is_nonnegative is not False for part in _roots(expression)
        )
        return _number(sympy.N(value, _POINT_DIGITS, maxn=200)), defined
    except (TypeError, ValueError, ArithmeticError, AttributeError, NotImplementedError):
        return None, False


def _number(value: Any) -> Any:
    """The value if it is a finite number, real or complex."""
    parts = value.as_real_imag()
    plain = all(part.is_Float or part.is_Rational for part in parts)
    return value if plain and value.is_finite else None


def _close(first: Any, second: Any, tolerance: float) -> bool:
    import sympy

    size = max(abs(first), abs(second))
    return bool(size == 0 or abs(first - second) <= sympy.Float(tolerance * (1 + 1e-9), 50) * size)
