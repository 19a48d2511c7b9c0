"""Write the report of a comparison of methods, from runs that `agon sweep` or `agon train` made.

    python scripts/comparison_report.py RUNS --out DIR
    python scripts/comparison_report.py --duels runs/coop-s0-lr3e-4 runs/agon-s0-lr3e-4 --path data

RUNS is a folder of runs, whole or lean (`scripts/lean_copies.py`), and of plain models' evaluations. DIR gets

    tables.md          controls and runs with every arm, methods over seeds, exchange, training budget, GPU use
    learning-rate.md   runs of grpo that differ in their learning rate
    transitions.md     what finals made of the drafts they read, and how often they copied
    curves.svg         training, step by step

The same runs give the same bytes. Runs at one learning rate are compared: the one of most runs, or --rate. A run's
note.txt is printed with its figures, and keeps it out of the table of exchange. `--duels` prints duels to quote, from
whole runs: lean ones have no texts.
"""

import argparse
import sys
from pathlib import Path

from agon.errors import InputError
from agon.reports.comparison import write_report
from agon.reports.quotes import quote_runs


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", metavar="RUNS", nargs="?", type=Path, help="folder of runs")
    parser.add_argument("--out", metavar="DIR", type=Path, help="where the report is written")
    parser.add_argument("--rate", type=float, help="learning rate compared; that of most runs by default")
    parser.add_argument(
        "--duels", metavar="RUN", nargs="+", type=Path, help="print duels of these whole runs"
    )
    parser.add_argument("--path", help="with --duels: local copy of the benchmarks; the run's own by default")
    parser.add_argument(
        "--count", type=int, default=3, help="with --duels: examples of each kind (default 3)"
    )
    arguments = parser.parse_args()
    if not arguments.duels and not (arguments.runs and arguments.out):
        parser.error("give RUNS and --out DIR, or --duels RUN...")
    try:
        if arguments.duels:
            print(quote_runs(arguments.duels, arguments.path, arguments.count))
        else:
            print(*write_report(arguments.runs, arguments.out, arguments.rate), sep="\n")
    except InputError as error:
        print(f"comparison_report: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
