"""The index of one source: a thin row for each duel, built once, kept in a cache folder and extended as a run grows.

    meta.json        which files were read how far, and the names that rows refer to by number
    rows.bin         the rows (`agon.view.rows`)
    problems.jsonl   the problems, in the order of their numbers

The files of a run may grow, be cut back by a resume, or be deleted beyond a size limit. A file that is
shorter than what was read of it, or whose last line read is another now, is read again; rows of a file
that is gone are dropped. One process keeps the cache; a second one builds its own in memory.
"""

import fcntl
import hashlib
import json
import os
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from agon.errors import InputError
from agon.runs.places import bytes_at, lines_from
from agon.view.rows import ROW, Names, fields
from agon.view.sources import BROKEN, Seen, Source

VERSION = 1
BATCH = 500  # duels that are entered at once, so that a reader never waits long
TITLE = 160  # characters of a problem's prompt
SAVE_EVERY = 5.0  # seconds


@dataclass(frozen=True)
class File:
    """How far a file was read. `last` is where its last whole line began, `check` that line's sum."""

    name: str
    read: int = 0
    last: int = 0
    check: int = 0


@dataclass(frozen=True)
class Snapshot:
    """The rows at one moment. `generation` changes when rows were dropped, so that numbers mean others."""

    rows: np.ndarray
    generation: int
    unread: int  # bytes that are still to be read
    unreadable: int


