"""Files that survive a kill: each is either the old one or the new one, and lines are read whole or not at all.

What has to survive a power cut as well is flushed: `sync_file` for the content of a file, `sync_folder` for the
names in a folder, `sync_tree` for both. A file whose content is on the disk may still have no name there.
"""

import errno
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agon.errors import InputError


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step, making its folder if there is none."""
    if path.is_dir():
        raise InputError(f"{path} is a folder where a file is written: move it away.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(
            f"{path} cannot be written, as a file is where its folder would be: choose another place."
        ) from error
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    sync_file(fresh)
    fresh.replace(path)
    sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(finite(value), indent=2, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    """The value with None for every number that JSON has no word for: NaN and the infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return value


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk; some network file systems cannot be asked."""
    try:
        sync_file(path)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EACCES):
            raise


def sync_tree(folder: Path) -> None:
    """Wait until a folder with everything below it is on the disk; its own name is its parent's matter."""
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync_file(Path(place) / name)
        sync_folder(Path(place))


SIGNED = "# sha256 of the lines above: "


def signed(text: str) -> str:
    """A text of lines with a last one that shows whether a disk has changed the others."""
    return f"{text}{SIGNED}{hashlib.sha256(text.encode()).hexdigest()}\n"


def is_signed(text: str) -> bool:
    """Whether a text is as it was signed; one that never was is taken as it is."""
    lines, mark, digest = text.rpartition(SIGNED)
    return not mark or hashlib.sha256(lines.encode()).hexdigest() == digest.strip()


def refuse_odd(path: Path) -> None:
    """Refuse a pipe, which would be waited for, and a device, which has no end; reading a folder is an error anyway."""
    if path.exists() and not path.is_dir():
        refuse_unless_file(path)


def refuse_unless_file(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path} is no plain file: restore it, or remove it.")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is no file."""
    if not path.exists():
        return {}
    refuse_odd(path)
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a JSON file ({error}): restore it, or remove the folder.") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no object: restore it, or remove the folder.")
    return found


def whole_lines(path: Path) -> Iterator[str]:
    """The lines of a file; a last one that was cut off is left out."""
    if not path.exists():
        return
    refuse_odd(path)
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    yield line
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}): restore it, or remove it.") from error


def keep_lines(path: Path, wanted: Callable[[str], bool]) -> None:
    """Truncate a file before the first line that is not wanted or not whole."""
    if not path.exists():
        return
    kept = 0
    for line in whole_lines(path):
        if not wanted(line):
            break
        kept += len(line.encode())
    with path.open("r+b") as file:
        file.truncate(kept)
