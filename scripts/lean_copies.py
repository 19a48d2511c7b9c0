"""Copy runs without texts and weights, small enough to commit.

    python scripts/lean_copies.py runs/agon runs/coop --out outcomes
    agon compare outcomes/agon outcomes/coop

A RUN is a run's folder, or one that `agon eval --output` wrote. `agon.runs.lean` says what a copy keeps: everything
that `agon compare`, `agon report` and `agon view` show, texts apart.
"""

import argparse
import sys
from pathlib import Path

from agon.errors import InputError
from agon.runs.lean import lean_copy


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path)
    parser.add_argument("--out", metavar="DIR", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        for run in arguments.runs:
            copy = lean_copy(run, arguments.out)
            size = sum(path.stat().st_size for path in copy.rglob("*") if path.is_file())
            print(f"{copy} {size / 1000:.0f} kB")
    except InputError as error:
        print(f"lean_copies: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
