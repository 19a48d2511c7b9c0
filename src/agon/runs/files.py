"""Files that survive a kill: each is either the old one or the new one, and lines are read whole or not at all."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agon.errors import InputError


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step, making its folder if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.replace(path)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")


SIGNED = "# sha256 of the lines above: "


def signed(text: str) -> str:
    """A text of lines with a last one that shows whether a disk has changed the others."""
    return f"{text}{SIGNED}{hashlib.sha256(text.encode()).hexdigest()}\n"


def is_signed(text: str) -> bool:
    """Whether a text is as it was signed; one that never was is taken as it is."""
    lines, mark, digest = text.rpartition(SIGNED)
    return not mark or hashlib.sha256(lines.encode()).hexdigest() == digest.strip()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is no file."""
    if not path.exists():
        return {}
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
