"""How far the policies of pairs part in training, and what that does to pooled importance weights.

    python scripts/pooled_weights.py runs/agon-pooled runs/coop-pooled runs/agon

Prints a row for each run and each quarter of its steps: the distance of the two adapters, and for pooled methods the
means over both readers of the effective sample sizes (of tokens, of whole completions), of the share of truncated
tokens and of the divergence per token.
"""

import argparse
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from agon.runs.folder import Run

FIGURES = ("ess", "ess_completion", "truncated", "divergence")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", help="folders of runs")
    print("| run | steps | distance | ess | ess of completions | truncated | divergence |")
    print("| --- | --- |" + " ---: |" * 5)
    for folder in parser.parse_args().runs:
        run = Run(folder)
        steps = [line for line in run.read_metrics() if "pair/distance" in line]
        size = max(1, len(steps) // 4)
        for start in range(0, size * 4, size):
            print(row(run.name, steps[start : start + size]))


def row(name: str, steps: Sequence[Mapping[str, Any]]) -> str:
    cells = [f"{fmean(step['pair/distance'] for step in steps):.3g}"]
    for figure in FIGURES:
        found = [
            value
            for step in steps
            for policy in "AB"
            if (value := step.get(f"{policy}/pooled/{figure}")) is not None
        ]
        cells.append(f"{fmean(found):.4f}" if found else "")
    return f"| `{name}` | {steps[0]['step']}-{steps[-1]['step']} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
