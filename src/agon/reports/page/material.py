"""What a report is made of: runs, in groups that may be compared with each other, and what is wrong with some of them.

Given are runs, whole or lean copies, folders of runs, folders that `agon eval --output` wrote, and sweeps. A sweep says
itself which cells are compared; other runs are grouped by model, task, budget and learning rate, unless every method
was trained at one rate of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from agon.errors import InputError
from agon.evaluate.compare import BUDGET, HEADLINE, Entrant, decoding_of, enter_arms, refuse_unlike
from agon.game.methods import place_of
from agon.runs.evaluations import EvaluationFolder, find_evaluations
from agon.runs.folder import is_run
from agon.runs.records import Record, read_record
from agon.runs.sweep_folder import DONE, FAILED, RUNNING, WAITING, SweepFolder, is_sweep

UNFINISHED = "unfinished"
# What makes runs of a folder comparable, method and seed apart.
ALIKE = (*BUDGET, "task", "learning_rate")

# What the tables read of a configuration.
NEEDED = (
    *("method", "seed", "model", "task", "learning_rate", "num_generations", "max_completion_length"),
    *("per_device_train_batch_size", "gradient_accumulation_steps"),
)


@dataclass(frozen=True)
class Entry:
    """One run, or the untrained model's evaluations, which have no method; `record` is None if nothing was left."""

    name: str
    group: str
    method: str | None
    seed: int | None
    state: str = DONE
    trouble: str = ""
    record: Record | None = None

    @property
    def counts(self) -> bool:
        """Whether its figures are compared: a run that was cut short had another budget."""
        return self.record is not None and self.state == DONE


class Results:
    """The results of evaluations, each read once for a report."""

    def __init__(self) -> None:
        self._read: dict[Path, Mapping[str, Any]] = {}

    def __call__(self, evaluation: EvaluationFolder) -> Mapping[str, Any]:
        if evaluation.folder not in self._read:
            self._read[evaluation.folder] = evaluation.read_result()
        return self._read[evaluation.folder]


@dataclass(frozen=True)
class Group:
    """Runs of one setting, the untrained model with them."""

    label: str
    entries: tuple[Entry, ...]
    results: Results = field(default_factory=Results)

    @cached_property
    def runs(self) -> list[Record]:
        """The finished runs in the order of the table of methods."""
        found = [entry.record for entry in self.entries if entry.counts and entry.record and entry.method]
        return sorted(found, key=lambda one: (place_of(one.method), one.seed))

    @cached_property
    def begun(self) -> list[Record]:
        """Every run with steps, those that were cut short too."""
        cut = [entry.record for entry in self.entries if entry.record and entry.method and not entry.counts]
        return [record for record in [*self.runs, *cut] if record.trained and record.steps]

    @cached_property
    def plain(self) -> list[Record]:
        return [entry.record for entry in self.entries if entry.counts and entry.record and not entry.method]

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(record.method for record in self.runs))

    @property
    def rates(self) -> dict[float, list[str]]:
        """The methods by the learning rate that they were trained at."""
        found: dict[float, list[str]] = {}
        for record in self.runs:
            methods = found.setdefault(record.rate, [])
            if record.method not in methods:
                methods.append(record.method)
        return found

    @cached_property
    def tasks(self) -> list[str]:
        """What the runs were tested on, their own task first."""
        return list(
            dict.fromkeys(task for one in self.runs or self.plain for task in one.evaluations("test"))
        )

    @property
    def task(self) -> str | None:
        return self.tasks[0] if self.tasks else None

    @cached_property
    def _read(self) -> dict[tuple[str, str], dict[str, Entrant]]:
        return {}

    def arms(self, record: Record, task: str) -> dict[str, Entrant]:
        """Every arm of a run's test on a task, the headline under that name too; empty if there was none."""
        key = (record.name, task)
        if key not in self._read:
            there = task in record.evaluations("test")
            self._read[key] = enter_arms(str(record.folder), task, read_result=self.results) if there else {}
        return self._read[key]

    def entrants(self, task: str, arm: str = HEADLINE) -> list[Entrant]:
        """The finished runs that were tested on a task and have this arm."""
        return [arms[arm] for record in self.runs if arm in (arms := self.arms(record, task))]

    def untrained(self, task: str, arm: str = "zero-shot") -> Entrant | None:
        """An arm of the untrained model: from its own evaluation, else from a run's."""
        # A run's majority is a vote of its trained policies.
        places = self.plain if arm == "majority" else [*self.plain, *self.runs]
        return next((arms[arm] for record in places if arm in (arms := self.arms(record, task))), None)

    @property
    def tested(self) -> bool:
        """Whether any finished run, or the untrained model alone, was tested."""
        return bool(self.tasks)

    @cached_property
    def unlike(self) -> str:
        """Why its runs and the untrained model cannot be compared, if so: other problems, decoding or budget."""
        for task in self.tasks:
            beside = [self.arms(one, task) for one in self.plain] if self.runs else []
            found = [*self.entrants(task), *(arms[HEADLINE] for arms in beside if arms)]
            try:
                if found:
                    refuse_unlike(found)
            except InputError as error:
                return str(error)
        return ""


@dataclass(frozen=True)
class Material:
    """Everything that a report is about."""

    given: tuple[str, ...]
    groups: tuple[Group, ...]
    entries: tuple[Entry, ...]
    results: Results

    @property
    def records(self) -> list[Record]:
        return [entry.record for entry in self.entries if entry.record]

    @property
    def trained(self) -> list[Record]:
        return [record for group in self.groups for record in group.runs]


