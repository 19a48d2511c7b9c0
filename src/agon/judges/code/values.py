"""Plain Python values as JSON, so that what a program returned can be compared outside its process.

Only data travels: None, booleans, numbers (fractions and decimals too), strings, bytes, ranges, and lists,
tuples, sets, dictionaries, their views, and deques of these. A generator or a map travels as what it yields
and arrives as an iterator. A subclass travels as the plain type beneath it, read by that type's own methods;
anything else is refused. So an object whose `__eq__` always returns True gains nothing.

What arrives may be forged. It is bounded in depth and size, and a set or dictionary whose keys were chosen
to have one hash is refused: 100,000 of them would take minutes to put together.

This file is also read as text and run inside the sandbox, so it imports nothing of ours.
"""

from typing import Any

_MAX_DEPTH = 100
_MAX_ITEMS = 1 << 20
_MAX_EQUAL_HASHES = 100
_MAX_FRACTION_DIGITS = 10_000


class NotPlainError(ValueError):
    """A value that is not plain data."""


def encode(value: Any, depth: int = 0, count: list[int] | None = None) -> Any:
    """The value as JSON: `[type name, content]`."""
    count = [0] if count is None else count
    count[0] += 1
    if depth > _MAX_DEPTH or count[0] > _MAX_ITEMS:
        raise NotPlainError("the value is nested too deeply or too large")

    def each(items: Any) -> list[Any]:
        return [encode(item, depth + 1, count) for item in items]

    if value is None:
        return ["none"]
    for kind, name, read in _SCALARS:
        if isinstance(value, kind):
            return [name, read(value)]
    if isinstance(value, dict):
        return ["dict", [each(item) for item in dict.items(value)]]
    for kind, name, iterate in _COLLECTIONS:
        if isinstance(value, kind):
            return [name, each(iterate(value))]
    for kind in type(value).__mro__:
        # By name: importing all of these would slow down every run.
        match (kind.__module__, kind.__name__):
            case ("fractions", "Fraction"):
                return ["fraction", [int.__format__(part, "x") for part in value.as_integer_ratio()]]
            case ("decimal", "Decimal"):
                return ["decimal", str(value)]
            case ("collections", "deque"):
                return ["deque", each(value)]
            case ("builtins", ("dict_keys" | "dict_values" | "dict_items") as name):
                return [name, each(value)]
            case ("builtins", ("map" | "filter" | "zip" | "enumerate" | "reversed" | "generator")) | (
                "itertools", _
            ):  # fmt: skip
                return ["iterator", each(value)]
    raise NotPlainError("a value of type " + type(value).__name__ + " is no plain data")


def decode(encoded: Any, depth: int = 0) -> Any:
    """The value that was encoded; raises NotPlainError for anything `encode` would not have written."""
    if depth > _MAX_DEPTH or not isinstance(encoded, list) or not encoded or not isinstance(encoded[0], str):
        raise NotPlainError("this is no encoded value")
    name, content = encoded[0], encoded[1] if len(encoded) == 2 else None
    try:
        if name == "none":
            return None
        if name in _SCALAR_MAKERS:
            return _SCALAR_MAKERS[name](content)
        if name == "dict":
            pairs = [(decode(key, depth + 1), decode(item, depth + 1)) for key, item in _list(content)]
            return dict(zip(_hashable([key for key, _ in pairs]), [item for _, item in pairs], strict=True))
        if name in _COLLECTION_MAKERS:
            return _COLLECTION_MAKERS[name]([decode(item, depth + 1) for item in _list(content)])
    except (TypeError, ValueError, ArithmeticError) as fault:
        raise NotPlainError(str(fault)) from None
    raise NotPlainError("there is no type " + name[:40])


def _list(content: Any) -> list[Any]:
    if not isinstance(content, list):
        raise NotPlainError("this is no list")
    return content


def _hashable(items: list[Any]) -> list[Any]:
    """The items, if a set of them can be built in reasonable time."""
    if len(items) - len({hash(item) for item in items}) > _MAX_EQUAL_HASHES:
        raise NotPlainError("too many of the keys have the same hash")
    return items


def _fraction(content: Any) -> Any:
    from fractions import Fraction

    if any(len(part) > _MAX_FRACTION_DIGITS for part in content):
        raise NotPlainError("the fraction is too long to reduce")
    top, bottom = (int(part, 16) for part in content)
    return Fraction(top, bottom)


def _decimal(content: Any) -> Any:
    from decimal import Decimal

    return Decimal(str(content)[:10_000])


def _deque(items: list[Any]) -> Any:
    from collections import deque

    return deque(items)


# Integers travel in hexadecimal: Python refuses to print long ones in decimal.
_SCALARS: tuple[tuple[type, str, Any], ...] = (
    (bool, "bool", lambda value: bool.__repr__(value) == "True"),
    (int, "int", lambda value: int.__format__(value, "x")),
    (float, "float", float.hex),
    (complex, "complex", lambda value: [float.hex(value.real), float.hex(value.imag)]),
    (str, "str", lambda value: str.__str__(value).encode("utf-8", "surrogatepass").hex()),
    (bytes, "bytes", bytes.hex),
    (bytearray, "bytearray", bytearray.hex),
    (
        range,
        "range",
        lambda value: [int.__format__(part, "x") for part in (value.start, value.stop, value.step)],
    ),
)
_COLLECTIONS: tuple[tuple[type, str, Any], ...] = (
    (list, "list", list.__iter__),
    (tuple, "tuple", tuple.__iter__),
    (set, "set", set.__iter__),
    (frozenset, "frozenset", frozenset.__iter__),
)
_SCALAR_MAKERS: dict[str, Any] = {
    "bool": lambda content: content is True,
    "int": lambda content: int(content, 16),
    "float": float.fromhex,
    "complex": lambda content: complex(*map(float.fromhex, content)),
    "str": lambda content: bytes.fromhex(content).decode("utf-8", "surrogatepass"),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "range": lambda content: range(*(int(part, 16) for part in content)),
    "fraction": _fraction,
    "decimal": _decimal,
}
_COLLECTION_MAKERS: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "set": lambda items: set(_hashable(items)),
    "frozenset": lambda items: frozenset(_hashable(items)),
    "deque": _deque,
    "iterator": iter,
    "dict_keys": lambda items: dict.fromkeys(_hashable(items)).keys(),
    "dict_values": lambda items: dict(enumerate(items)).values(),
    "dict_items": lambda items: dict(
        [*map(tuple, items)] if _hashable([key for key, _ in items]) else ()
    ).items(),
}