def cache_folder(source: Source) -> Path:
    """Where a source's index is kept; the folder may be deleted at any time."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "agon" / "view" / hashlib.sha256(str(source.folder).encode()).hexdigest()[:24]


class Index:
    """The rows of one source. `refresh` reads what is new; everything else only looks at a snapshot."""

    def __init__(self, source: Source, cache: Path | None = None) -> None:
        self.source = source
        self.problems: list[tuple[str, str]] = []  # id and the beginning of the prompt
        self.policies, self.plays = Names(), Names()
        self._numbers: dict[str, int] = {}
        self._files: list[File] = []
        self._rows = np.zeros(1024, ROW)
        self._count = self._generation = self._unread = self._unreadable = 0
        self._ordinals: dict[int, int] = {}
        self._stored = (0, 0)  # rows and problems that are on disk
        self._saved_at = 0.0
        self._changing, self._refreshing = threading.Lock(), threading.Lock()
        self._lock_file: IO[bytes] | None = None
        self._where: dict[str, Path] = {}
        self._cache = self._claim(cache)
        # A packed evaluation is unpacked here where there is no cache to keep.
        self._temporary = None if self._cache else tempfile.TemporaryDirectory(prefix="agon-view-")
        self._scratch = self._cache or Path(self._temporary.name if self._temporary else ".")
        if self._cache:
            self._load(self._cache)

    # Reading

    def snapshot(self) -> Snapshot:
        with self._changing:
            return Snapshot(self._rows[: self._count], self._generation, self._unread, self._unreadable)

    def number_of(self, problem: str) -> int | None:
        return self._numbers.get(problem)

    def path(self, file: int) -> Path:
        """The file that a row's number refers to."""
        return self._where[self._files[file].name]

    def seen(self, row: np.void) -> Seen:
        """The duel of a row, read from its line."""
        try:
            line = bytes_at(self.path(int(row["file"])), int(row["offset"]), int(row["length"]))
            return self.source.read(line)[int(row["sub"])]
        except (*BROKEN, IndexError) as error:
            raise InputError(
                "This duel is no longer in the run's files: it was cut off or deleted."
            ) from error

    # Building

    def refresh(self) -> None:
        """Read what is new. Another thread that calls it meanwhile goes on without waiting."""
        if not self._refreshing.acquire(blocking=False):
            return
        try:
            paths = {path.name: path for path in self.source.files(self._scratch)}
            self._where = {**self._where, **paths}
            self._drop_what_is_gone(paths)
            self._unread = sum(
                max(0, path.stat().st_size - self._files[self._file(name)].read)
                for name, path in paths.items()
            )
            for name, path in paths.items():
                self._read_on(self._file(name), path)
            self._save()
        except FileNotFoundError:
            pass  # a file was deleted while we looked; the next refresh sees it
        finally:
            self._refreshing.release()

    def _file(self, name: str) -> int:
        """The number of a file, a new one if it is new."""
        for number, file in enumerate(self._files):
            if file.name == name:
                return number
        self._files.append(File(name))
        return len(self._files) - 1

    def _drop_what_is_gone(self, paths: dict[str, Path]) -> None:
        for number, file in enumerate(self._files):
            path = paths.get(file.name)
            if not file.read or (path is not None and self._is_as_read(file, path)):
                continue
            with self._changing:
                kept = self._rows[: self._count]
                kept = kept[kept["file"] != number]
                self._rows, self._count = kept.copy(), len(kept)
                self._generation += 1
                self._stored = (0, 0)
                self._ordinals = _counts(kept["step"])
            self._files[number] = File(file.name)

    @staticmethod
    def _is_as_read(file: File, path: Path) -> bool:
        if path.stat().st_size < file.read:
            return False
        return zlib.crc32(bytes_at(path, file.last, file.read - file.last)) == file.check

    def _read_on(self, number: int, path: Path) -> None:
        file = self._files[number]
        batch: list[tuple[int, int, int, Seen]] = []
        upto = file
        for offset, line in lines_from(path, file.read):
            try:
                found = self.source.read(line)
                batch += [(offset, len(line), sub, seen) for sub, seen in enumerate(found)]
            except BROKEN:
                self._unreadable += 1
            upto = File(file.name, offset + len(line), offset, zlib.crc32(line))
            self._unread = max(0, self._unread - len(line))
            if len(batch) >= BATCH:
                self._enter(number, batch)
                self._files[number], batch = upto, []
                if time.monotonic() - self._saved_at > SAVE_EVERY:
                    self._save()
        self._enter(number, batch)
        self._files[number] = upto

    def _enter(self, number: int, batch: list[tuple[int, int, int, Seen]]) -> None:
        if not batch:
            return
        rows = np.zeros(len(batch), ROW)
        entered = 0
        for offset, length, sub, seen in batch:
            try:
                values = fields(seen, self.source.dialect)
                duel = seen.duel
                values |= {
                    "offset": offset,
                    "length": length,
                    "file": number,
                    "sub": sub,
                    "problem": self._problem(duel.problem.id, duel.problem.prompt),
                    "drafter": self.policies.number(duel.draft.rollout.policy),
                    "challenger": self.policies.number(duel.challenge.rollout.policy)
                    if duel.challenge
                    else 0,
                    "play": self.plays.number(seen.play),
                    "ordinal": self._ordinals.get(int(values["step"]), 0),
                }
                for name, value in values.items():
                    rows[name][entered] = value
            except BROKEN:
                self._unreadable += 1
                continue
            self._ordinals[int(values["step"])] = int(values["ordinal"]) + 1
            entered += 1
        self._append(rows[:entered])

    def _append(self, rows: np.ndarray) -> None:
        with self._changing:
            wanted = self._count + len(rows)
            if wanted > len(self._rows):
                larger = np.zeros(max(wanted, len(self._rows) * 5 // 4), ROW)
                larger[: self._count] = self._rows[: self._count]
                self._rows = larger
            self._rows[self._count : wanted] = rows
            self._count = wanted

    def _problem(self, name: str, prompt: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[str(name)] = len(self.problems)
            self.problems.append((name, " ".join(prompt[: 4 * TITLE].split())[:TITLE]))
        return number

    # Keeping

    def _claim(self, cache: Path | None) -> Path | None:
        """The cache folder, if it can be written and no other process keeps it."""
        if cache is None:
            return None
        try:
            cache.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock_file = (cache / "lock").open("wb")
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return None
        return cache

    def _load(self, cache: Path) -> None:
        try:
            meta = json.loads((cache / "meta.json").read_text("utf-8"))
            rows = np.fromfile(cache / "rows.bin", ROW, count=int(meta["rows"]))
            problems = list(_problems(cache / "problems.jsonl", int(meta["problems"])))
            files = [File(**file) for file in meta["files"]]
            whole = len(rows) == meta["rows"] and len(problems) == meta["problems"]
            known = not len(rows) or (
                rows["problem"].max() < len(problems) and rows["file"].max() < len(files)
            )
            if meta["version"] != VERSION or not whole or not known:
                return
            policies, plays = Names(list(meta["policies"])), Names(list(meta["plays"]))
        except (OSError, *BROKEN):
            return  # a cache of another version, or one that was cut off: build it again
        self._rows, self._count, self._files = rows, len(rows), files
        self.problems, self._stored = problems, (len(rows), len(problems))
        self._numbers = {name: number for number, (name, _) in enumerate(problems)}
        self.policies, self.plays = policies, plays
        self._unreadable, self._generation = int(meta["unreadable"]), int(meta["generation"])
        self._ordinals = _counts(rows["step"])

    def _save(self) -> None:
        self._saved_at = time.monotonic()
        if self._cache is None:
            return
        rows, problems = self._stored
        if (rows, problems) == (self._count, len(self.problems)) and rows:
            return
        meta: dict[str, Any] = {
            "version": VERSION,
            "rows": self._count,
            "problems": len(self.problems),
            "files": [asdict(file) for file in self._files],
            "policies": self.policies.names,
            "plays": self.plays.names,
            "unreadable": self._unreadable,
            "generation": self._generation,
        }
        try:
            _write_from(
                self._cache / "rows.bin", rows * ROW.itemsize, self._rows[rows : self._count].tobytes()
            )
            lines = "".join(json.dumps(problem) + "\n" for problem in self.problems[problems:])
            if problems:
                with (self._cache / "problems.jsonl").open("a", encoding="utf-8") as file:
                    file.write(lines)
            else:
                (self._cache / "problems.jsonl").write_text(lines, "utf-8")
            fresh = self._cache / "meta.json.new"
            fresh.write_text(json.dumps(meta), "utf-8")
            fresh.replace(self._cache / "meta.json")
        except OSError:
            self._cache = (
                None  # a full disk: the index goes on in memory (what was unpacked stays where it is)
            )
            return
        self._stored = (self._count, len(self.problems))


def _write_from(path: Path, offset: int, content: bytes) -> None:
    """Write content at an offset and cut off what stood behind it."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(offset)
        file.write(content)
        file.truncate()


def _problems(path: Path, count: int) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8") as file:
        for _, line in zip(range(count), file, strict=False):
            name, title = json.loads(line)
            yield str(name), str(title)


def _counts(steps: np.ndarray) -> dict[int, int]:
    found, counts = np.unique(steps, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))
