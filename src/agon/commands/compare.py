"""Compare evaluated runs, paired by problem and sample.

  agon compare runs/agon runs/coop runs/grpo
  agon compare runs/agon-* runs/coop-* --contrast agon:coop
  agon compare 'runs/agon@A->B' runs/agon@B                two arms of one run

Runs of one method with different seeds are one side. Runs that differ in their problems, decoding or
training budget are refused, and the difference is named.
"""

import argparse
import json

from agon.commands.output import add_formats, show_tables, working
from agon.errors import InputError
from agon.printing import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        metavar="RUN[@ARM]",
        nargs="+",
        help="evaluated runs, or folders of `agon eval --output`; one arm of it after an @",
    )
    parser.add_argument("--task", help="which evaluation, where a run has several; its own task otherwise")
    parser.add_argument("--split", default="test", choices=("train", "validation", "test"))
    parser.add_argument(
        "--arm", default="headline", help="an arm such as A->B or A; each run's headline otherwise"
    )
    parser.add_argument(
        "--contrast",
        action="append",
        default=[],
        metavar="ONE:OTHER",
        help="a contrast to test, repeatable; all pairs otherwise",
    )
    add_formats(parser)


def run(arguments: argparse.Namespace) -> int:
    if len(arguments.runs) < 2:
        raise InputError(f"A comparison needs at least two runs, not only '{arguments.runs[0]}'.")
    asked = [_contrast(text) for text in arguments.contrast]
    with working("reading the evaluations"):
        from agon.evaluate.compare import compare, enter_all
        from agon.reports.evaluation_tables import compare_tables

        entrants = enter_all(arguments.runs, arguments.task, arguments.split, arguments.arm)
        comparison = compare(entrants, asked)
    if arguments.form == "json":
        say(json.dumps(comparison, indent=2))
    else:
        show_tables(list(compare_tables(comparison)), arguments.form)
    return 0


def _contrast(text: str) -> tuple[str, str]:
    one, colon, other = text.partition(":")
    if not (one and colon and other):
        raise InputError(f"A contrast is written ONE:OTHER, not '{text}'.")
    return one, other
