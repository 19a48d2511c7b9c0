"""Every method and control of evaluated runs in one table.

    python scripts/methods_table.py runs/agon runs/coop runs/grpo [--split test]

A run gives its headline arm, the other arms of its policies below it, and, once for all runs, the controls over
the bare base. Runs that `agon compare` would refuse are refused here too.
"""

import argparse
import sys

from agon.errors import InputError
from agon.evaluate.compare import enter
from agon.evaluate.tables import markdown
from agon.lab.tables import against_zero_shot, methods_table

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
        sys.exit(f"{parser.prog}: {error}")
