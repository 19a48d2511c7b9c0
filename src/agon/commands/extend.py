"""Let a finished run go on: more optimizer steps from where it ended.

  agon extend runs/first --max_steps 400

Optimizer, roles and data go on where they ended; the learning rate follows the schedule of the longer run.
The run records that it was extended, in extensions.json. To start a new run from trained adapters instead:

  agon train --task T --adapters_from runs/first
"""

import argparse
import os
from pathlib import Path

from agon.commands.arguments import add_trust, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a finished run")
    parser.add_argument(
        "--max_steps",
        "--max-steps",
        type=whole(1),
        required=True,
        metavar="N",
        help="optimizer steps in all, those of the run included",
    )
    add_trust(parser)


def run(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from agon.commands import train
    from agon.runs.trust import all_or_nothing
    from agon.train.launch import extend_run, saved_run

    trusted = arguments.trust_run_code
    saved_run(
        arguments.run, all_or_nothing(str(arguments.run), trusted)
    ).check_here()  # nothing is changed where it could not go on
    extend_run(arguments.run, arguments.max_steps)
    words = argparse.Namespace(recipe=None, resume=arguments.run, rest=[], trust_run_code=trusted)
    return train.run(words)
