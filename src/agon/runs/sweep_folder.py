"""A sweep: one folder with the runs of its cells and where each of them is.

    sweep.yaml           the sweep as it was asked for, and its cells in their order
    GROUP.recipe.yaml    the options that the cells of a group share, as they were when the sweep began
    NAME/                the run of a cell, or the evaluations of the untrained model
    NAME.state.json      the stage it is in and, once it has failed, the sentence that says why
    NAME.log             what its stages wrote to standard error
    NAME.STAGE.out       what one of them wrote to standard output

The cells' runs are ordinary ones: whatever reads a run reads them.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from agon.errors import InputError
from agon.runs.files import read_json, write_json, write_text
from agon.runs.folder import Run

SWEEP = "sweep.yaml"
NAME = re.compile(r"\w[\w.+-]*")  # of a sweep, a group or a cell
WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"


@dataclass(frozen=True)
class Cell:
    """One run of a sweep; without a method it is the untrained model, which is only evaluated.

    `group` names the cells that are compared with each other (one recipe at one budget); `options` are the options of
    `agon train` in which it differs from its group's recipe, method and seed included.
    """

    name: str
    group: str
    method: str | None
    seed: int | None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CellState:
    """Where a cell is: its state, the stage it is in or failed in, and why it failed.

    `spent` are the seconds that earlier attempts have spent in the stage, `since` is when the present one began;
    `job` is its number in the queue of a cluster.
    """

    state: str = WAITING
    stage: str = ""
    error: str = ""
    spent: float = 0.0
    since: float = 0.0
    job: str = ""


def is_sweep(folder: str | Path) -> bool:
    """Whether a folder holds a sweep."""
    return (Path(folder) / SWEEP).is_file()


class SweepFolder:
    """The folder of one sweep: the only reader and writer of its files."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def read_asked(self) -> dict[str, Any]:
        """The sweep as it was asked for."""
        return dict(self._read()["asked"])

    def cells(self) -> list[Cell]:
        """The cells in their order; their names are names of files in this folder, and of no other."""
        entries = self._read()["cells"]
        try:
            cells = [Cell(**entry) for entry in entries]
            fine = all(NAME.fullmatch(cell.name) and NAME.fullmatch(cell.group) for cell in cells)
        except TypeError:
            fine = False
        if not fine or not all(isinstance(cell.options, dict) for cell in cells):
            raise InputError(f"The cells in {self.folder / SWEEP} are not those of a sweep: restore it.")
        return cells

    def write(self, asked: dict[str, Any], cells: Sequence[Cell]) -> None:
        content = {"asked": asked, "cells": [asdict(cell) for cell in cells]}
        write_text(self.folder / SWEEP, yaml.safe_dump(content, sort_keys=False))

    def run(self, cell: Cell) -> Run:
        return Run(self.folder / cell.name)

    def state(self, cell: Cell) -> CellState:
        path = self._state_file(cell)
        known, found = asdict(CellState()), read_json(path)
        for name, value in found.items():
            wanted = (int, float) if name in ("spent", "since") else str
            if name not in known or not isinstance(value, wanted):
                raise InputError(f"{path} is not the state of a cell: remove it.")
        return CellState(**found)

    def write_state(self, cell: Cell, state: CellState) -> None:
        write_json(self._state_file(cell), asdict(state))

    def recipe(self, group: str) -> Path:
        """The options that the cells of a group share, as a recipe."""
        return self.folder / f"{group}.recipe.yaml"

    def read_recipe(self, group: str) -> dict[str, Any]:
        """The same; empty before the sweep has begun."""
        path = self.recipe(group)
        try:
            found = yaml.safe_load(path.read_text("utf-8")) if path.exists() else {}
        except (OSError, ValueError, yaml.YAMLError):
            found = None
        if not isinstance(found, dict):
            raise InputError(f"{path} is not a recipe: restore it, or begin another sweep.")
        return found

    def write_recipe(self, group: str, options: dict[str, Any]) -> None:
        write_text(self.recipe(group), yaml.safe_dump(options, sort_keys=False, allow_unicode=True))

    def lock(self, cell: Cell) -> Path:
        """Whoever works on a cell owns this folder (`agon.runs.lock`), on whichever machine."""
        return self.folder / ".cells" / cell.name

    def files(self, cell: Cell) -> list[Path]:
        """All that there is of a cell."""
        named = [self.folder / cell.name, self._state_file(cell), self.log(cell)]
        return [*(path for path in named if path.exists()), *sorted(self.folder.glob(f"{cell.name}.*.out"))]

    def log(self, cell: Cell) -> Path:
        return self.folder / f"{cell.name}.log"

    def output(self, cell: Cell, stage: str) -> Path:
        return self.folder / f"{cell.name}.{stage}.out"

    def _state_file(self, cell: Cell) -> Path:
        return self.folder / f"{cell.name}.state.json"

    def _read(self) -> dict[str, Any]:
        path = self.folder / SWEEP
        try:
            found = yaml.safe_load(path.read_text("utf-8"))
        except (OSError, ValueError, yaml.YAMLError):
            found = None
        asked, cells = (found.get("asked"), found.get("cells")) if isinstance(found, dict) else (None, None)
        if not isinstance(asked, dict) or not isinstance(cells, list):
            raise InputError(f"'{self.folder}' is not a sweep: it has no {SWEEP} that can be read.")
        return {"asked": asked, "cells": cells}
