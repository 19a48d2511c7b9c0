"""Which learning rate each method takes, by the rule of docs/results/second-model/plan.md.

    python scripts/second_model_rates.py docs/results/second-model/rates

Of one run at each rate, all with the same seed, that with the higher validation headline; within one point of each
other, the lower rate.
"""

import argparse
from collections import defaultdict
from pathlib import Path

from agon.errors import InputError
from agon.evaluate.compare import HEADLINE, Entrant, enter_arms
from agon.reports.tables import Table, markdown, percent
from agon.runs.folder import Run, is_run

WITHIN = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a folder of runs, evaluated on validation")
    folder = parser.parse_args().folder
    runs = sorted(filter(is_run, folder.iterdir())) if folder.is_dir() else []
    if not runs:
        parser.error(f"'{folder}' has no runs.")
    found: dict[str, dict[float, dict[str, Entrant]]] = defaultdict(dict)
    for run in runs:
        try:
            arms = enter_arms(str(run), split="validation")
        except InputError as error:
            parser.error(str(error))
        found[arms[HEADLINE].method][float(Run(run).read_config()["learning_rate"])] = arms
    print(markdown(table(found)))


def table(found: dict[str, dict[float, dict[str, Entrant]]]) -> Table:
    rates = sorted({rate for runs in found.values() for rate in runs})
    rows = [
        (method, *(headline(runs[rate]) if rate in runs else "" for rate in rates), written(chosen(runs)))
        for method, runs in sorted(found.items())
    ]
    return Table(
        "Validation headline by learning rate", ("method", *map(written, rates), "taken"), tuple(rows)
    )


def chosen(runs: dict[float, dict[str, Entrant]]) -> float:
    """The rate of the best headline, or the lowest one that is within a point of it."""
    accuracies = {rate: float(arms[HEADLINE].correct.mean()) for rate, arms in runs.items()}
    best = max(accuracies.values())
    return min(rate for rate, accuracy in accuracies.items() if accuracy >= best - WITHIN)


def headline(arms: dict[str, Entrant]) -> str:
    return f"{percent(float(arms[HEADLINE].correct.mean()))} ({arms[HEADLINE].arm})"


def written(rate: float) -> str:
    return f"{rate:.0e}".replace("e-0", "e-")


if __name__ == "__main__":
    main()
