"""Problems: benchmarks by name, generated ones, a local file, or an object of yours.

`load_task("gsm8k")` reads the Hub, `load_task("gsm8k", path="data")` the same rows from files;
`load_task("gym:chain_sum,max_terms=3")`, `load_task("problems.jsonl")` and
`load_task("my_package.tasks:puzzles")` are the other three ways.
"""

import json
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from agon.errors import InputError, unknown
from agon.game.problem import Problem
from agon.tasks.benchmarks import BENCHMARKS
from agon.tasks.gym import load_gym
from agon.tasks.load import load_benchmark
from agon.tasks.local import load_file, task_from_dataset
from agon.tasks.sources import SUFFIXES
from agon.tasks.task import Split, Task

__all__ = ["BENCHMARKS", "Split", "Task", "load_task", "task_from_dataset"]

_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def load_task(name: str, path: str | None = None, seed: int = 0, **options: Any) -> Task:
    """The task of this name. Options may also follow the name: `deepmath,min_difficulty=5`.

    `path` is a local copy of the benchmark; `seed` decides the split (or the generated problems).
    Every benchmark takes `train`, `validation` and `test` as the sizes of its splits.
    """
    if _is_path(name):
        return load_file(name, seed, options)
    name, options = _parse(name, options)
    if name in BENCHMARKS:
        return load_benchmark(name, path, seed, options)
    if path is not None:
        raise unknown("benchmark", name, BENCHMARKS)
    if name.startswith("gym:"):
        return load_gym(name.removeprefix("gym:"), seed, options)
    if _OBJECT.fullmatch(name):
        return _from_object(name, seed, options)
    if _is_path(name):
        return load_file(name, seed, options)
    raise unknown("task", name, [*BENCHMARKS, "gym:chain_sum"])


def _is_path(name: str) -> bool:
    return name.endswith(SUFFIXES) or "/" in name or (Path(name).exists() and name not in BENCHMARKS)


def _parse(name: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A name and the options written after it; numbers and truth values are read as JSON."""
    name, *pairs = name.split(",")
    written = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(f"'{pair}' after the task '{name}' is not written as key=value.")
        written[key.strip()] = _value(value.strip())
    return name.strip(), {**written, **options}


def _value(text: str) -> Any:
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except ValueError:
        return text


def _from_object(name: str, seed: int, options: Mapping[str, Any]) -> Task:
    """A Task, a list of problems, or a callable that returns either; a list is all for training."""
    module_name, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"Task '{name}' cannot be imported: {error}.") from error
    made = found(seed=seed, **options) if callable(found) else found
    if isinstance(made, Task):
        return made
    if isinstance(made, list) and made and all(isinstance(problem, Problem) for problem in made):
        judge = "code" if made[0].domain == "code" else "math"
        return Task(name, judge, {"train": made}, options={**options, "seed": seed})
    raise InputError(f"Task '{name}' is {type(made).__name__}: expected a Task or a list of Problems.")
