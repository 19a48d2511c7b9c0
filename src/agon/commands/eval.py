"""Evaluate a run or a model: the cascade in both directions, each adapter alone, and the controls.

  agon eval runs/agon                        the run's own task, test split
  agon eval runs/agon --task gsm8k,math-500  transfer
  agon eval Qwen/Qwen3-0.6B --task gsm8k --output evaluations/base

Every sample is kept in RUN/evaluations (or --output). The same command goes on where it was stopped.
"""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from agon.commands.arguments import add_servers, add_trust, number, switch, whole
from agon.commands.output import add_formats, progress_bars, quiet_loading, show_tables, working
from agon.evaluate.request import LARGEST_SEED, EvaluationRequest
from agon.judges.code.sandbox import SANDBOXES
from agon.printing import say

WIDE = 110  # columns that the whole table needs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="RUN|MODEL", help="folder of a run, or a model (folder, Hub id, embedded)"
    )
    parser.add_argument(
        "--task",
        type=split_tasks,
        default=[],
        help="tasks, separated by commas; `own`, or none, is the run's",
    )
    parser.add_argument("--path", help="local copy of the benchmark")
    parser.add_argument("--judge", help="math, code, gym, exact or module:object; the task's otherwise")
    parser.add_argument("--sandbox", choices=SANDBOXES, help="what runs programs; the run's otherwise")
    parser.add_argument("--model", metavar="ID", help="the run's base, named again: it may be fetched then")
    parser.add_argument(
        "--trust-remote-code",
        type=switch,
        nargs="?",
        const=True,
        default=False,
        metavar="true",
        help="run the code that comes with the model",
    )
    parser.add_argument("--split", default="test", choices=("train", "validation", "test"))
    parser.add_argument(
        "--samples",
        type=_counts,
        default=[1],
        metavar="K",
        help="samples per problem (default 1); of several tasks also one number each, as 4,1",
    )
    parser.add_argument(
        "--direction",
        type=_direction,
        default="both",
        help="both (default), AB or BA (or 'A->B' in quotes)",
    )
    parser.add_argument(
        "--no-controls",
        dest="controls",
        action="store_false",
        help="leave out zero-shot, self-cascade and moa",
    )
    parser.add_argument(
        "--engine", default="transformers", help="transformers (default), vllm or vllm-server"
    )
    parser.add_argument(
        "--rows",
        type=whole(1),
        default=256,
        metavar="N",
        help="completions that transformers samples at once (default 256)",
    )
    parser.add_argument(
        "--vllm-kv-cache-bytes",
        type=int,
        metavar="N",
        help="bytes of vLLM's cache, on a card that others use too; 85%% of the card in all otherwise",
    )
    # The name that this option had first, in gigabytes.
    parser.add_argument(
        "--vllm-cache-gb", type=_gigabytes, dest="vllm_kv_cache_bytes", help=argparse.SUPPRESS
    )
    parser.add_argument(
        "--max-model-len",
        type=whole(1),
        metavar="N",
        help="tokens of a prompt and its completion that vLLM holds; counted from the problems otherwise",
    )
    add_servers(parser)
    add_trust(parser)
    parser.add_argument("--limit", type=whole(1), metavar="N", help="only the first N problems")
    parser.add_argument("--temperature", type=number(0), help="the run's, else 0.6")
    parser.add_argument("--top-p", type=number(0, 1, above=True), help="the run's, else 0.95")
    parser.add_argument(
        "--max-tokens", type=whole(1), help="most tokens of a completion; the run's, else 2048"
    )
    parser.add_argument("--seed", type=whole(0, LARGEST_SEED), default=0, help="seed of the sampling")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where samples and results are kept")
    add_formats(parser)


def request_of(arguments: argparse.Namespace) -> EvaluationRequest:
    """What the words of this command ask for."""
    given = vars(arguments)
    asked = {name: value for name, value in given.items() if name not in ("target", "task", "form")}
    return EvaluationRequest(tasks=arguments.task, **asked)


def run(arguments: argparse.Namespace) -> int:
    request = request_of(arguments)
    request.check()
    try:
        with working(f"reading {arguments.target}"):
            from agon.evaluate.evaluate import evaluate

            quiet_loading()
        with progress_bars() as watch:
            results = evaluate(arguments.target, request, watch)
    except KeyboardInterrupt:
        say("agon: interrupted; finished samples are kept, and the same command goes on.", file=sys.stderr)
        return 130
    show_results(results, arguments.form)
    return 0


def show_results(results: list[dict[str, Any]], form: str | None = None) -> None:
    """Print the results of evaluations as tables, or as JSON."""
    from agon.reports.evaluation_tables import result_table

    if form == "json":
        plain = [{key: value for key, value in result.items() if key != "problems"} for result in results]
        say(json.dumps(plain[0] if len(plain) == 1 else plain, indent=2))
        return
    narrow = form is None and shutil.get_terminal_size().columns < WIDE
    show_tables([result_table(result, narrow) for result in results], form)


def split_tasks(names: str) -> list[str]:
    """Task names separated by commas; `key=value` belongs to the name before it.

    >>> split_tasks("gsm8k,gym:chain_sum,max_terms=3,math-500")
    ['gsm8k', 'gym:chain_sum,max_terms=3', 'math-500']
    """
    return [name.strip() for name in re.split(r",(?![^,=]*=)", names) if name.strip()]


def _counts(written: str) -> list[int]:
    try:
        return [int(word) for word in written.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"'{written}' is not a number, or numbers such as 4,1") from error


def _direction(written: str) -> str:
    """A shell takes the > of an unquoted A->B for itself, so AB and A-B mean the same."""
    players = re.fullmatch(r"(\w)-?(\w)", written)
    return "->".join(players.groups()) if players else written


def _gigabytes(written: str) -> int:
    try:
        size = int(float(written) * 10**9)
    except (ValueError, OverflowError):  # no number, nan, inf
        size = 0
    if size < 1:
        raise argparse.ArgumentTypeError(f"must be above 0, such as 4 or 0.5, not {written}")
    return size
