"""Problems as a run keeps them, where no name could bring them back: one JSON line each, a file per split.

A task made from a `Dataset` or an object in memory exists nowhere else. They are read back exactly, in
their order, so that the fingerprints of the splits stay the same.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from agon.errors import InputError
from agon.game.problem import Problem
from agon.tasks.splits import SPLITS
from agon.tasks.task import Task

STORED = "stored:"  # before the folder, as the name of such a task
ABOUT = "about.json"


def store(task: Task, folder: Path) -> None:
    """Write every split of a task, and what it is called."""
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier attempt, perhaps with other splits
    folder.mkdir(parents=True)
    about = {"name": task.name, "judge": task.judge, "options": dict(task.options), "notes": list(task.notes)}
    (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", "utf-8")
    for split, problems in task.splits.items():
        lines = "".join(json.dumps(problem.to_dict()) + "\n" for problem in problems)
        (folder / f"{split}.jsonl").write_text(lines, "utf-8")


def load_stored(folder: Path) -> Task:
    """The task that `store` wrote."""
    try:
        about: dict[str, Any] = json.loads((folder / ABOUT).read_text("utf-8"))
        splits = {
            split: [Problem.from_dict(json.loads(line)) for line in _lines(folder / f"{split}.jsonl")]
            for split in SPLITS
            if (folder / f"{split}.jsonl").is_file()
        }
        return Task(
            str(about["name"]), str(about["judge"]), splits, {}, dict(about["options"]), tuple(about["notes"])
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"The problems that a run keeps in '{folder}' cannot be read ({error!r})."
        ) from error


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text("utf-8").split("\n") if line]
