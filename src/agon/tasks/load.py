"""From a benchmark's row in the table to a task: read, leave out, order, divide."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from agon.errors import InputError, unknown
from agon.game.problem import Problem
from agon.tasks.benchmarks import ALL, BENCHMARKS, Benchmark, Options
from agon.tasks.filters import NGRAM, overlapping, repeated
from agon.tasks.sources import Row, read
from agon.tasks.splits import SPLITS, divide, scaled_sizes, shuffled
from agon.tasks.task import Task

DUPLICATE = "duplicate"
SPARE = "not needed: the splits are full"


def load_benchmark(name: str, path: str | None, seed: int, given: Options) -> Task:
    """The benchmark of this name, from the Hub or from a local path."""
    row = BENCHMARKS[name]
    options: Options
    options, sizes = _settle(name, row, given)
    dropped: Counter[str] = Counter()
    notes: list[str] = []
    rows = _trained_rows(row, path)
    if row.prepare is not None:
        options, notes = row.prepare(rows, options)
    pool = _problems(row, rows, options, dropped)
    # What authors published as a test split is taken as it is, repetitions and all.
    tested = [] if row.tested is None else _problems(row, read(row.tested, path), options, dropped)
    splits: dict[str, list[Problem]] = {}
    if row.assign is not None:
        assigned = _assigned(row, shuffled(pool, seed), dropped)
        splits = {split: _cut(part, sizes.get(split, ALL), dropped) for split, part in assigned.items()}
    elif pool:
        pool = _leave_out(pool, repeated(pool), DUPLICATE, dropped)
        against = {f"{other} test": _evaluation_texts(other, path, notes) for other in row.decontaminate}
        if tested:
            against["its own test split"] = [problem.prompt for problem in tested]
        for what, texts in against.items():
            pool = _leave_out(pool, overlapping(pool, texts), _shares(what), dropped)
        splits = _divided(shuffled(pool, seed), sizes, dropped, notes)
    if tested:
        splits["test"] = _cut(shuffled(tested, seed), sizes.get("test", ALL), dropped)
    if not any(splits.values()):
        why = "; ".join(f"{reason}: {count}" for reason, count in dropped.items())
        raise InputError(f"Task '{name}' has no problems left after its filters ({why}).")
    return Task(name, row.judge, splits, dict(dropped), {**options, "seed": seed}, tuple(notes))


def _settle(name: str, row: Benchmark, given: Options) -> tuple[dict[str, Any], dict[str, int]]:
    """The options and sizes of the table, with those that were given in their place."""
    for key in given:
        if key not in row.options and key not in SPLITS:
            raise unknown(f"option of task '{name}'", key, [*row.options, *SPLITS])
    options = {**row.options, **{key: given[key] for key in given if key in row.options}}
    sizes = dict(row.sizes)
    for split in SPLITS:
        if split in given:
            sizes[split] = check_size(split, given[split])
    return options, sizes


def check_size(split: str, size: Any) -> int:
    """A size of a split as a number of problems."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise InputError(f"The size of the {split} split is a number of problems, not {size!r}.")
    return size


def _trained_rows(row: Benchmark, path: str | None) -> list[Row]:
    """The rows of all training sources; one file that holds several of them is read once."""
    found: dict[str, Row] = {}
    for source in row.trained:
        found.update((line.where, line) for line in read(source, path))
    return list(found.values())


def _problems(row: Benchmark, rows: list[Row], options: Options, dropped: Counter[str]) -> list[Problem]:
    readings = [row.problem(line, options) for line in rows]
    dropped.update(reading for reading in readings if isinstance(reading, str))
    return [reading for reading in readings if isinstance(reading, Problem)]


def _evaluation_texts(name: str, path: str | None, notes: list[str]) -> list[str]:
    """The statements of an evaluation set; where a local path has none, that is said."""
    row = BENCHMARKS[name]
    assert row.tested is not None
    try:
        rows = read(row.tested, path, beside=True)
    except InputError:
        if path is None:
            raise
        notes.append(f"Not compared with {name}: {path} has no folder {' or '.join(row.tested.folders)}.")
        return []
    readings = [row.problem(line, row.options) for line in rows]
    return [reading.prompt for reading in readings if isinstance(reading, Problem)]


def _divided(
    pool: list[Problem], wanted: Mapping[str, int], dropped: Counter[str], notes: list[str]
) -> dict[str, list[Problem]]:
    """The ordered pool in splits; what overlaps a split further towards test leaves its own."""
    sizes = dict(wanted)
    if sizes.get("train") == ALL:
        sizes["train"] = max(0, len(pool) - sum(size for split, size in sizes.items() if split != "train"))
    sizes = scaled_sizes(len(pool), sizes)
    if any(sizes[split] < wanted[split] < ALL for split in sizes):
        asked = ", ".join(f"{split} {size}" for split, size in wanted.items())
        notes.append(f"{len(pool)} problems are too few for {asked}: all sizes are shrunk in proportion.")
    held_out = {split: size for split, size in sizes.items() if split != "train"}
    parts = divide(pool, held_out)
    rest = pool[sum(held_out.values()) :]
    if "validation" in parts and "test" in parts:
        test = [problem.prompt for problem in parts["test"]]
        shared = overlapping(parts["validation"], test)
        parts["validation"] = _leave_out(parts["validation"], shared, _shares("its own test split"), dropped)
    held = [problem.prompt for part in parts.values() for problem in part]
    rest = _leave_out(rest, overlapping(rest, held), _shares("its own held-out splits"), dropped)
    parts["train"] = _cut(rest, sizes.get("train", 0), dropped)
    return {split: parts[split] for split in SPLITS if split in parts}


def _assigned(row: Benchmark, pool: list[Problem], dropped: Counter[str]) -> dict[str, list[Problem]]:
    assert row.assign is not None
    splits: dict[str, list[Problem]] = {split: [] for split in SPLITS}
    for problem in pool:
        split = row.assign(problem)
        if split is None:
            dropped["belongs to no split"] += 1
        else:
            splits[split].append(problem)
    held = [problem.prompt for split in SPLITS[1:] for problem in splits[split]]
    shared = overlapping(splits["train"], held)
    splits["train"] = _leave_out(splits["train"], shared, _shares("its own held-out splits"), dropped)
    return splits


def _shares(what: str) -> str:
    return f"shares {NGRAM} tokens in a row with {what}"


def _leave_out(
    problems: list[Problem], out: list[Problem], reason: str, dropped: Counter[str]
) -> list[Problem]:
    if out:
        dropped[reason] += len(out)
    gone = {id(problem) for problem in out}
    return [problem for problem in problems if id(problem) not in gone]


def _cut(problems: list[Problem], size: int, dropped: Counter[str]) -> list[Problem]:
    if len(problems) > size:
        dropped[SPARE] += len(problems) - size
    return problems[:size]
