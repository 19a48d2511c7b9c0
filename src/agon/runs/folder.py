"""A run: one folder with everything that training and evaluating it leave behind.

    config.yaml        the resolved configuration
    environment.json   versions, commit, hardware, seeds
    task.json          the task, its options and the fingerprint of each split
    metrics.jsonl      one line per logged step, one per validation
    duels/             every duel, one JSON line each, in files of 64 MB
    checkpoints/       whole checkpoints only
    adapters/A, B      the trained policies, plain PEFT folders with a model card
    summary.json       how the run ended
    evaluations/       one folder per task and split (`agon.runs.evaluations`)
    times.json         seconds of each stage, where a comparison was timed
    note.txt           what a reader of its figures must know, written by a person

Lines are written whole. On a resume, whatever is newer than the checkpoint is cut off, so that the
continued files have no gap and no line twice.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from agon.errors import InputError
from agon.runs.duel_log import DuelLog
from agon.runs.evaluations import EvaluationFolder, find_evaluations, folder_name
from agon.runs.files import keep_lines, read_json, whole_lines, write_json, write_text

CONFIG = "config.yaml"
# The files of a run that are small and say all about it but its weights, duels and evaluations.
RECORDS = (
    *(CONFIG, "task.json", "summary.json", "metrics.jsonl", "environment.json", "times.json"),
    "note.txt",
)
# The stages of a run that are timed, in their order.
STAGES = ("train", "validation", "test")


def is_run(folder: str | Path) -> bool:
    """Whether a folder holds a run."""
    return (Path(folder) / CONFIG).is_file()


class Run:
    """The folder of one run: the only reader and writer of its files."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.adapters = self.folder / "adapters"
        self.evaluations = self.folder / "evaluations"
        # Where a checkpoint is written before it is whole.
        self.staging = self.folder / "checkpoints" / "partial"
        self._duels: DuelLog | None = None

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    def duels(self, max_mb: int = 2048) -> DuelLog:
        """The run's duels, for writing or reading."""
        if self._duels is None:
            self._duels = DuelLog(self.folder / "duels", max_mb * 1024 * 1024)
        return self._duels

    # Records

    def read_config(self) -> dict[str, Any]:
        """The configuration the run was started with."""
        if not is_run(self.folder):
            raise InputError(f"'{self.folder}' is not a run: it has no {CONFIG}.")
        return dict(yaml.safe_load((self.folder / CONFIG).read_text()) or {})

    def read_task(self) -> dict[str, Any]:
        """The task the run was started on, with the fingerprints of its splits."""
        return read_json(self.folder / "task.json")

    def read_environment(self) -> dict[str, Any]:
        return read_json(self.folder / "environment.json")

    def read_summary(self) -> dict[str, Any]:
        """How the run ended; empty while it is going."""
        return read_json(self.folder / "summary.json")

    def read_times(self) -> dict[str, float]:
        """The seconds of each stage (`train`, `validation`, `test`), start of the process included."""
        return read_json(self.folder / "times.json")

    def read_note(self) -> str:
        path = self.folder / "note.txt"
        return " ".join(path.read_text().split()) if path.is_file() else ""

    def read_metrics(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in whole_lines(self.folder / "metrics.jsonl")]

    def write_config(self, config: Mapping[str, Any]) -> None:
        write_text(self.folder / CONFIG, yaml.safe_dump(dict(config), sort_keys=True))

    def write_task(self, task: Mapping[str, Any]) -> None:
        write_json(self.folder / "task.json", task)

    def write_environment(self, environment: Mapping[str, Any]) -> None:
        write_json(self.folder / "environment.json", environment)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        write_json(self.folder / "summary.json", summary)

    def write_times(self, times: Mapping[str, float]) -> None:
        write_json(self.folder / "times.json", times)

    def write_model_card(self, policy: str, card: str) -> None:
        write_text(self.adapters / policy / "README.md", card)

    def add_metrics(self, line: Mapping[str, Any]) -> None:
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def finished(self) -> bool:
        """Whether the run has made all its steps."""
        return bool(self.read_summary().get("finished"))

    # Evaluations

    def evaluation(self, task: str, split: str) -> EvaluationFolder:
        """The folder of one evaluation, whether it is there yet or not."""
        return EvaluationFolder(self.evaluations / folder_name(task, split))

    def evaluated(self, split: str) -> list[EvaluationFolder]:
        """The finished evaluations of a split, the one of the run's own task first."""
        own = folder_name(str(self.read_task().get("name", "")), split)
        return sorted(find_evaluations(self.evaluations, split), key=lambda found: found.folder.name != own)

    # Checkpoints and resuming

    def newest_checkpoint(self) -> str | None:
        """The newest whole checkpoint; none if the run was cut off before its first."""
        found = self._all_checkpoints()
        return str(found[-1]) if found else None

    def publish_checkpoint(self, step: int, limit: int | None) -> None:
        """Move a finished checkpoint into its place, then drop the oldest beyond `limit`."""
        place = self.staging.parent / f"checkpoint-{step}"
        shutil.rmtree(place, ignore_errors=True)
        (self.staging / place.name).rename(place)
        if limit:
            for old in self._all_checkpoints()[:-limit]:
                shutil.rmtree(old)

    def rewind(self, step: int) -> None:
        """Cut off what was recorded after the checkpoint of this step."""
        keep_lines(self.folder / "metrics.jsonl", lambda line: json.loads(line)["step"] <= step)
        self.duels().rewind(step)
        shutil.rmtree(self.staging, ignore_errors=True)

    def start_over(self) -> None:
        """Remove the records of an earlier attempt that never reached a checkpoint, and of no other."""
        if self._all_checkpoints() or self.read_summary():
            raise InputError(
                f"'{self.folder}' already holds a run: resume it, or choose another output_dir for a new one."
            )
        (self.folder / "metrics.jsonl").unlink(missing_ok=True)
        for folder in (self.folder / "duels", self.staging.parent):
            shutil.rmtree(folder, ignore_errors=True)
        self._duels = None

    def _all_checkpoints(self) -> list[Path]:
        found = self.staging.parent.glob("checkpoint-*")
        return sorted(found, key=lambda path: int(path.name.split("-")[1]))
