"""Upload a run's adapters to the Hub, with cards that say what they are and how to run them.

  agon push runs/first me/first-pair
  agon push runs/first me/first-pair --dry-run out/first-pair

The repository holds both adapters, the tokenizer, the configuration and the results, and opens again with
`agon.load("me/first-pair")`. Duels, samples, checkpoints and problems stay here.
"""

import argparse
from pathlib import Path

from agon.commands.arguments import add_trust
from agon.commands.output import quiet_loading, working
from agon.printing import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="folder of a finished run")
    parser.add_argument("repo", metavar="REPO", help="OWNER/NAME on the Hub; made if it is not there")
    parser.add_argument("--private", action="store_true", help="make the repository a private one")
    parser.add_argument("--license", dest="licence", help="the adapters' licence; the base's otherwise")
    parser.add_argument(
        "--dry-run",
        type=Path,
        metavar="DIR",
        help="write what would be uploaded into a folder, and upload nothing",
    )
    add_trust(parser)


def run(arguments: argparse.Namespace) -> int:
    with working(f"preparing {arguments.run}"):
        from agon.train.publish import publish

        quiet_loading()
        place = publish(
            arguments.run,
            arguments.repo,
            arguments.private,
            arguments.licence,
            dry_run=arguments.dry_run,
            trust_run_code=arguments.trust_run_code,
        )
    say(f"Written to {place}." if arguments.dry_run else f"Uploaded to {place}.")
    return 0
