"""Formulas in answers, read without evaluating anything.

Python's own parser makes a tree of the text; we walk it and know numbers, names that are allowed, the four
operations, powers and a few functions. Anything else (an attribute, a string, a call of something unknown)
raises `NotAFormulaError`.
"""

import ast
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

_MAX_CHARACTERS = 2000
_MAX_EXPONENT = 1000
_FORMULA = re.compile(r"[\w\s.+\-*/()]+", re.ASCII)
# From sorted variables with their powers to a coefficient: {(("x", 2),): 3} is 3x².
Polynomial = dict[tuple[tuple[str, int], ...], Fraction]


class NotAFormulaError(ValueError):
    """A text that is no formula of the kind that was asked for."""


def arithmetic(text: str) -> tuple[Fraction, list[int]]:
    """The value of a formula of whole numbers and the four operations, and the numbers it uses.

    >>> arithmetic("(1 + 5) * 4 / 3")
    (Fraction(8, 1), [1, 5, 4, 3])
    """
    numbers: list[int] = []

    def constant(value: Any) -> Fraction:
        if type(value) is not int:
            raise NotAFormulaError("only whole numbers are used")
        if value >= 0:  # -1 is the sign before a formula, no number of its own
            numbers.append(value)
        return Fraction(value)

    value = _walk(_parse(text), constant, _no_name, _FOUR_OPERATIONS, {})
    return value, numbers


def polynomial(text: str) -> Polynomial:
    """A polynomial that has been multiplied out; one that has not is no answer to "multiply out".

    >>> polynomial("2*x**2 - y") == polynomial("-y + x*x + x**2")
    True
    """
    operations: dict[type, Callable[[Any, Any], Any]] = {
        ast.Add: _add,
        ast.Sub: lambda left, right: _add(left, _times_number(right, Fraction(-1))),
        ast.Mult: _multiply,
        ast.Div: _divide,
        ast.Pow: _power,
    }
    value: Polynomial = _walk(
        _parse(text), lambda number: _number(Fraction(number)), lambda name: {((name, 1),): Fraction(1)},
        operations, {},
    )  # fmt: skip
    return value


def symbolic(text: str, names: Mapping[str, Any]) -> Any:
    """The formula as sympy's, with these names and the usual functions."""
    import sympy

    functions = {name: getattr(sympy, name) for name in _FUNCTIONS.split()}
    constants = {"pi": sympy.pi, "E": sympy.E}

    def name(word: str) -> Any:
        found = {**constants, **names}.get(word)
        if found is None:
            raise NotAFormulaError(f"the name {word} is not known here")
        return found

    def power(base: Any, exponent: Any) -> Any:
        if base.is_number and exponent.is_number and abs(exponent) > _MAX_EXPONENT:
            raise NotAFormulaError("the exponent is too large")
        return base**exponent

    def number(value: Any) -> Any:
        return sympy.Integer(value) if type(value) is int else sympy.Rational(repr(value))

    return _walk(_parse(text), number, name, {**_FOUR_OPERATIONS, ast.Pow: power}, functions)


_FUNCTIONS = (
    "sin cos tan sec csc cot asin acos atan sinh cosh tanh asinh acosh atanh exp log ln sqrt Abs erf Si Ci"
)
_FOUR_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
}


def _parse(text: str) -> ast.expr:
    if len(text) > _MAX_CHARACTERS or not _FORMULA.fullmatch(text):
        raise NotAFormulaError("it has other characters than a formula, or too many")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        raise NotAFormulaError(str(fault)) from None


def _walk(
    node: ast.expr,
    constant: Callable[[Any], Any],
    name: Callable[[str], Any],
    operations: Mapping[type, Callable[[Any, Any], Any]],
    functions: Mapping[str, Callable[[Any], Any]],
) -> Any:
    def visit(part: ast.expr) -> Any:
        match part:
            case ast.Constant(value=int() | float()) if not isinstance(part.value, bool):
                return constant(part.value)
            case ast.Name(id=word):
                return name(word)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return operations[ast.Mult](constant(-1), visit(operand))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return visit(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in operations:
                return operations[type(op)](visit(left), visit(right))
            case ast.Call(func=ast.Name(id=word), args=[argument], keywords=[]) if word in functions:
                return functions[word](visit(argument))
        raise NotAFormulaError(f"{type(part).__name__} has no place in it")

    try:
        return visit(node)
    except (ZeroDivisionError, OverflowError, RecursionError) as fault:
        raise NotAFormulaError(str(fault)) from None


def _no_name(word: str) -> Any:
    raise NotAFormulaError("only numbers are used")


def _number(value: Fraction) -> Polynomial:
    return {(): value} if value else {}


def _add(left: Polynomial, right: Polynomial) -> Polynomial:
    total = dict(left)
    for term, coefficient in right.items():
        total[term] = total.get(term, Fraction(0)) + coefficient
        if not total[term]:
            del total[term]
    return total


def _times_number(value: Polynomial, factor: Fraction) -> Polynomial:
    return {term: coefficient * factor for term, coefficient in value.items() if factor}


def _constant(value: Polynomial) -> Fraction | None:
    return value.get((), Fraction(0)) if set(value) <= {()} else None


def _multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    for one, other in ((left, right), (right, left)):
        number = _constant(one)
        if number is not None:
            return _times_number(other, number)
    if len(left) > 1 or len(right) > 1:
        raise NotAFormulaError("it is not multiplied out")
    ((first, coefficient),), ((second, factor),) = left.items(), right.items()
    powers = dict(first)
    for variable, exponent in second:
        powers[variable] = powers.get(variable, 0) + exponent
    if max(powers.values()) > _MAX_EXPONENT:
        raise NotAFormulaError("the exponent is too large")
    return {tuple(sorted(powers.items())): coefficient * factor}


def _divide(left: Polynomial, right: Polynomial) -> Polynomial:
    number = _constant(right)
    if number is None:
        raise NotAFormulaError("a polynomial is divided by numbers only")
    return _times_number(left, 1 / number)


def _power(base: Polynomial, exponent: Polynomial) -> Polynomial:
    times = _constant(exponent)
    if times is None or times.denominator != 1 or not 0 <= times <= _MAX_EXPONENT:
        raise NotAFormulaError("the exponent of a polynomial is a small whole number")
    if len(base) > 1:
        raise NotAFormulaError("it is not multiplied out")
    value = _number(Fraction(1))
    for _ in range(int(times)):
        value = _multiply(value, base)
    return value
