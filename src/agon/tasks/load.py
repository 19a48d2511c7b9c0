"""A task by its name.

`load_task("gsm8k")` reads the Hub, `load_task("gsm8k", path="data")` the same rows from files;
`load_task("gym:chain_sum,max_terms=3")`, `load_task("problems.jsonl,problem=question")`,
`load_task("someone/dataset,answer=gold")` (of the Hub) and `load_task("my_tasks:puzzles")` are the other ways.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agon.errors import InputError, own_code, unknown
from agon.game.problem import Problem
from agon.own_parts import is_part, load_part
from agon.tasks.benchmarks import BENCHMARKS, Benchmark
from agon.tasks.dedup import NGRAM, Selection
from agon.tasks.files import OPTIONS, load_file
from agon.tasks.gym import load_gym
from agon.tasks.hub import is_hub_id, read_hub, read_source
from agon.tasks.problems import Options
from agon.tasks.rows import KINDS, SUFFIXES, Row
from agon.tasks.splits import SPLITS, check_size, shuffled
from agon.tasks.stored import STORED, load_stored
from agon.tasks.task import Task

# What may follow the name of a file: `,key=value`, and never a part of its path.
_WRITTEN = re.compile(r"(?P<path>.+?)(?P<options>(?:,\s*[A-Za-z_]+\s*=[^,]*)*)", re.DOTALL)


def load_task(name: str, path: str | None = None, seed: int = 0, **options: Any) -> Task:
    """The task of this name. Options may also follow the name: `deepmath,min_difficulty=5`.

    `path` is a local copy of the benchmark; `seed` decides the split (or the generated problems).
    Every benchmark takes `train`, `validation` and `test` as the sizes of its splits.
    """
    if name.startswith(STORED):
        return load_stored(Path(name.removeprefix(STORED)))
    where, written = split_path(name)  # before the commas are read: a path may contain some
    if is_hub_id(where):
        return _load_hub(where, seed, {**written, **options})
    if _is_path(where):
        return load_file(where, seed, {**written, **options})
    name, options = _parse_options(name, options)
    if name in BENCHMARKS:
        return load_benchmark(name, path, seed, options)
    if path is not None:
        raise unknown("benchmark", name, BENCHMARKS)
    if name.startswith("gym:"):
        return load_gym(name.removeprefix("gym:"), seed, options)
    if is_part(name):
        return _load_object(name, seed, options)
    raise unknown("task", name, [*BENCHMARKS, "gym:chain_sum"])


def check_name(name: str, path: str | None = None) -> str:
    """The name without its options, if there may be such a task; nothing is read but a module of your own."""
    if name.startswith(STORED):
        return name
    where, written = split_path(name)
    if is_hub_id(where) or _is_path(where):
        known = (*OPTIONS, "config", "revision") if is_hub_id(where) else OPTIONS
        for key in written:
            if key not in known:
                raise unknown("option of your own problems:", key, known)
    if is_hub_id(where):
        return where
    if _is_path(where):
        if not Path(os.path.expanduser(where)).exists():
            raise InputError(f"There is no file or folder {Path(os.path.expanduser(where))}.")
        if Path(os.path.expanduser(where)).is_file() and not where.endswith(SUFFIXES):
            raise InputError(f"{where} is {KINDS}.")
        return where
    name, options = _parse_options(name, {})
    if name in BENCHMARKS:
        _options_and_sizes(name, BENCHMARKS[name], options)
    elif path is not None:
        raise unknown("benchmark", name, BENCHMARKS)
    elif is_part(name):
        load_part(name, "task")
    elif not name.startswith("gym:"):
        raise unknown("task", name, [*BENCHMARKS, "gym:chain_sum"])
    return name


def code_in(name: str, options: Mapping[str, Any]) -> str | None:
    """The code of somebody's own that a task of this name would import: `module:object`, itself or as its judge."""
    where, written = split_path(name)
    given: Mapping[str, Any] = {**options, **written}
    if not (is_hub_id(where) or _is_path(where) or where.startswith(STORED)):
        name, given = _parse_options(name, options)
        if name in BENCHMARKS or name.startswith("gym:"):
            return None
        if is_part(name):
            return name
    judge = given.get("judge")
    return judge if isinstance(judge, str) and ":" in judge else None


