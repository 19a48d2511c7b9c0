"""A sweep from its first check to its last cell, wherever it runs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agon.errors import InputError, unknown
from agon.lab.sweep.asked import Sweep
from agon.lab.sweep.cells import check, expand, refuse_another_sweep
from agon.lab.sweep.parity import Budget, budgets, differences
from agon.lab.sweep.stages import CellJob, job_for
from agon.runs.lock import owned
from agon.runs.sweep_folder import FAILED, Cell, CellState, SweepFolder

PLACES = ("local", "slurm", "ray")


@dataclass(frozen=True)
class Plan:
    """A checked sweep and where it goes."""

    sweep: Sweep
    folder: SweepFolder
    cells: list[Cell]
    others: list[Cell]  # of the folder, not asked for this time
    budgets: dict[str, dict[str, Budget]]
    on: str = "local"
    trust_run_code: bool = False
    warnings: list[str] = field(default_factory=list)
    only: tuple[str, ...] = ()  # names of cells; none: all of them

    @property
    def chosen(self) -> list[Cell]:
        """The cells that are run this time."""
        return [cell for cell in self.cells if not self.only or cell.name in self.only]

    def jobs(self) -> list[CellJob]:
        return [job_for(self.sweep, self.folder, cell, self.trust_run_code) for cell in self.chosen]

    def unfinished(self) -> list[CellJob]:
        """The cells of which a stage is left; a folder that was removed has all of them left."""
        return [
            job for job in self.jobs() if {stage for stage, _ in job.stages} - job.run.read_times().keys()
        ]


def plan(
    sweep: Sweep,
    output: Path | None = None,
    on: str = "local",
    strict: bool = False,
    trust_run_code: bool = False,
    only: Sequence[str] = (),
) -> Plan:
    """Check all that can be checked before anything starts; nothing is written."""
    if on not in PLACES:
        raise unknown("place for a sweep", on, PLACES)
    cells = expand(sweep)
    names = [cell.name for cell in cells]
    for name in only:
        if name not in names:
            raise unknown("cell of the sweep", name, names)
    check(sweep, cells, trust_run_code, here=on == "local")
    folder = SweepFolder(output or Path("sweeps") / sweep.name)
    others = refuse_another_sweep(folder, sweep, cells)
    found = budgets(sweep, cells)
    warnings = list(differences(found))
    if strict and warnings:
        raise InputError(f"{warnings[0]} Without --strict it is a warning.")
    return Plan(sweep, folder, cells, others, found, on, trust_run_code, warnings, tuple(only))


def write_plan(made: Plan) -> None:
    """Write the sweep into its folder: what was asked, its cells, and the options that a group shares."""
    for group in made.sweep.groups:
        if not made.folder.read_recipe(group.name):
            made.folder.write_recipe(group.name, group.options)
    made.folder.write(asked_of(made.sweep), [*made.others, *made.cells])


def asked_of(sweep: Sweep) -> dict[str, Any]:
    """A sweep as plain values, for its file; the options of groups are in the files beside it."""
    asked = asdict(sweep)
    for group in asked["groups"]:
        del group["options"]
    return _plain(asked)


def carry_out(
    made: Plan, view: Any, parallel: int | None = None, stagger: float | None = None
) -> list[CellState]:
    """Run every cell that is not finished, here or on Ray; how those ended.

    `view` is a `SweepView` of the same cells, entered.
    """
    states: list[CellState] = []

    def ended(job: CellJob, state: CellState) -> None:
        if state.state == FAILED and not state.stage:
            job.sweep.write_state(job.cell, state)
        states.append(state)
        view.ended(job.cell, state)

    jobs = made.unfinished()
    for job in jobs:
        if job.sweep.state(job.cell).state == FAILED:
            job.sweep.write_state(job.cell, CellState())  # it is tried again
    if made.on == "ray":
        from agon.lab.sweep.on_ray import run_on_ray

        run_on_ray(jobs, ended, view.tick, made.sweep.places.get("ray", {}), parallel)
    else:
        from agon.lab.sweep.local import run_here

        run_here(jobs, ended, view.tick, parallel, stagger)
    return states


def queue(made: Plan, parallel: int | None = None) -> Sequence[str]:
    """Submit every cell that is not finished to Slurm; the names of those that were not in its queue yet."""
    from agon.lab.sweep.slurm import not_queued, submit

    jobs = not_queued(made.unfinished())
    if jobs:
        submit(jobs, made.sweep.places.get("slurm", {}), made.sweep.name, parallel)
    return [job.cell.name for job in jobs]


def own(made: Plan) -> Any:
    """One owner per sweep folder."""
    return owned(made.folder.folder, "sweep")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
