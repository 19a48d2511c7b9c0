"""Compare the checkpoints of a run on its validation problems, and say which is best.

  agon best runs/first
  agon best runs/first --limit 100 --use

The test split is not read. `--use` puts the best checkpoint's adapters in the place of the run's own;
train with a larger --save_total_limit to have more checkpoints to choose from.
"""

import argparse
import json

from agon.commands.arguments import add_trust, whole
from agon.commands.output import add_formats, quiet_loading, show_tables, working
from agon.printing import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="folder of a run")
    parser.add_argument("--limit", type=whole(1), metavar="N", help="only the first N validation problems")
    parser.add_argument(
        "--samples", type=whole(1), default=1, metavar="K", help="samples per problem (default 1)"
    )
    parser.add_argument(
        "--use", action="store_true", help="make the best checkpoint's adapters the run's own"
    )
    add_trust(parser)
    add_formats(parser)


def run(arguments: argparse.Namespace) -> int:
    with working(f"playing the checkpoints of {arguments.run}"):
        from agon.evaluate.best import compare_checkpoints, use
        from agon.reports.checkpoint_table import checkpoint_table

        quiet_loading()
        found = compare_checkpoints(
            arguments.run, arguments.limit, arguments.samples, trust_run_code=arguments.trust_run_code
        )
        if arguments.use:
            use(arguments.run, found)
    if arguments.form == "json":
        say(json.dumps(found, indent=2))
    else:
        show_tables([checkpoint_table(found)], arguments.form)
    return 0