def load_benchmark(name: str, path: str | None, seed: int, given: Options) -> Task:
    """The benchmark of this name, from the Hub or from a local path: read, filter, shuffle, split."""
    benchmark = BENCHMARKS[name]
    options, sizes = _options_and_sizes(name, benchmark, given)
    selection = Selection(NGRAM["code" if benchmark.judge == "code" else "math"])
    rows = _train_rows(benchmark, path)
    if benchmark.adjust_options is not None:
        options, selection.notes = benchmark.adjust_options(rows, options)
    pool = shuffled(_problems(benchmark, rows, options, selection), seed)
    test: list[Problem] = []
    if benchmark.test_source is not None:
        # What authors published as a test split is taken as it is, duplicates included.
        rows = read_source(benchmark.test_source, path)
        test = shuffled(_problems(benchmark, rows, options, selection), seed)
    if benchmark.split_of is not None:
        parts = selection.separated(_authors_splits(benchmark, pool, selection))
        splits = {split: selection.first(part, sizes.get(split)) for split, part in parts.items()}
    else:
        splits = _new_splits(benchmark, pool, test, path, sizes, selection)
    if test:
        splits["test"] = selection.first(test, sizes.get("test"))
    if not any(splits.values()):
        why = "; ".join(f"{reason}: {count}" for reason, count in selection.dropped.items())
        raise InputError(f"Task '{name}' has no problems left after its filters ({why or 'none read'}).")
    settings = {**options, **given, "seed": seed}
    return Task(name, benchmark.judge, splits, dict(selection.dropped), settings, tuple(selection.notes))


def split_path(name: str) -> tuple[str, dict[str, Any]]:
    """A path, or the id of a dataset, and the options written after it; a path may itself contain commas.

    >>> split_path("./ok.jsonl,problem=question")
    ('./ok.jsonl', {'problem': 'question'})
    >>> split_path("a,b/ok.jsonl")
    ('a,b/ok.jsonl', {})
    """
    match = _WRITTEN.fullmatch(name)
    if match is None or not match["options"] or _exists(name):
        return name, {}
    return match["path"], _parse_options(f"_{match['options']}", {})[1]


def absolute(name: str) -> str:
    """The name of a task that means the same in every folder: the path of a file from the root."""
    where = split_path(name)[0]
    if name.startswith(STORED) or is_hub_id(where) or not _is_path(where) or not _exists(where):
        return name
    return os.path.abspath(os.path.expanduser(where)) + name.removeprefix(where)


def _is_path(name: str) -> bool:
    return name.endswith(SUFFIXES) or "/" in name or (_exists(name) and name not in BENCHMARKS)


def _exists(name: str) -> bool:
    try:
        return Path(os.path.expanduser(name)).exists()
    except (OSError, ValueError):  # a name that no file system takes
        return False


def _load_hub(name: str, seed: int, options: Mapping[str, Any]) -> Task:
    """A dataset of the Hub by its id; `config` and `revision` choose what is read of it."""
    where = {key: str(value) for key, value in options.items() if key in ("config", "revision")}
    rest = {key: value for key, value in options.items() if key not in where}
    return load_file(name, seed, rest, rows=read_hub(name, **where), settings=where)


