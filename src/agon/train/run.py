"""A run: one folder with everything that a training run leaves behind.

    config.yaml        the resolved configuration
    environment.json   versions, commit, hardware, seeds
    task.json          the task, its options and the fingerprint of each split
    metrics.jsonl      one line per logged step, one per validation
    duels/             every duel, one JSON line each, in files of 64 MB
    checkpoints/       whole checkpoints only
    adapters/A, B      the trained policies, plain PEFT folders with a model card
    summary.json       how the run ended

Lines are written whole. On a resume, whatever is newer than the checkpoint is cut off, so that the
continued files have no gap and no line twice.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from agon.errors import InputError
from agon.game.duel import Duel

FILE_BYTES = 64 * 1024 * 1024


class Run:
    """The folder of one training run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config.yaml"
        self.environment = folder / "environment.json"
        self.task = folder / "task.json"
        self.metrics = folder / "metrics.jsonl"
        self.adapters = folder / "adapters"
        self.summary = folder / "summary.json"
        self.checkpoints = folder / "checkpoints"
        self.staging = self.checkpoints / "partial"
        self._duels: DuelLog | None = None

    def duels(self, max_mb: int = 2048) -> "DuelLog":
        """The run's duels, for writing or reading."""
        if self._duels is None:
            self._duels = DuelLog(self.folder / "duels", max_mb * 1024 * 1024)
        return self._duels

    def read_config(self) -> dict[str, Any]:
        """The configuration the run was started with."""
        if not self.config.is_file():
            raise InputError(f"'{self.folder}' is not a run: it has no config.yaml.")
        loaded = yaml.safe_load(self.config.read_text())
        return dict(loaded)

    def read_task(self) -> dict[str, Any]:
        """The task the run was started on, with the fingerprints of its splits."""
        return dict(json.loads(self.task.read_text()))

    def write_config(self, config: Mapping[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        _replace(self.config, yaml.safe_dump(dict(config), sort_keys=True))

    def write_json(self, path: Path, value: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        _replace(path, json.dumps(value, indent=2) + "\n")

    def add_metrics(self, line: Mapping[str, Any]) -> None:
        with self.metrics.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in _whole_lines(self.metrics)] if self.metrics.exists() else []

    def newest_checkpoint(self) -> str | None:
        """The newest whole checkpoint; none if the run was cut off before its first."""
        found = self._all_checkpoints()
        return str(found[-1]) if found else None

    def publish_checkpoint(self, step: int, limit: int | None) -> None:
        """Move a finished checkpoint into its place, then drop the oldest beyond `limit`."""
        place = self.checkpoints / f"checkpoint-{step}"
        shutil.rmtree(place, ignore_errors=True)
        (self.staging / place.name).rename(place)
        if limit:
            for old in self._all_checkpoints()[:-limit]:
                shutil.rmtree(old)

    def finished(self) -> bool:
        """Whether the run has made all its steps."""
        return self.summary.is_file() and bool(json.loads(self.summary.read_text())["finished"])

    def rewind(self, step: int) -> None:
        """Cut off what was recorded after the checkpoint of this step."""
        if self.metrics.exists():
            _keep_lines(self.metrics, lambda line: json.loads(line)["step"] <= step)
        self.duels().rewind(step)
        shutil.rmtree(self.staging, ignore_errors=True)

    def start_over(self) -> None:
        """Remove the records of an earlier attempt that never reached a checkpoint, and of no other."""
        if self._all_checkpoints() or self.summary.exists():
            raise InputError(
                f"'{self.folder}' already holds a run: resume it, or choose another output_dir for a new one."
            )
        self.metrics.unlink(missing_ok=True)
        for folder in (self.folder / "duels", self.checkpoints):
            shutil.rmtree(folder, ignore_errors=True)
        self._duels = None

    def _all_checkpoints(self) -> list[Path]:
        if not self.checkpoints.is_dir():
            return []
        found = [path for path in self.checkpoints.iterdir() if path.name.startswith("checkpoint-")]
        return sorted(found, key=lambda path: int(path.name.split("-")[1]))


class DuelLog:
    """Duels as JSON lines in numbered files, in the order they were played."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self._max_bytes = max_bytes

    def write(self, duels: Iterable[Duel]) -> None:
        """Append duels; beyond the size cap the oldest file but the first goes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        files = self.files()
        if not files or files[-1].stat().st_size >= FILE_BYTES:
            number = int(files[-1].stem) + 1 if files else 0
            files.append(self.folder / f"{number:05d}.jsonl")
        with files[-1].open("a") as file:
            file.write("".join(duel.to_json() + "\n" for duel in duels))
        while len(files) > 2 and sum(path.stat().st_size for path in files) > self._max_bytes:
            files.pop(1).unlink()

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.jsonl")) if self.folder.is_dir() else []

    def __iter__(self) -> Iterator[Duel]:
        for path in self.files():
            for line in _whole_lines(path):
                yield Duel.from_json(line)

    def rewind(self, step: int) -> None:
        """Drop the duels of this step and later ones, and a line that was cut off."""
        for path in self.files():
            _keep_lines(path, lambda line: Duel.from_json(line).step < step)
            if path.stat().st_size == 0:
                path.unlink()


def _whole_lines(path: Path) -> Iterator[str]:
    with path.open() as file:
        for line in file:
            if line.endswith("\n"):
                yield line


def _keep_lines(path: Path, wanted: Any) -> None:
    """Truncate a file before the first line that is not wanted or not whole."""
    kept = 0
    for line in _whole_lines(path):
        if not wanted(line):
            break
        kept += len(line.encode())
    with path.open("r+b") as file:
        file.truncate(kept)


def _replace(path: Path, text: str) -> None:
    """Write a file so that it is either the old one or the new one, never half."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.replace(path)
