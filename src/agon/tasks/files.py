"""Your own problems: a file, a folder with one file per split, a dataset of the Hub, or a Dataset.

A row has a problem (`problem`, `question` or `prompt`) and either an `answer` (or `final_answer`, `solution`)
or `tests`: a list of {"input", "output"} pairs or of assert lines. A column `split` decides the split;
without one, the rows are divided 8 : 1 : 1 by their hashes. A prompt may be a conversation, a list of
messages whose last one is the user's.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.errors import InputError, unknown
from agon.game.problem import CodeTests, Problem, StdioTest
from agon.own_parts import is_part
from agon.tasks.dedup import NGRAM, Selection
from agon.tasks.hub import SPLIT_NAMES
from agon.tasks.rows import SUFFIXES, Row, read_file, suffix_of
from agon.tasks.splits import SPLITS, check_size, content_id, shuffled
from agon.tasks.task import Task

PROBLEM = ("problem", "question", "prompt")
ANSWER = ("answer", "final_answer", "solution")
ROLES = ("system", "user", "assistant")
OPTIONS = ("judge", "problem", "answer", *SPLITS)


def load_file(
    path: str,
    seed: int,
    options: Mapping[str, Any],
    rows: Mapping[str, Sequence[Row]] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Task:
    """A task from a local file, from a folder with train, validation and test files, or from `rows` by split.

    `settings` are options that were used before, and are only recorded.
    """
    for key in options:
        if key not in OPTIONS:
            raise unknown("option of a local file", key, OPTIONS)
    given = Path(os.path.expanduser(path))
    if rows is None:
        rows, name = _read(given)
    else:
        name = path
    reading = Reading(name, options, needs_answer=not is_part(options.get("judge")))
    pools: dict[str, list[Problem]] = {}
    for split, part in rows.items():
        for row in part:
            pools.setdefault(split or _split_column(row), []).append(reading.problem(row))
    pools = {split: part for split, part in pools.items() if split in ("", *SPLITS)}
    if not pools:
        raise InputError(f"{path} has no split called train, validation or test.")
    judge = str(options.get("judge") or _judge_for(pools))
    selection = Selection(NGRAM["code" if judge == "code" else "math"])
    if "" not in pools:
        splits = _user_splits(pools, options, selection)
    elif len(pools) == 1:
        pool = selection.unique(shuffled(pools[""], seed))
        splits = selection.divided(pool, _sizes(len(pool), options))
    else:
        raise InputError(f"{given}: some rows have a 'split' and others have none.")
    recorded = {**(settings or {}), **options, "seed": seed}
    return Task(name, judge, splits, dict(selection.dropped), recorded, tuple(selection.notes))


def _read(given: Path) -> tuple[dict[str, list[Row]], str]:
    """The rows of a file, or of the files of a folder by split, and what the task is called."""
    if not given.exists():
        raise InputError(f"There is no file or folder {given}.")
    files = _split_files(given) if given.is_dir() else {"": given}
    name = given.name.removesuffix(suffix_of(given) or "") if given.is_file() else given.resolve().name
    return {split: read_file(file) for split, file in files.items()}, name


def task_from_dataset(
    dataset: Iterable[Mapping[str, Any]],
    judge: str = "math",
    validation: Iterable[Mapping[str, Any]] | None = None,
    test: Iterable[Mapping[str, Any]] | None = None,
    name: str = "dataset",
    columns: Mapping[str, str] | None = None,
    needs_answer: bool = True,
) -> Task:
    """A task from `datasets.Dataset` objects (or any rows) with `problem` and `answer` columns.

    `columns` names other ones, such as `{"problem": "text"}`. Where a judge of your own decides, a gold answer
    may be missing (`needs_answer`), and every column is kept for it in a problem's `metadata["columns"]`.

    >>> task_from_dataset([{"problem": "What is 2 + 2?", "answer": "4"}]).problems("train")[0].answer
    '4'
    """
    parts = {"train": dataset, "validation": validation, "test": test}
    reading = Reading(name, columns or {}, needs_answer)
    splits = {
        split: [
            reading.problem(Row(fields, f"Row {number} of the {split} dataset"))
            for number, fields in enumerate(rows, start=1)
        ]
        for split, rows in parts.items()
        if rows is not None
    }
    return Task(name, judge, splits)


@dataclass(frozen=True)
class Reading:
    """How rows become problems. `columns` names those that hold the problem and the answer."""

    task: str
    columns: Mapping[str, Any]
    needs_answer: bool = True

    def problem(self, row: Row) -> Problem:
        conversation, prompt = self._asked(row)
        if not prompt.strip():
            raise InputError(f"{row.where}: the problem is empty.")
        tests = _tests(row) if "tests" in row and "answer" not in self.columns else None
        answer = "" if tests else self._answer(row)
        metadata: dict[str, Any] = {} if conversation is None else {"conversation": conversation}
        if not self.needs_answer:
            metadata["columns"] = plain_columns(row)
        identity = str(row.get("id") or content_id(self.task, prompt, answer))
        if tests:
            return Problem(identity, prompt, self.task, tests=tests, domain="code", metadata=metadata)
        return Problem(identity, prompt, self.task, answer, metadata=metadata)

    def _asked(self, row: Row) -> tuple[list[dict[str, str]] | None, str]:
        """The messages before the problem, None where there is no conversation, and the problem itself."""
        column = _column(row, "problem", PROBLEM, self.columns)
        if not isinstance(row[column], list):
            return None, row.text(column)
        messages = [dict(message) if isinstance(message, Mapping) else {} for message in row[column]]
        if not messages or not all(
            message.get("role") in ROLES and isinstance(message.get("content"), str) for message in messages
        ):
            raise InputError(
                f"{row.where}: column '{column}' is not a list of messages, each with a role ({', '.join(ROLES)}) "
                "and a content."
            )
        if messages[-1]["role"] != "user":
            raise InputError(f"{row.where}: the last message of '{column}' must be the user's.")
        kept = [{"role": message["role"], "content": message["content"]} for message in messages]
        return kept[:-1], kept[-1]["content"]

    def _answer(self, row: Row) -> str:
        column = _column(row, "answer", ANSWER, self.columns)
        if column not in row and not self.needs_answer:
            return ""
        if not self.needs_answer and not isinstance(row[column], str | int | float):
            return ""  # its judge reads the column itself
        answer = row.text(column).strip()
        if not answer and self.needs_answer:
            raise InputError(f"{row.where}: the answer is empty.")
        return answer


def plain_columns(row: Row) -> dict[str, Any]:
    """Every column whose value is plain data (text, numbers, lists, objects) but the prompt."""
    kept = {}
    for name, value in row.fields.items():
        try:
            kept[name] = json.loads(json.dumps(value))
        except (TypeError, ValueError):  # a picture, a date
            continue
    kept.pop("prompt", None)
    return kept


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
    split = SPLIT_NAMES.get(row["split"], row["split"])
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
        raise InputError(f"{folder} holds no train, validation or test file ({', '.join(SUFFIXES)}).")
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
