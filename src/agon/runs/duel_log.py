"""The duels of a run: JSON lines in numbered files, in the order they were played."""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from agon.errors import InputError
from agon.game.duel import Duel
from agon.runs.files import finite, keep_lines, whole_lines

FILE_BYTES = 64 * 1024 * 1024


class DuelLog:
    """Writes, reads and rewinds the duels of one run, within a limit on their size."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self._max_bytes = max_bytes

    def write(self, duels: Iterable[Duel]) -> None:
        """Append duels; beyond the size limit the oldest file but the first is deleted."""
        self.folder.mkdir(parents=True, exist_ok=True)
        files = self.files()
        if not files or files[-1].stat().st_size >= FILE_BYTES:
            number = int(files[-1].stem) + 1 if files else 0
            files.append(self.folder / f"{number:05d}.jsonl")
        with files[-1].open("a") as file:
            file.write("".join(_line(duel) + "\n" for duel in duels))
        while len(files) > 2 and sum(path.stat().st_size for path in files) > self._max_bytes:
            files.pop(1).unlink()

    def files(self) -> list[Path]:
        found = self.folder.glob("*.jsonl") if self.folder.is_dir() else ()
        return sorted(path for path in found if re.fullmatch("[0-9]+", path.stem))

    def __iter__(self) -> Iterator[Duel]:
        for path in self.files():
            for line in whole_lines(path):
                yield Duel.from_json(line)

    def last(self, count: int) -> list[Duel]:
        """The duels played last, at most so many, and none of an older file."""
        files = self.files()
        lines = deque(whole_lines(files[-1]) if files else (), maxlen=count)
        try:
            return [Duel.from_json(line) for line in lines]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{files[-1]} has a line that is no duel ({type(error).__name__}: {error}): restore it, or remove it."
            ) from error

    def rewind(self, step: int) -> None:
        """Drop the duels of this step and later ones, and a line that was cut off."""
        for path in self.files():
            keep_lines(path, lambda line: Duel.from_json(line).step < step)
            if path.stat().st_size == 0:
                path.unlink()


def _line(duel: Duel) -> str:
    """A duel as a line of JSON, which knows neither NaN nor the infinities."""
    line = duel.to_json()
    if "NaN" in line or "Infinity" in line:  # in a text, perhaps
        return json.dumps(finite(json.loads(line)), separators=(",", ":"), allow_nan=False)
    return line
