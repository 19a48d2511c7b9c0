"""Rows of .jsonl and .parquet files.

A row keeps the place it came from, so that an error can name the file and the line.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agon.errors import InputError
from agon.game.problem import is_text

SUFFIXES = (".jsonl", ".parquet")


class Row(Mapping[str, Any]):
    """A row that knows where it was read; the error for a missing column names that place."""

    def __init__(self, fields: Mapping[str, Any], where: str) -> None:
        self.fields = fields
        self.where = where

    def __getitem__(self, column: str) -> Any:
        if column not in self.fields:
            have = ", ".join(map(str, self.fields)) or "none"
            raise InputError(f"{self.where} has no column '{column}' (its columns: {have}).")
        return self.fields[column]

    # Mapping's own versions rely on KeyError, which a missing column does not raise here.
    def __contains__(self, column: object) -> bool:
        return column in self.fields

    def get(self, column: str, default: Any = None) -> Any:
        return self.fields.get(column, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def text(self, column: str) -> str:
        """A column that must hold text; numbers are accepted and written out."""
        value = self[column]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InputError(f"{self.where}: column '{column}' holds {_kind(value)}, not text.")
        if not is_text(str(value)):
            raise InputError(f"{self.where}: column '{column}' holds half a character (a lone surrogate).")
        return str(value)

    def number(self, column: str) -> float:
        """A column that must hold a number, or text that reads as one."""
        try:
            return float(self[column])
        except (TypeError, ValueError):
            raise InputError(
                f"{self.where}: column '{column}' holds {self[column]!r}, not a number."
            ) from None

    def texts(self, column: str, optional: bool = False) -> list[str]:
        """A column that must hold a list of texts; an optional one may be absent or empty."""
        value = (self.get(column) or []) if optional else self[column]
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InputError(f"{self.where}: column '{column}' is not a list of texts.")
        return value


def read_file(file: Path) -> list[Row]:
    """All rows of a .jsonl or .parquet file."""
    if file.suffix not in SUFFIXES:
        raise InputError(f"{file} is neither a .jsonl nor a .parquet file.")
    if not file.exists():
        raise InputError(f"There is no file {file}.")
    rows = list(_jsonl(file) if file.suffix == ".jsonl" else _parquet(file))
    if not rows:
        raise InputError(f"{file} is empty: a task needs at least one problem.")
    return rows


def first_line(error: Exception) -> str:
    """The first line of another library's message, to quote in a sentence of ours."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _jsonl(file: Path) -> Iterator[Row]:
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{file} line {number}"
        try:
            fields = json.loads(line)
        except ValueError as error:
            raise InputError(f"{where} is not JSON: {first_line(error)}.") from error
        if not isinstance(fields, dict):
            raise InputError(f"{where} holds {_kind(fields)}, not an object with columns.")
        yield Row(fields, where)


def _parquet(file: Path) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(file)
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{file} cannot be read as parquet: {first_line(error)}.") from error
    for number, fields in enumerate(table.to_pylist(), start=1):
        yield Row(fields, f"{file} row {number}")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a truth value", type(None): "nothing"}
    return names.get(type(value), f"a {type(value).__name__}")
