"""Print the fingerprints of every benchmark's splits, to compare machines and Python versions.

    PYTHONPATH=src python3.13 scripts/split_fingerprints.py DATA

DATA is a folder that holds the datasets' folders. For .jsonl files the standard library is enough.
"""

import sys

from agon.errors import InputError
from agon.tasks import BENCHMARKS, load_task


def main(path: str) -> int:
    for name in BENCHMARKS:
        try:
            task = load_task(name, path=path)
        except InputError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        for split, problems in task.splits.items():
            print(f"{name:<18} {split:<10} {len(problems):>6} {task.fingerprint(split)}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