def read_material(places: Sequence[str]) -> Material:
    """Read what was given; a place that holds neither is refused."""
    entries: list[Entry] = []
    for place in places:
        entries += _entries(Path(place))
    names = [entry.name for entry in entries]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"Two runs are called '{twice[0]}': rename a folder so that the report can name them."
        )
    if not entries:
        raise InputError("There is nothing to report: give runs, a sweep, or a folder that holds them.")
    results = Results()
    return Material(tuple(places), _groups(entries, results), tuple(entries), results)


def _entries(place: Path) -> Iterator[Entry]:
    if is_sweep(place):
        yield from _cells(SweepFolder(place))
    elif is_run(place) or find_evaluations(place):
        yield _entry(place)
    elif place.is_dir():
        found = [path for path in sorted(place.iterdir()) if is_run(path) or find_evaluations(path)]
        if not found:
            raise InputError(
                f"'{place}' holds no runs: expected a run, a sweep, or a folder with runs in it."
            )
        yield from map(_entry, found)
    else:
        raise InputError(f"There is no run '{place}': give a run, a sweep, or a folder with runs in it.")


def _cells(sweep: SweepFolder) -> Iterator[Entry]:
    for cell in sweep.cells():
        run, state = sweep.run(cell), sweep.state(cell)
        there = is_run(run.folder) if cell.method else bool(find_evaluations(run.folder))
        trouble = state.error
        if not trouble and state.state in (RUNNING, WAITING):
            trouble = f"in its stage {state.stage}" if state.stage else "not started"
        elif state.state == FAILED and state.stage:
            trouble = f"{state.stage}: {trouble}" if trouble else f"failed in its stage {state.stage}"
        if state.state == DONE and not there:
            state, trouble = replace(state, state=FAILED), "it is said to be done, but its folder is gone"
        record = Record(run) if there else None
        if record and record.trained:
            _refuse_incomplete(record)
        yield Entry(cell.name, cell.group, cell.method, cell.seed, state.state, trouble, record)


def _entry(place: Path) -> Entry:
    record = read_record(place)
    if not record.trained:
        return Entry(record.name, "", None, None, record=record)
    _refuse_incomplete(record)
    state, trouble = DONE, ""
    if not record.summary.get("finished"):
        steps = record.summary.get("max_steps")
        state = UNFINISHED
        trouble = f"{len(record.steps)}{f' of {steps}' if steps else ''} steps; `agon train --resume` goes on"
    return Entry(record.name, "", record.method, record.seed, state, trouble, record)


def _refuse_incomplete(record: Record) -> None:
    missing = [name for name in NEEDED if record.config.get(name) is None]
    if missing:
        raise InputError(f"The config.yaml of '{record.folder}' has no {missing[0]}: restore it.")


def _groups(entries: Sequence[Entry], results: Results) -> tuple[Group, ...]:
    """The groups in the order of their first run; the untrained model belongs to each that it can stand beside."""
    named: dict[str, list[Entry]] = {}
    settings = {
        entry.name: {name: entry.record.config.get(name) for name in ALIKE}
        for entry in entries
        if entry.record and entry.method and not entry.group
    }
    bases: dict[str, Any] = {}  # one base may lie in several folders: the first names it
    for entry in entries:
        if entry.name in settings and entry.record and (base := entry.record.base):
            own = settings[entry.name]
            own["model"] = bases.setdefault(base, own["model"])
    differing = [name for name in ALIKE if len({str(one[name]) for one in settings.values()}) > 1]
    if _rate_of_each_method(entries, settings):
        differing = [name for name in differing if name != "learning_rate"]
    for entry in entries:
        if entry.method is None and not entry.group:
            continue
        label = entry.group
        if entry.name in settings:
            own = settings[entry.name]
            label = ", ".join(f"{name} {_written(own[name])}" for name in differing) or setting_name(own)
        named.setdefault(label, []).append(entry)
    plain = [entry for entry in entries if entry.method is None and not entry.group]
    if not named:
        return (Group("the untrained model", tuple(plain), results),)
    found = tuple(
        Group(label, (*(one for one in plain if _stands_beside(one, members, results)), *members), results)
        for label, members in named.items()
    )
    return tuple(
        sorted(found, key=lambda group: -len([one for one in group.runs if one.evaluations("test")]))
    )


def _rate_of_each_method(entries: Sequence[Entry], settings: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a rate was chosen for each method, as a fair comparison does, and none was trained at two."""
    rates: dict[tuple[Any, ...], set[str]] = {}
    for entry in entries:
        if own := settings.get(entry.name):
            alike = (entry.method, *(str(own[name]) for name in ALIKE if name != "learning_rate"))
            rates.setdefault(alike, set()).add(str(own["learning_rate"]))
    return all(len(found) == 1 for found in rates.values())


def _stands_beside(plain: Entry, members: Sequence[Entry], results: Results) -> bool:
    """Whether the untrained model was tested as these runs were: the same model, problems and decoding."""
    tested = [
        (entry.record.base, results(one))
        for entry in members
        if entry.record
        for one in entry.record.evaluations("test").values()
    ]
    own = [results(one) for one in plain.record.evaluations("test").values()] if plain.record else []
    base = plain.record.base if plain.record else None
    return not tested or any(
        ((base is not None and base == its) or result["model"] == there["model"])
        and all(result[name] == there[name] for name in ("fingerprint", "samples"))
        and decoding_of(result) == decoding_of(there)
        for result in own
        for its, there in tested
    )


def setting_name(config: Mapping[str, Any]) -> str:
    """The model and the task of a run, for a title."""
    model = Path(str(config.get("model"))).name
    return f"{model} on {str(config.get('task')).split(',')[0]}"


def _written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
