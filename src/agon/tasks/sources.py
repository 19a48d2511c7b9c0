"""Where rows come from: the Hub by name, or the same dataset's files under a local path.

A path may be the data file itself, the dataset's folder, or a folder that holds several datasets'
folders. Rows keep the place they came from, so that an error can name the file and the line.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.errors import InputError

SUFFIXES = (".jsonl", ".parquet")


@dataclass(frozen=True)
class Source:
    """One split of one dataset: its name on the Hub and what it is called under a local path."""

    hub: str
    split: str
    columns: tuple[str, ...]
    folders: tuple[str, ...]
    config: str | None = None
    files: tuple[str, ...] = ()


class Row(Mapping[str, Any]):
    """A row that knows where it stands; a missing column is named together with the place."""

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
        """A column that must hold text; numbers are taken as they are written."""
        value = self[column]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InputError(f"{self.where}: column '{column}' holds {_kind(value)}, not text.")
        return str(value)


def read(source: Source, path: str | None, beside: bool = False) -> list[Row]:
    """The rows of a source: from the Hub, or from the files that a local path holds for it.

    `beside` looks only for a folder of the source's own name, in the path or next to it: that is
    where an evaluation set is found when the path points at a training set.
    """
    if path is None:
        return list(_from_hub(source))
    files = locate(source, Path(path).expanduser(), beside)
    return [row for file in files for row in read_file(file)]


def locate(source: Source, path: Path, beside: bool = False) -> list[Path]:
    """The files of a source under a path."""
    if not path.exists():
        raise InputError(f"There is no file or folder {path}.")
    if path.is_file() and not beside and source.split in ("train", "test"):
        # A file stands for the split it is named after; a lone one stands for the main split.
        named = [path.with_name(path.name.replace("train", source.split))]
        if source.split == "train" or path.name == named[0].name:
            return [path]
        return _existing(named) or _missing(source, path)
    roots = [path if path.is_dir() else path.parent]
    roots.append(roots[0].resolve().parent)
    folders = [root / folder for root in roots for folder in source.folders]
    if not beside:
        folders = [*folders[: len(source.folders)], roots[0]]
    for folder in folders:
        found = _in_folder(source, folder)
        if found:
            return found
    return _missing(source, path)


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


def columns_present(rows: Sequence[Row], columns: Iterable[str]) -> None:
    """Fail on the first row without one of the columns."""
    for row in rows:
        for column in columns:
            row[column]


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
            raise InputError(f"{where} is not JSON: {_reason(error)}.") from error
        if not isinstance(fields, dict):
            raise InputError(f"{where} holds {_kind(fields)}, not an object with columns.")
        yield Row(fields, where)


def _parquet(file: Path) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(file)
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{file} cannot be read as parquet: {_reason(error)}.") from error
    for number, fields in enumerate(table.to_pylist(), start=1):
        yield Row(fields, f"{file} row {number}")


def _from_hub(source: Source) -> Iterator[Row]:
    import datasets

    name = source.hub + (f" ({source.config})" if source.config else "")
    try:
        table = datasets.load_dataset(source.hub, source.config, split=source.split)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"The Hub did not give {name}, split {source.split} ({_reason(error)}); "
            "check the connection, or pass the path of a local copy."
        ) from error
    wanted = [column for column in source.columns if column in table.column_names]
    for number, fields in enumerate(table.select_columns(wanted), start=1):
        yield Row(fields, f"{source.hub} {source.split} row {number}")


def _in_folder(source: Source, folder: Path) -> list[Path]:
    """The files of a source in its folder: named by split, sharded, or the only one there is."""
    if not folder.is_dir():
        return []
    for inner in (folder, folder / "data", *([folder / source.config] if source.config else [])):
        for pattern in (f"{source.split}.jsonl", f"{source.split}.parquet", f"{source.split}-*.parquet"):
            if found := sorted(inner.glob(pattern)):
                return found
        if found := _existing([inner / name for name in source.files]):
            return found
    return []


def _existing(files: Iterable[Path]) -> list[Path]:
    return [file for file in files if file.is_file()]


def _missing(source: Source, path: Path) -> list[Path]:
    wanted = ", ".join([f"{source.split}.jsonl", f"{source.split}.parquet", *source.files])
    raise InputError(
        f"{path} holds no {source.split} split of {source.hub}: "
        f"expected {wanted}, in it or in its folder {' or '.join(source.folders)}."
    )


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a truth value", type(None): "nothing"}
    return names.get(type(value), f"a {type(value).__name__}")


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
