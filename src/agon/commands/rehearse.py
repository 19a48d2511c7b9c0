"""Rehearse a recipe at full size before a week is spent on it.

  agon rehearse qwen3-0.6b-deepmath --lengths 6100:15000
  agon rehearse qwen3-4b-deepmath --problems 2 --json --out rehearsal

The model has its real shapes and random weights: no weights are downloaded. Completions are forced to
lengths of a stated mean up to a cap, and verdicts are a seeded coin. Two whole steps are played and
trained, the second by a new trainer that resumes from the first one's checkpoint. Memory, seconds and
hours of the whole recipe are printed beside what `agon plan` says. Options that are not listed here
change the recipe, as in `agon train`.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from agon.commands.arguments import whole
from agon.printing import say

PARSES_REST = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", help="a recipe's name or YAML file")
    parser.add_argument(
        "--steps", type=whole(1), default=2, metavar="N", help="steps to rehearse (default 2)"
    )
    parser.add_argument(
        "--lengths", metavar="MEAN:CAP", help="tokens of completions (default: 0.4 of the cap, the cap)"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--problems", type=whole(1), metavar="N", help="problems a step (default: the recipe's)"
    )
    size.add_argument(
        "--seconds",
        type=whole(1),
        metavar="S",
        help="as many problems as the plan fits into S seconds of steps",
    )
    parser.add_argument("--path", help="local copy of the task's data; without any, prompts are made up")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the model, the run and the result here")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from agon.train.recipes import read_request

    asked = read_request(arguments.recipe, arguments.rest)  # a wrong option is refused before torch is loaded
    from agon.lab.rehearsal.phases import phases_table
    from agon.lab.rehearsal.rehearse import Wanted, rehearse
    from agon.lab.rehearsal.text import rehearsal_text, save_rehearsal

    # Where time is rationed, a rehearsal that is ended by `timeout` still prints the phases so far.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    facts = rehearse(
        Wanted(
            recipe=arguments.recipe,
            asked=asked,
            steps=arguments.steps,
            lengths=arguments.lengths,
            problems=arguments.problems,
            seconds=arguments.seconds,
            path=arguments.path,
            out=arguments.out,
            watch=lambda phases: say(*phases_table(phases), sep="\n", file=sys.stderr, flush=True),
        )
    )
    if arguments.out:
        save_rehearsal(facts, arguments.out)
    say(json.dumps(facts, indent=2) if arguments.json else rehearsal_text(facts))
    return 0
