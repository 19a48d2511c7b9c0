"""From a benchmark's row in the table to a task: read, leave out, order, divide."""

from agon.errors import InputError, unknown
from agon.game.problem import Problem
from agon.tasks.benchmarks import BENCHMARKS, Benchmark, Options
from agon.tasks.filters import NGRAM
from agon.tasks.sieve import Sieve
from agon.tasks.sources import Row, read
from agon.tasks.splits import SPLITS, check_size, shuffled
from agon.tasks.task import Task


def load_benchmark(name: str, path: str | None, seed: int, given: Options) -> Task:
    """The benchmark of this name, from the Hub or from a local path."""
    row = BENCHMARKS[name]
    options, sizes = _settle(name, row, given)
    sieve = Sieve(NGRAM["code" if row.judge == "code" else "math"])
    rows = _trained_rows(row, path)
    if row.prepare is not None:
        options, sieve.notes = row.prepare(rows, options)
    pool = shuffled(_problems(row, rows, options, sieve), seed)
    # What authors published as a test split is taken as it is, repetitions and all.
    tested = shuffled(_problems(row, read(row.tested, path), options, sieve), seed) if row.tested else []
    if row.assign is not None:
        parts = sieve.separated(_assigned(row, pool, sieve))
        splits = {split: sieve.cut(part, sizes.get(split)) for split, part in parts.items()}
    else:
        splits = _divided(row, pool, tested, path, sizes, sieve)
    if tested:
        splits["test"] = sieve.cut(tested, sizes.get("test"))
    if not any(splits.values()):
        why = "; ".join(f"{reason}: {count}" for reason, count in sieve.dropped.items())
        raise InputError(f"Task '{name}' has no problems left after its filters ({why or 'none read'}).")
    settings = {**options, **given, "seed": seed}
    return Task(name, row.judge, splits, dict(sieve.dropped), settings, tuple(sieve.notes))


def _settle(name: str, row: Benchmark, given: Options) -> tuple[Options, dict[str, int | None]]:
    """The options and sizes of the table, with those that were given in their place."""
    for key in given:
        if key not in row.options and key not in SPLITS:
            raise unknown(f"option of task '{name}'", key, [*row.options, *SPLITS])
    options = {**row.options, **{key: given[key] for key in given if key in row.options}}
    sizes = {**row.sizes, **{split: check_size(split, given[split]) for split in SPLITS if split in given}}
    return options, sizes


def _trained_rows(row: Benchmark, path: str | None) -> list[Row]:
    """The rows of all training sources; one file that holds several of them is read once."""
    found: dict[str, Row] = {}
    for source in row.trained:
        found.update((line.where, line) for line in read(source, path))
    return list(found.values())


def _problems(row: Benchmark, rows: list[Row], options: Options, sieve: Sieve) -> list[Problem]:
    readings = [row.problem(line, options) for line in rows]
    sieve.dropped.update(reading for reading in readings if isinstance(reading, str))
    return [reading for reading in readings if isinstance(reading, Problem)]


def _divided(
    row: Benchmark,
    pool: list[Problem],
    tested: list[Problem],
    path: str | None,
    sizes: dict[str, int | None],
    sieve: Sieve,
) -> dict[str, list[Problem]]:
    """A pool without duplicates and without what evaluation sets hold, in splits."""
    if not pool:
        return {}
    pool = sieve.unique(pool)
    for other in row.decontaminate:
        pool = sieve.apart(pool, _evaluation_texts(other, path, sieve), f"the test split of {other}")
    if tested:
        pool = sieve.apart(pool, [problem.prompt for problem in tested], "its own test split")
        sizes = {split: size for split, size in sizes.items() if split != "test"}
    return sieve.divided(pool, sizes)


def _evaluation_texts(name: str, path: str | None, sieve: Sieve) -> list[str]:
    """The statements of an evaluation set; where a local path has none, that is said."""
    row = BENCHMARKS[name]
    assert row.tested is not None
    try:
        rows = read(row.tested, path, beside=True)
    except InputError:
        if path is None:
            raise
        folders = " or ".join(row.tested.folders)
        sieve.notes.append(f"Not compared with {name}: no folder {folders} in or beside {path}.")
        return []
    readings = [row.problem(line, row.options) for line in rows]
    return [reading.prompt for reading in readings if isinstance(reading, Problem)]


def _assigned(row: Benchmark, pool: list[Problem], sieve: Sieve) -> dict[str, list[Problem]]:
    """The pool in the splits that the authors fixed."""
    assert row.assign is not None
    splits: dict[str, list[Problem]] = {split: [] for split in SPLITS}
    for problem in pool:
        split = row.assign(problem)
        if split is None:
            sieve.dropped["belongs to no split"] += 1
        else:
            splits[split].append(problem)
    return splits
