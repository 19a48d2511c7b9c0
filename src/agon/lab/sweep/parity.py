"""Whether the cells that are compared have one budget: problems, passes, rollouts a problem, tokens a rollout.

Every method makes `num_generations` rollouts of a problem (N drafts and N challenges, or 2N attempts of one policy), so
a difference comes from an override.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agon.errors import InputError
from agon.lab.sweep.asked import Sweep
from agon.lab.sweep.cells import options_of
from agon.planning.recipe_plan import training_problems
from agon.reports.tables import Table
from agon.runs.sweep_folder import Cell
from agon.tasks import load_task
from agon.tasks.load import split_path
from agon.train.option_table import defaults


@dataclass(frozen=True)
class Budget:
    """What a cell's training may use; None where only the data could tell. `steps` are those of one process."""

    task: str
    problems: int | None
    passes: float | None
    rollouts: int
    cap: int
    steps: int | None

    @property
    def all_rollouts(self) -> int | None:
        if self.problems is None or self.passes is None:
            return None
        return round(self.problems * self.passes) * self.rollouts


COMPARED = {
    "task": "the task",
    "problems": "problems",
    "passes": "passes",
    "rollouts": "rollouts a problem",
    "cap": "the token cap",
    "steps": "steps",
}


def budget(options: Mapping[str, Any]) -> Budget:
    """The budget of a training with these options."""
    o = {**defaults(), **options}
    task = str(o["task"])
    problems = _problems(task, o["task_path"], int(o["task_seed"]))
    per_step = o["per_device_train_batch_size"] * o["gradient_accumulation_steps"] / o["num_generations"]
    passes: float | None = float(o["num_train_epochs"])
    steps = None if problems is None else max(1, int(problems * float(o["num_train_epochs"]) / per_step))
    if o["max_steps"] > 0:
        steps = int(o["max_steps"])
        passes = None if problems is None else round(steps * per_step / problems, 3)
    return Budget(
        task=",".join([task, *(f"{name}={o[name]}" for name in ("task_path", "task_seed") if o[name])]),
        problems=problems,
        passes=passes,
        rollouts=int(o["num_generations"]),
        cap=int(o["max_completion_length"]),
        steps=steps,
    )


@cache
def _problems(task: str, path: str | None, seed: int) -> int | None:
    """How many problems a task trains on, if that is known without the Hub and without code of somebody's own."""
    with suppress(InputError, KeyError):
        return training_problems(task)
    with suppress(InputError, OSError):
        if Path(os.path.expanduser(split_path(task)[0])).exists():
            return len(load_task(task, path=path, seed=seed).problems("train"))
    return None


def budgets(sweep: Sweep, cells: Sequence[Cell]) -> dict[str, dict[str, Budget]]:
    """The budget of every trained cell, by group and name."""
    found: dict[str, dict[str, Budget]] = {group.name: {} for group in sweep.groups}
    for cell in cells:
        if cell.method is not None:
            found[cell.group][cell.name] = budget(options_of(sweep, cell))
    return found


def differences(found: Mapping[str, Mapping[str, Budget]]) -> Iterator[str]:
    """A sentence for every figure in which the cells of one group differ."""
    for group, cells in found.items():
        for name, shown in COMPARED.items():
            values: dict[Any, list[str]] = {}
            for cell, each in cells.items():
                values.setdefault(getattr(each, name), []).append(cell)
            if len(values) > 1:
                said = ", ".join(
                    f"{_figure(value)} in {_few(names)}"
                    for value, names in sorted(values.items(), key=lambda item: str(item[0]))
                )
                yield f"The budgets of '{group}' differ in {shown}: {said}."


def parity_table(found: Mapping[str, Mapping[str, Budget]]) -> Table:
    """One row for the cells of a group that have one budget."""
    rows = []
    for group, cells in found.items():
        same: dict[Budget, list[str]] = {}
        for cell, each in cells.items():
            same.setdefault(each, []).append(cell)
        for each, names in same.items():
            figures = (each.problems, each.passes, each.rollouts, each.cap, each.steps, each.all_rollouts)
            rows.append(
                (group, f"{len(names)} cells" if len(names) > 1 else names[0], *map(_figure, figures))
            )
    head = ("group", "cells", "problems", "passes", "rollouts each", "token cap", "steps", "rollouts in all")
    notes = ["?: only the data can tell."] if any("?" in row for row in rows) else []
    return Table("Budget of the cells", head, tuple(rows), tuple(notes))


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _figure(value: Any) -> str:
    if value is None:
        return "?"
    return (
        f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    )
