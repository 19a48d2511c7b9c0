"""Published datasets: read from the Hub by name or id, or from a local copy of their files.

The path of a local copy may be the data file itself, the dataset's folder, a clone of its Hub
repository, or a folder that holds several datasets' folders.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agon.errors import InputError
from agon.tasks.rows import SUFFIXES, Row, first_line, read_file

_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
# How people name the split that is held out beside the test split.
SPLIT_NAMES = {"valid": "validation", "val": "validation", "dev": "validation", "eval": "validation"}


@dataclass(frozen=True)
class Source:
    """One split of one dataset: its name on the Hub, and the names its files have in a local copy.

    `columns` are those that a problem is made from; `files` are extra file names to look for.
    """

    hub: str
    split: str
    columns: tuple[str, ...]
    folders: tuple[str, ...]
    config: str | None = None
    files: tuple[str, ...] = ()


def read_source(source: Source, path: str | None, by_folder_name: bool = False) -> list[Row]:
    """The rows of a source: from the Hub, or from the files that a local path holds for it.

    `by_folder_name` looks only for a folder of the source's own name, in the path or next to it:
    an evaluation set is found that way when the path points at a training set.
    """
    if path is None:
        return list(_from_hub(source))
    files = find_files(source, Path(os.path.expanduser(path)), by_folder_name)
    return [row for file in files for row in read_file(file)]


def find_files(source: Source, path: Path, by_folder_name: bool = False) -> list[Path]:
    """The files of a source under a path."""
    if not path.exists():
        raise InputError(f"There is no file or folder {path}.")
    if path.is_file() and not by_folder_name and source.split in ("train", "test"):
        # The training split is the file itself; the test split is the file beside it that is named "test"
        # where this one is named "train", or the file itself if "train" is not in its name.
        named = path.with_name(path.name.replace("train", source.split))
        if source.split == "train" or path.name == named.name:
            return [path]
        return _existing([named]) or _missing(source, path)
    root = path if path.is_dir() else path.parent
    folders = [root / folder for folder in source.folders]
    if by_folder_name:
        folders += [root.resolve().parent / folder for folder in source.folders]
    else:
        folders.append(root)
    for folder in folders:
        if found := _in_folder(source, folder):
            return found
    return _missing(source, path)


def is_hub_id(name: str) -> bool:
    """Whether a name can only be that of a dataset on the Hub: `owner/name`, and nothing here is called so."""
    return (
        _ID.fullmatch(name) is not None
        and not name.endswith(SUFFIXES)
        and not Path(name.split("/")[0]).exists()
    )


def read_hub(name: str, config: str | None = None, revision: str | None = None) -> dict[str, list[Row]]:
    """The rows of a dataset by split; a dataset with one split has it under the empty name."""
    import datasets

    try:
        tables = datasets.load_dataset(name, config, revision=revision)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"There is no file or folder {name} here, and the Hub did not give a dataset of that name "
            f"({first_line(error)})."
        ) from error
    found = {
        SPLIT_NAMES.get(split, split): [
            Row(fields, f"{name} {split} row {number}") for number, fields in enumerate(table, start=1)
        ]
        for split, table in tables.items()
    }
    return {"": next(iter(found.values()))} if len(found) == 1 else found


def _from_hub(source: Source) -> Iterator[Row]:
    import datasets

    name = source.hub + (f" ({source.config})" if source.config else "")
    try:
        table = datasets.load_dataset(source.hub, source.config, split=source.split)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"The Hub did not give {name}, split {source.split} ({first_line(error)}); "
            "check the connection, or pass the path of a local copy."
        ) from error
    wanted = [column for column in source.columns if column in table.column_names]
    for number, fields in enumerate(table.select_columns(wanted), start=1):
        yield Row(fields, f"{source.hub} {source.split} row {number}")


def _in_folder(source: Source, folder: Path) -> list[Path]:
    """The files of a source in a folder: named by split, in shards, or under a name of the source's own."""
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
