"""The rows of options.json, made from `AgonConfig`: the slow side of `agon.train.option_table`.

A row says how a value is written (`kind`), whether it may be left empty (`null`), its default, the values
to choose from, and, for the options that are not TRL's, the sentence of `agon train --help`.
"""

import dataclasses
import json
import types
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agon.train.config import AgonConfig
from agon.train.option_table import TABLE
from agon.train.recipes import RunArguments

# How a value is written, by the types that an option takes; the first that fits.
WRITTEN: dict[str, set[Any]] = {
    "texts": {str, list},
    "list": {list},
    "mapping": {dict},
    "text": {str},
    "switch": {bool},
    "number": {float},
    "whole": {int},
}


def rows() -> list[dict[str, Any]]:
    """One row per option, model and task first."""
    inherited = {each.name for kind in AgonConfig.__mro__[1:] for each in _fields_of(kind)}
    made = []
    for kind in (RunArguments, AgonConfig):
        hints = get_type_hints(kind)
        for each in _fields_of(kind):
            if each.init:
                made.append(_row(each, hints[each.name], kind is RunArguments or each.name not in inherited))
    return made


def write_rows() -> Path:
    """Write the table, one row a line so that a change of one option is a change of one line."""
    lines = ",\n".join(json.dumps(row) for row in rows())
    TABLE.write_text(f"[\n{lines}\n]\n", "utf-8")
    return TABLE


def _row(each: "dataclasses.Field[Any]", hint: Any, own: bool) -> dict[str, Any]:
    parts = _parts(hint)
    kind, choices = _kind([part for part in parts if part is not type(None)])
    factory: Any = each.default_factory
    default = factory() if each.default is dataclasses.MISSING else each.default
    row: dict[str, Any] = {
        "name": each.name,
        "kind": kind,
        "null": type(None) in parts or default is None,
        "default": default.value if isinstance(default, Enum) else default,
    }
    choices = choices or list(each.metadata.get("choices") or ())
    if choices:
        row["choices"] = choices
    if own:
        row["help"] = each.metadata["help"]
    return row


def _parts(hint: Any) -> list[Any]:
    return list(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else [hint]


def _kind(parts: list[Any]) -> tuple[str, list[str]]:
    """How a value is written, and the names of an enumeration."""
    enums = [part for part in parts if isinstance(part, type) and issubclass(part, Enum)]
    if enums:
        return "choice", [str(item.value) for item in enums[0]]
    plain = {get_origin(part) or part for part in parts} - {Literal}
    for written, kinds in WRITTEN.items():
        if kinds <= plain:
            return written, []
    return "object", []


def _fields_of(kind: type) -> tuple["dataclasses.Field[Any]", ...]:
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
