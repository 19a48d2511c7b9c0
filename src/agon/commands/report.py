"""Write one page about runs: tables, tests, figures, and what they allow to be said.

  agon report runs/agon                        one run: runs/agon/report.html
  agon report runs/agon runs/coop runs/grpo --out report.html
  agon report sweeps/first --out report.html --out report.md --out report.tex
  agon report runs --json                      the verdicts for a program

A RUN may be a lean copy; a FOLDER holds runs. The page opens from disk and
fetches nothing. Markdown has its pictures in a folder beside it.
"""

import argparse
import json
from pathlib import Path

from agon.commands.arguments import whole
from agon.commands.output import working
from agon.printing import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "places", metavar="RUN|SWEEP|FOLDER", nargs="+", help="runs, a sweep, or folders that hold runs"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        action="append",
        type=Path,
        help="FILE.html, .md or .tex, repeatable; report.html in the folder given otherwise, or here for several",
    )
    parser.add_argument("--title", help="the title of the page")
    parser.add_argument(
        "--copying",
        action="store_true",
        help="also compare wrong answers: how often finals repeat their draft's error (about a minute)",
    )
    parser.add_argument(
        "--duels", type=whole(0, 20), default=1, metavar="N", help="duels of each kind and method (default 1)"
    )
    parser.add_argument(
        "--duels-of",
        choices=("training", "test"),
        default="training",
        help="where duels are quoted from; test needs whole runs and their task (default training)",
    )
    parser.add_argument(
        "--path", help="with --duels-of test: local copy of the task; the run's own otherwise"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the verdicts as JSON; a page only with --out"
    )


def run(arguments: argparse.Namespace) -> int:
    with working("reading the runs"):
        from agon.reports.page.build import Asked, build_report, refuse_forms, write_report
        from agon.train.option_table import defaults

        targets = arguments.out or ([] if arguments.json else [_target(arguments.places)])
        refuse_forms(targets)
        asked = Asked(arguments.title, arguments.copying, arguments.duels, arguments.duels_of, arguments.path)
        report = build_report(arguments.places, defaults(), asked)
        write_report(report, targets)
    if arguments.json:
        say(json.dumps(report.record(), indent=2))
    else:
        say("\n".join(map(str, targets)))
    return 0


def _target(places: list[str]) -> Path:
    return Path(places[0]) / "report.html" if len(places) == 1 else Path("report.html")