def _parse_options(name: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A name and the options written after it; numbers and truth values are read as JSON."""
    name, *pairs = name.split(",")
    written = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(f"'{pair}' after the task '{name}' is not written as key=value.")
        written[key.strip()] = _parse_value(value.strip())
    return name.strip(), {**written, **options}


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except ValueError:
        return text


def _load_object(name: str, seed: int, options: Mapping[str, Any]) -> Task:
    """A Task, a list of problems, or a callable that returns either; a list is all for training."""
    found = load_part(name, "task")
    with own_code(f"The task '{name}'"):
        made = found(seed=seed, **options) if callable(found) else found
    if isinstance(made, Task):
        return made
    if isinstance(made, list) and made and all(isinstance(problem, Problem) for problem in made):
        judge = "code" if made[0].domain == "code" else "math"
        return Task(name, judge, {"train": made}, options={**options, "seed": seed})
    raise InputError(f"Task '{name}' is {type(made).__name__}: expected a Task or a list of Problems.")


def _options_and_sizes(
    name: str, benchmark: Benchmark, given: Options
) -> tuple[Options, dict[str, int | None]]:
    """The benchmark's own options and sizes, overridden by those that were given."""
    for key in given:
        if key not in benchmark.options and key not in SPLITS:
            raise unknown(f"option of task '{name}'", key, [*benchmark.options, *SPLITS])
    options = {**benchmark.options, **{key: given[key] for key in given if key in benchmark.options}}
    asked = {split: check_size(split, given[split]) for split in SPLITS if split in given}
    return options, {**benchmark.sizes, **asked}


def _train_rows(benchmark: Benchmark, path: str | None) -> list[Row]:
    """The rows of all training sources; one file that holds several of them is read once."""
    found: dict[str, Row] = {}
    for source in benchmark.train_sources:
        found.update((row.where, row) for row in read_source(source, path))
    return list(found.values())


def _problems(benchmark: Benchmark, rows: list[Row], options: Options, selection: Selection) -> list[Problem]:
    converted = [benchmark.to_problem(row, options) for row in rows]
    selection.dropped.update(reason for reason in converted if isinstance(reason, str))
    return [problem for problem in converted if isinstance(problem, Problem)]


def _new_splits(
    benchmark: Benchmark,
    pool: list[Problem],
    test: list[Problem],
    path: str | None,
    sizes: dict[str, int | None],
    selection: Selection,
) -> dict[str, list[Problem]]:
    """The pool without duplicates and without what evaluation sets hold, in splits of these sizes."""
    if not pool:
        return {}
    pool = selection.unique(pool)
    for other in benchmark.decontaminate:
        texts = _evaluation_texts(other, path, selection)
        pool = selection.without_overlap(pool, texts, f"the test split of {other}")
    if test:
        pool = selection.without_overlap(pool, [problem.prompt for problem in test], "its own test split")
        sizes = {split: size for split, size in sizes.items() if split != "test"}
    return selection.divided(pool, sizes)


def _evaluation_texts(name: str, path: str | None, selection: Selection) -> list[str]:
    """The statements of an evaluation set; if a local path has no copy of it, a note says so."""
    benchmark = BENCHMARKS[name]
    assert benchmark.test_source is not None
    try:
        rows = read_source(benchmark.test_source, path, by_folder_name=True)
    except InputError:
        if path is None:
            raise
        folders = " or ".join(benchmark.test_source.folders)
        selection.notes.append(f"Not compared with {name}: no folder {folders} in or beside {path}.")
        return []
    converted = [benchmark.to_problem(row, benchmark.options) for row in rows]
    return [problem.prompt for problem in converted if isinstance(problem, Problem)]


def _authors_splits(
    benchmark: Benchmark, pool: list[Problem], selection: Selection
) -> dict[str, list[Problem]]:
    """The pool in the splits that the authors fixed."""
    assert benchmark.split_of is not None
    splits: dict[str, list[Problem]] = {split: [] for split in SPLITS}
    for problem in pool:
        split = benchmark.split_of(problem)
        if split is None:
            selection.dropped["belongs to no split"] += 1
        else:
            splits[split].append(problem)
    return splits
