"""From a sweep to its cells: their names, their options, and the runs that they ask for."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agon.errors import InputError
from agon.evaluate.request import EvaluationRequest
from agon.lab.sweep.asked import Group, Sweep
from agon.runs.sweep_folder import Cell, SweepFolder, is_sweep
from agon.runs.trust import part_wishes
from agon.train.recipes import Request, request_from

CONTROLS = "controls"


def expand(sweep: Sweep) -> list[Cell]:
    """The cells of a sweep, every method with the first seed before any with the second."""
    cells = [cell for group in sweep.groups for cell in _cells_of(group, sweep)]
    seen: dict[str, Cell] = {}
    for cell in cells:
        other = seen.setdefault(cell.name.casefold(), cell)
        if other is not cell:
            raise InputError(
                f"Two cells of the sweep would have one name, '{cell.name}': name a recipe otherwise."
            )
    return cells


def _cells_of(group: Group, sweep: Sweep) -> Iterator[Cell]:
    before = f"{group.name}-" if len(sweep.groups) > 1 else ""
    if group.controls:
        yield Cell(f"{before}{CONTROLS}", group.name, None, None)
    for seed in group.seeds:
        for method in group.methods:
            options = {"method": method, "seed": seed, **sweep.overrides.get(method, {})}
            # A method of one's own is module:object.
            name = re.sub(r"[^\w.+-]", "-", method)
            yield Cell(f"{before}{name}-s{seed}", group.name, method, seed, options)


def options_of(sweep: Sweep, cell: Cell) -> dict[str, Any]:
    """Every option of a cell that somebody has written."""
    (group,) = (group for group in sweep.groups if group.name == cell.group)
    return {**group.options, **cell.options}


def request_for(sweep: Sweep, cell: Cell) -> Request:
    """The run that a cell asks for, every option of it checked."""
    try:
        return request_from(options_of(sweep, cell))
    except InputError as error:
        raise InputError(f"The cell '{cell.name}' cannot be trained: {error}") from error


def check(sweep: Sweep, cells: list[Cell], trust_run_code: bool, here: bool) -> None:
    """Refuse a sweep of which a cell could not run, before any does; `here`: it is to run on this machine."""
    if here and sweep.evaluation.splits:
        EvaluationRequest(engine=sweep.evaluation.options.get("engine", "transformers")).check()
    for cell in cells:
        asked = request_for(sweep, cell)
        if cell.method is None:
            _check_controls(sweep, cell)
        elif here:
            try:
                asked.check_here()
            except InputError as error:
                raise InputError(f"The cell '{cell.name}' cannot be trained: {error}") from error
        if sweep.evaluation.splits and not trust_run_code:
            for wish in part_wishes(options_of(sweep, cell)):
                raise InputError(
                    f"The runs of the cell '{cell.name}' want to {wish.does}, and a run folder is data: evaluate them "
                    "with --trust-run-code, or say `evaluate: no`."
                )


def _check_controls(sweep: Sweep, cell: Cell) -> None:
    options = options_of(sweep, cell)
    if "test" not in sweep.evaluation.splits:
        raise InputError(
            "The untrained model (controls) is evaluated on test, which is not among the splits."
        )
    if options.get("task_seed"):
        raise InputError(
            f"The untrained model cannot be evaluated on the split of task_seed {options['task_seed']}: `agon eval "
            "MODEL` knows the one of seed 0. Say `controls: no`, or leave task_seed out."
        )


def refuse_another_sweep(folder: SweepFolder, sweep: Sweep, cells: list[Cell]) -> list[Cell]:
    """The cells of a folder that are not asked for this time; one that was begun with other options is refused."""
    place = folder.folder
    if not is_sweep(place):
        if place.is_file() or (place.is_dir() and any(path.name != ".owner" for path in place.iterdir())):
            raise InputError(f"'{place}' holds something that is not a sweep: choose another --output.")
        return []
    for group in sweep.groups:
        before = folder.read_recipe(group.name)
        changed = sorted(
            name
            for name in {*before, *group.options}
            if before.get(name, _ABSENT) != group.options.get(name, _ABSENT)
        )
        if before and changed:
            raise InputError(
                f"The sweep in '{place}' was begun with another {changed[0]} for '{group.name}' "
                f"({before.get(changed[0])!r}, now {group.options.get(changed[0])!r}): choose another --output."
            )
    asked = {cell.name: cell for cell in cells}
    kept = []
    for cell in folder.cells():
        now = asked.get(cell.name)
        if now is None:
            kept.append(cell)
        elif now != cell and not _untouched(folder, cell):
            raise InputError(
                f"The cell '{cell.name}' of '{place}' was begun with other options ({_short(cell.options)}, now "
                f"{_short(now.options)}): choose another --output, or remove its folder."
            )
    return kept


def _untouched(folder: SweepFolder, cell: Cell) -> bool:
    return not Path(folder.run(cell).folder).exists()


def _short(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "none"


_ABSENT = object()
