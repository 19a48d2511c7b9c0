"""Check a run folder: is everything in it as the run wrote it, and what could be resumed?

  agon check runs/first
  agon check runs/first --json

Verifies the hashes of checkpoints and adapters, that every line of metrics and duels is whole, that none is missing or
there twice, that duels were played by the policies and versions of their step, and that they give the metrics of their
step. Nothing of the folder is run or loaded into a model. The exit code is 0 for a clean run, 1 with findings, 2 for a
folder that is no run.
"""

import argparse
import json
from pathlib import Path

from agon.printing import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    from agon.runs.check import check_run

    report = check_run(arguments.run)
    if arguments.json:
        say(json.dumps(report.to_dict(), indent=2))
    else:
        say(f"{report.run}: {'clean' if report.clean else f'{len(report.findings)} findings'}")
        for finding in report.findings:
            say(f"  wrong: {finding}")
        for note in report.notes:
            say(f"  note: {note}")
        say(report.resume)
    return 0 if report.clean else 1
