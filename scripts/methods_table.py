"""Print every method and control of evaluated runs in one table.

    python scripts/methods_table.py runs/agon runs/coop runs/grpo [--split test]

A run gives its headline arm and, below it, the other arms of its policies. The controls over the untrained base are
printed once for all runs. Runs that `agon compare` would refuse are refused here too.
"""

import argparse
import sys

from agon.errors import InputError
from agon.evaluate.compare import enter
from agon.reports.methods_table import against_zero_shot, methods_table
from agon.reports.tables import markdown

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--split", default="test")
    arguments = parser.parse_args()
    try:
        entrants = [enter(run, split=arguments.split) for run in arguments.runs]
        print(markdown(methods_table(entrants)) + "\n")
        for run, entrant in zip(arguments.runs, entrants, strict=True):
            if "zero-shot" in entrant.result["arms"]:
                print(against_zero_shot(entrant, enter(run, split=arguments.split, arm="zero-shot")))
    except InputError as error:
        print(f"methods_table: {error}", file=sys.stderr)
        sys.exit(2)
