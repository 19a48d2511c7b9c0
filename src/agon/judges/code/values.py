"""Plain Python values as JSON, so that what a program returned can be compared outside its process.

Only data travels: None, booleans, numbers, strings, bytes, ranges, and lists, tuples, sets and
dictionaries of these. A subclass travels as the plain type beneath it, read by that type's own methods;
anything else is refused. So an object whose `__eq__` always returns True gains nothing.

This file is also read as text and run inside the sandbox, so it imports nothing of ours.
"""

from typing import Any

_MAX_DEPTH = 100


class NotPlainError(ValueError):
    """A value that is not plain data."""


def encode(value: Any, depth: int = 0) -> Any:
    """The value as JSON: `[type name, content]`."""
    if depth > _MAX_DEPTH:
        raise NotPlainError("the value is nested too deeply")
    if value is None:
        return ["none"]
    for kind, name, read in _SCALARS:
        if isinstance(value, kind):
            return [name, read(value)]
    if isinstance(value, dict):
        items = dict.items(value)
        return ["dict", [[encode(key, depth + 1), encode(item, depth + 1)] for key, item in items]]
    for kind, name, iterate in _COLLECTIONS:
        if isinstance(value, kind):
            return [name, [encode(item, depth + 1) for item in iterate(value)]]
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
            return {decode(key, depth + 1): decode(item, depth + 1) for key, item in _list(content)}
        if name in _COLLECTION_MAKERS:
            return _COLLECTION_MAKERS[name](decode(item, depth + 1) for item in _list(content))
    except (TypeError, ValueError, OverflowError) as fault:
        raise NotPlainError(str(fault)) from None
    raise NotPlainError("there is no type " + name[:40])


def _list(content: Any) -> list[Any]:
    if not isinstance(content, list):
        raise NotPlainError("this is no list")
    return content


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
}
_COLLECTION_MAKERS: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
