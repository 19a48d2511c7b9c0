"""Your own problems: a .jsonl or .parquet file, a folder with one file per split, or a Dataset.

A row has a problem (`problem`, `question` or `prompt`) and either an `answer` (or `final_answer`) or
`tests`: a list of {"input", "output"} pairs or of assert lines. A column `split` decides the split;
without one, the rows are divided 8 : 1 : 1 by their hashes.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agon.errors import InputError, unknown
from agon.game.problem import CodeTests, Problem, StdioTest
from agon.tasks.dedup import NGRAM, Selection
from agon.tasks.rows import SUFFIXES, Row, read_file
from agon.tasks.splits import SPLITS, check_size, content_id, shuffled
from agon.tasks.task import Task

PROBLEM = ("problem", "question", "prompt")
ANSWER = ("answer", "final_answer")
OPTIONS = ("judge", "problem", "answer", *SPLITS)


def load_file(path: str, seed: int, options: Mapping[str, Any]) -> Task:
    """A task from a local file, or from a folder with train, validation and test files."""
    for key in options:
        if key not in OPTIONS:
            raise unknown("option of a local file", key, OPTIONS)
    given = Path(os.path.expanduser(path))
    if not given.exists():
        raise InputError(f"There is no file or folder {given}.")
    files = _split_files(given) if given.is_dir() else {"": given}
    name = given.stem if given.is_file() else given.resolve().name
    pools: dict[str, list[Problem]] = {}
    for split, file in files.items():
        for row in read_file(file):
            pools.setdefault(split or _split_column(row), []).append(_problem(row, name, options))
    judge = str(options.get("judge") or _judge_for(pools))
    selection = Selection(NGRAM["code" if judge == "code" else "math"])
    if "" not in pools:
        splits = _user_splits(pools, options, selection)
    elif len(pools) == 1:
        pool = selection.unique(shuffled(pools[""], seed))
        splits = selection.divided(pool, _sizes(len(pool), options))
    else:
        raise InputError(f"{given}: some rows have a 'split' and others have none.")
    settings = {**options, "seed": seed}
    return Task(name, judge, splits, dict(selection.dropped), settings, tuple(selection.notes))


def task_from_dataset(
    dataset: Iterable[Mapping[str, Any]],
    judge: str = "math",
    validation: Iterable[Mapping[str, Any]] | None = None,
    test: Iterable[Mapping[str, Any]] | None = None,
    name: str = "dataset",
) -> Task:
    """A task from `datasets.Dataset` objects (or any rows) with `problem` and `answer` columns.

    >>> task_from_dataset([{"problem": "What is 2 + 2?", "answer": "4"}]).problems("train")[0].answer
    '4'
    """
    parts = {"train": dataset, "validation": validation, "test": test}
    splits = {
        split: [
            _problem(Row(fields, f"Row {number} of the {split} dataset"), name, {})
            for number, fields in enumerate(rows, start=1)
        ]
        for split, rows in parts.items()
        if rows is not None
    }
    return Task(name, judge, splits)


def _problem(row: Row, task: str, options: Mapping[str, Any]) -> Problem:
    prompt = row.text(_column(row, "problem", PROBLEM, options))
    if not prompt.strip():
        raise InputError(f"{row.where}: the problem is empty.")
    tests = _tests(row) if "tests" in row and "answer" not in options else None
    answer = "" if tests else row.text(_column(row, "answer", ANSWER, options)).strip()
    if not tests and not answer:
        raise InputError(f"{row.where}: the answer is empty.")
    identity = str(row.get("id") or content_id(task, prompt, answer))
    if tests:
        return Problem(identity, prompt, task, tests=tests, domain="code")
    return Problem(identity, prompt, task, answer)


def _column(row: Row, what: str, names: Sequence[str], options: Mapping[str, Any]) -> str:
    if what in options:
        return str(options[what])
    return next((name for name in names if name in row), names[0])


def _tests(row: Row) -> CodeTests:
    value = row["tests"]
    if isinstance(value, list) and value and all(isinstance(test, str) for test in value):
        return CodeTests(asserts=tuple(value))
    try:
        stdio = tuple(StdioTest(str(test["input"]), str(test["output"])) for test in value)
    except (TypeError, KeyError):
        stdio = ()
    if not stdio:
        raise InputError(f"{row.where}: 'tests' is not a list of asserts or of input and output pairs.")
    return CodeTests(stdio=stdio)


def _split_column(row: Row) -> str:
    if row.get("split") is None:
        return ""
    split = {"valid": "validation", "val": "validation", "dev": "validation"}.get(row["split"], row["split"])
    if split not in SPLITS:
        raise InputError(f"{row.where}: unknown split '{split}' (expected one of {', '.join(SPLITS)}).")
    return str(split)


def _split_files(folder: Path) -> dict[str, Path]:
    files = {
        split: folder / f"{split}{suffix}"
        for split in SPLITS
        for suffix in SUFFIXES
        if (folder / f"{split}{suffix}").is_file()
    }
    if not files:
        raise InputError(f"{folder} holds no train, validation or test file (.jsonl or .parquet).")
    return files


def _sizes(available: int, options: Mapping[str, Any]) -> dict[str, int | None]:
    if any(split in options for split in SPLITS):
        return {split: check_size(split, options.get(split, 0)) for split in SPLITS}
    return {"train": None, "validation": available // 10, "test": available // 10}


def _user_splits(
    pools: Mapping[str, list[Problem]], options: Mapping[str, Any], selection: Selection
) -> dict[str, list[Problem]]:
    """The splits that the user made, without the overlap between them."""
    parts = selection.separated({split: pools[split] for split in SPLITS if split in pools})
    sizes = {split: check_size(split, options[split]) for split in SPLITS if split in options}
    return {split: selection.first(part, sizes.get(split)) for split, part in parts.items()}


def _judge_for(splits: Mapping[str, Sequence[Problem]]) -> str:
    domains = {problem.domain for part in splits.values() for problem in part}
    if len(domains) > 1:
        raise InputError("The file mixes problems with answers and problems with tests: give two files.")
    return "code" if domains == {"code"} else "math"
