"""How far a sweep is: one row for every cell, and when it may end."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agon.errors import InputError
from agon.lab.sweep.parity import budget
from agon.lab.sweep.stages import TRAIN
from agon.reports.tables import Table, percent
from agon.runs.lock import has_owner
from agon.runs.sweep_folder import DONE, FAILED, RUNNING, WAITING, Cell, SweepFolder

LAST = 4  # steps whose accuracy is shown
# What a cell shows that is in the stage `train`, has trained, and evaluates on its engine.
EVALUATION = "evaluation"


@dataclass(frozen=True)
class Row:
    """Where one cell is."""

    cell: str
    group: str
    method: str | None
    seed: int | None
    state: str
    stage: str
    step: int
    steps: int | None
    right: float | None  # of the last steps
    pace: float | None  # seconds of each of them
    seconds: float
    times: dict[str, float]
    error: str
    job: str

    @property
    def where(self) -> str:
        return (
            self.state if self.state in (DONE, WAITING) or not self.stage else f"{self.state} in {self.stage}"
        )


def steps_of(folder: SweepFolder, cell: Cell) -> int | None:
    """How many steps a cell has, if its data is known and one process trains it."""
    recipe = folder.read_recipe(cell.group) if cell.method else {}
    return budget({**recipe, **cell.options}).steps if recipe else None


def row_of(folder: SweepFolder, cell: Cell, steps: int | None = None) -> Row:
    """Where a cell is, by what its run and its state say; `steps` if they are known."""
    run, state = folder.run(cell), folder.state(cell)
    try:
        times = run.read_times()
        lines = [line for line in run.read_metrics() if "loss" in line][-LAST:]
        trained = bool(run.read_summary().get("finished"))
        steps = steps_of(folder, cell) if steps is None else steps
    except InputError as error:
        times, lines, trained = {}, [], False
        state = type(state)(FAILED, state.stage, str(error))
    right = [line.get("challenge/correct", line.get("draft/correct")) for line in lines]
    known = [value for value in right if value is not None]
    paces = [line["time/step"] for line in lines if "time/step" in line]
    known_state = state.state
    # A folder that was removed is made again; nobody works on a cell whose sweep was killed.
    if (known_state == DONE and not run.folder.exists()) or (
        known_state == RUNNING and not has_owner(folder.lock(cell))
    ):
        known_state = WAITING
    stage = state.stage if known_state != DONE else ""
    if (known_state, stage) == (RUNNING, TRAIN) and trained and run.evaluations.exists():
        stage = EVALUATION
    going = time.time() - state.since if known_state == RUNNING and state.since else 0.0
    pending = 0.0 if state.stage in times else state.spent + going
    return Row(
        cell=cell.name,
        group=cell.group,
        method=cell.method,
        seed=cell.seed,
        state=known_state,
        stage=stage,
        step=int(lines[-1]["step"]) if lines else 0,
        steps=steps,
        right=sum(known) / len(known) if known else None,
        pace=round(sum(paces) / len(paces), 1) if paces else None,
        seconds=round(sum(times.values()) + pending, 1),
        times=times,
        error=state.error,
        job=state.job,
    )


def rows_of(folder: SweepFolder, cells: Sequence[Cell] | None = None) -> list[Row]:
    return [row_of(folder, cell) for cell in (folder.cells() if cells is None else cells)]


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]


def seconds_left(rows: Sequence[Row], parallel: int) -> float | None:
    """An estimate from the steps of the cells that train and from those that are done; None before either."""
    done = [row for row in rows if row.state == DONE and row.seconds > 0]
    trained = [row.seconds - row.times[TRAIN] for row in done if TRAIN in row.times]
    evaluation = sum(trained) / len(trained) if trained else 0.0
    training = {
        row.cell: (row.steps - row.step) * row.pace + evaluation
        for row in rows
        if row.state == RUNNING and row.stage in (TRAIN, EVALUATION) and row.steps and row.pace is not None
    }

    def of(row: Row) -> float | None:
        if row.cell in training:
            return training[row.cell]
        # The untrained model is only evaluated: it says nothing about the others.
        like = [each for each in done if each.method == row.method] or [
            each for each in done if each.method and row.method
        ]
        wholes = [each.seconds for each in like] or [
            each.seconds + training[each.cell] for each in rows if each.cell in training
        ]
        return max(0.0, sum(wholes) / len(wholes) - row.seconds) if wholes else None

    left = [of(row) for row in rows if row.state not in (DONE, FAILED)]
    known = [each for each in left if each is not None]
    if len(known) < len(left):
        return None
    # Cells end one after another: no less than the longest of them, and no less than all shared out.
    return max(sum(known) / max(1, parallel), max(known, default=0.0))


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "…"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def counted(rows: Sequence[Row]) -> str:
    """How many cells are in each state, in words."""
    states = [row.state for row in rows]
    named = [(state, states.count(state)) for state in (DONE, RUNNING, WAITING, FAILED)]
    return f"{len(rows)} cells: " + ", ".join(f"{count} {state}" for state, count in named if count)


def status_table(rows: Sequence[Row], title: str) -> Table:
    """The rows as a table, the errors below it."""
    shown = tuple(
        (row.cell, row.where, step_of(row), percent(row.right), duration(row.seconds)) for row in rows
    )
    errors = [f"{row.cell}: {row.error}" for row in rows if row.error]
    notes = [f"{counted(rows)}. right: of the last {LAST} steps, in percent.", *errors]
    return Table(title, ("cell", "state", "step", "right", "time"), shown, tuple(notes))


def step_of(row: Row) -> str:
    return (f"{row.step}/{row.steps}" if row.steps else str(row.step)) if row.step else ""
