"""Lines by their place in a file: what is new since an offset, and the line at one.

For readers of files that grow while they are read. Nothing is written, nothing is held.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from agon.errors import InputError

BLOCK = 1 << 20
# A packed file is a committed record of a few megabytes; one that grows beyond this is no such thing.
MOST_UNPACKED = 4 << 30


def lines_from(path: Path, offset: int, longest: int = 256 << 20) -> Iterator[tuple[int, bytes]]:
    """The whole lines of a file from an offset on, each with its own offset; a cut-off last one is left out."""
    with path.open("rb") as file:
        file.seek(offset)
        while line := file.readline(longest):
            if not line.endswith(b"\n"):
                return
            yield offset, line
            offset += len(line)


def bytes_at(path: Path, offset: int, length: int) -> bytes:
    """A stretch of a file; shorter where the file has ended, empty where it is gone."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except FileNotFoundError:
        return b""


def unpack(packed: Path, target: Path) -> None:
    """Write what a gzip file holds, block by block."""
    fresh = target.with_name(target.name + ".new")
    written = 0
    try:
        with gzip.open(packed, "rb") as source, fresh.open("wb") as file:
            while block := source.read(BLOCK):
                written += len(block)
                if written > MOST_UNPACKED:
                    raise InputError(f"{packed} unpacks to more than {MOST_UNPACKED >> 30} GB: remove it.")
                file.write(block)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{packed} is not a whole gzip file ({error}); restore or remove it.") from error
    fresh.replace(target)
