"""Evaluate a run or a model: the cascade in both directions, each adapter alone, and the controls.

    agon eval runs/agon                            the run's own task, test split
    agon eval runs/agon --task gsm8k,math-500      transfer
    agon eval Qwen/Qwen3-0.6B --task gsm8k --output evaluations/base

Every sample is kept in RUN/evaluations (or --output). The same command goes on where it was stopped.
"""

import argparse
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.errors import InputError

if TYPE_CHECKING:
    from agon.evaluate.report import Watch
    from agon.tasks import Task

WIDE = 110  # columns that the whole table needs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "subject", metavar="RUN|MODEL", help="folder of a run, or a model (folder, Hub id, embedded)"
    )
    parser.add_argument("--task", help="tasks, separated by commas; the run's own if left out")
    parser.add_argument("--path", help="local copy of the benchmark")
    parser.add_argument("--split", default="test", choices=("train", "validation", "test"))
    parser.add_argument(
        "--samples",
        type=_counts,
        default=[1],
        metavar="K",
        help="samples per problem (default 1); of several tasks also one number each, as 4,1",
    )
    parser.add_argument("--direction", default="both", help="both (default), AB or BA (or 'A->B' in quotes)")
    parser.add_argument(
        "--no-controls", action="store_true", help="leave out zero-shot, self-cascade and moa"
    )
    parser.add_argument("--engine", default="transformers", help="transformers (default) or vllm")
    parser.add_argument(
        "--rows",
        type=int,
        default=256,
        metavar="N",
        help="completions that transformers samples at once (default 256)",
    )
    parser.add_argument(
        "--vllm-cache-gb",
        type=float,
        metavar="X",
        help="GB of vLLM's cache, on a card that others use too; 85%% of the card in all otherwise",
    )
    parser.add_argument(
        "--max-model-len",
        type=int,
        metavar="N",
        help="tokens of a prompt and its completion that vLLM holds; counted from the problems otherwise",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N problems")
    parser.add_argument("--temperature", type=float, help="the run's, else 0.6")
    parser.add_argument("--top-p", type=float, help="the run's, else 0.95")
    parser.add_argument("--max-tokens", type=int, help="most tokens of a completion; the run's, else 2048")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sampling")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where samples and results are kept")
    add_formats(parser)


def add_formats(parser: argparse.ArgumentParser) -> None:
    """The ways to print a result; a table on the terminal if none is asked for."""
    forms = parser.add_mutually_exclusive_group()
    for name in ("json", "markdown", "latex"):
        forms.add_argument(f"--{name}", action="store_const", dest="form", const=name)


def run(arguments: argparse.Namespace) -> int:
    from agon.evaluate.opening import opened
    from agon.evaluate.report import Plan, evaluate, problems_played
    from agon.evaluate.room import Room
    from agon.evaluate.subject import open_subject

    subject = open_subject(arguments.subject)
    plan = Plan(
        sampling=subject.sampling(arguments.temperature, arguments.top_p, arguments.max_tokens),
        split=arguments.split,
        samples=max(arguments.samples),
        direction=_direction(arguments.direction),
        controls=not arguments.no_controls,
        limit=arguments.limit,
        seed=arguments.seed,
        output=arguments.output,
    )
    if subject.folder is None and plan.output is None:
        raise InputError("A plain model has no run folder to keep its samples in: give --output DIR.")
    room = Room(plan.sampling.max_tokens, arguments.vllm_cache_gb, arguments.max_model_len)
    own = cache(subject.own_task)
    tasks = list(_tasks(arguments, own))
    plans = [replace(plan, samples=count) for count in _each(arguments.samples, len(tasks))]
    for task in tasks:
        task.problems(plan.split)  # before the model is loaded
    if arguments.engine == "vllm":
        room = replace(room, problems=problems_played(subject, tasks, plan, own))
    try:
        with opened(subject, arguments.engine, arguments.rows, room) as ready, _watching() as watch:
            results = [
                evaluate(ready, task, each, watch, own, choosing=plan)
                for task, each in zip(tasks, plans, strict=True)
            ]
    except KeyboardInterrupt:
        print("agon: interrupted; finished samples are kept, and the same command goes on.", file=sys.stderr)
        return 130
    _show(results, arguments.form)
    return 0


def _counts(written: str) -> list[int]:
    try:
        return [int(word) for word in written.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"'{written}' is not a number, or numbers such as 4,1") from error


def _each(counts: list[int], tasks: int) -> list[int]:
    """One number for every task: one for all of them, or as many as there are."""
    if len(counts) not in (1, tasks):
        raise InputError(
            f"--samples takes one number, or one for each of the {tasks} tasks; not {len(counts)}."
        )
    return counts * tasks if len(counts) == 1 else counts


def _direction(written: str) -> str:
    """A shell takes the > of an unquoted A->B for itself, so AB and A-B mean the same."""
    players = re.fullmatch(r"(\w)-?(\w)", written)
    return "->".join(players.groups()) if players else written


def split_tasks(names: str) -> list[str]:
    """Task names separated by commas; `key=value` belongs to the name before it.

    >>> split_tasks("gsm8k,gym:chain_sum,max_terms=3,math-500")
    ['gsm8k', 'gym:chain_sum,max_terms=3', 'math-500']
    """
    return [name.strip() for name in re.split(r",(?![^,=]*=)", names) if name.strip()]


def _tasks(arguments: argparse.Namespace, own: "Callable[[], Task]") -> "Iterator[Task]":
    from agon.tasks import load_task

    if arguments.task is None:
        yield own()
        return
    for name in split_tasks(arguments.task):
        yield load_task(name, path=arguments.path)


@contextmanager
def _watching() -> "Iterator[Watch]":
    """A line of progress with the time left for each split that is played, on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:

        def watch(what: str) -> Callable[[int, int], None]:
            bar = bars.add_task(what, total=None)
            return lambda done, total: bars.update(bar, completed=done, total=total)

        yield watch


def _show(results: list[dict[str, Any]], form: str | None) -> None:
    from agon.evaluate import tables

    if form == "json":
        plain = [{key: value for key, value in result.items() if key != "problems"} for result in results]
        print(json.dumps(plain[0] if len(plain) == 1 else plain, indent=2))
        return
    narrow = form is None and shutil.get_terminal_size().columns < WIDE
    show_tables([tables.result_table(result, narrow) for result in results], form)


def show_tables(shown: list[Any], form: str | None) -> None:
    """Print tables in the form asked for."""
    from agon.evaluate import tables

    for table in shown:
        if form == "markdown":
            print(tables.markdown(table) + "\n")
        elif form == "latex":
            print(tables.latex(table) + "\n")
        else:
            tables.print_rich(table)
