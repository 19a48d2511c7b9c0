"""Rows of .jsonl, .json, .csv and .parquet files; those of text may be packed by gzip.

A row keeps the place it came from, so that an error can name the file and the line.
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agon.errors import InputError
from agon.game.problem import is_text

TEXTS = (".jsonl", ".json", ".csv")
SUFFIXES = (".jsonl", ".parquet", ".json", ".csv", *(f"{suffix}.gz" for suffix in TEXTS))
KINDS = "neither a .jsonl nor a .parquet file, nor a .json or .csv one"


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
    """All rows of a file, read by the ending of its name."""
    suffix = suffix_of(file)
    if suffix is None:
        raise InputError(f"{file} is {KINDS}.")
    if not file.exists():
        raise InputError(f"There is no file {file}.")
    rows = list(_READERS[suffix.removesuffix(".gz")](file))
    if not rows:
        raise InputError(f"{file} is empty: a task needs at least one problem.")
    return rows


def suffix_of(file: Path) -> str | None:
    """The ending of a name that says how a file is read; None if it has no such ending."""
    return next((suffix for suffix in SUFFIXES if file.name.endswith(suffix)), None)


def first_line(error: Exception) -> str:
    """The first line of another library's message, to quote in a sentence of ours."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _content(file: Path) -> bytes:
    try:
        content = file.read_bytes()
        return gzip.decompress(content) if file.name.endswith(".gz") else content
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{file} is not a whole gzip file ({first_line(error)}).") from error
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from error


def _text(file: Path) -> str:
    try:
        return _content(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not a text in UTF-8 ({first_line(error)}).") from error


def _csv(file: Path) -> Iterator[Row]:
    """Rows below a line of names; every value is a text."""
    reader = csv.DictReader(io.StringIO(_text(file), newline=""))
    try:
        for fields in reader:
            where = f"{file} line {reader.line_num}"
            if None in fields:
                raise InputError(f"{where} has more values than the first line has names.")
            yield Row({name: value for name, value in fields.items() if value is not None}, where)
    except csv.Error as error:
        raise InputError(f"{file} line {reader.line_num} is not CSV: {first_line(error)}.") from error


def _json(file: Path) -> Iterator[Row]:
    """A list of objects, an object whose only list is one, or, as some name it, one object a line."""
    try:
        found = json.loads(_text(file))
    except RecursionError as error:
        raise InputError(f"{file} is nested too deeply.") from error
    except ValueError:
        yield from _jsonl(file)
        return
    if isinstance(found, dict):
        lists = [value for value in found.values() if isinstance(value, list)]
        found = lists[0] if len(lists) == 1 else [found]
    for number, fields in enumerate(found if isinstance(found, list) else [found], start=1):
        if not isinstance(fields, dict):
            raise InputError(f"{file} row {number} holds {_kind(fields)}, not an object with columns.")
        yield Row(fields, f"{file} row {number}")


def _jsonl(file: Path) -> Iterator[Row]:
    lines = _content(file).split(b"\n")
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


_READERS = {".jsonl": _jsonl, ".json": _json, ".csv": _csv, ".parquet": _parquet}


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a truth value", type(None): "nothing"}
    return names.get(type(value), f"a {type(value).__name__}")
