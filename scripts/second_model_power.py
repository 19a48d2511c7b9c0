"""What differences the comparison of a second model could find, from the runs that there are.

    python scripts/second_model_power.py docs/results/qwen2.5-coder-0.5b/runs

Two things make a difference between two methods uncertain: which problems were asked, and which runs were made.
Both are estimated from committed runs (Qwen2.5-Coder-0.5B, GSM8K, 500 test problems with 4 samples each):

- problems: the deviation over problems of the difference between two methods at one rate, a problem's rate being
  the mean over its samples and over the seeds.
- seeds: the deviation of pass@1 between runs of one method and one rate that differ in the seed only, pooled.

Printed are the smallest true differences that are found in 80% of cases at p < 0.05, two-sided: by problems alone (for
these runs), by Welch's t-test over seeds (for the method), and with Holm's correction at its strictest for m contrasts.
"""

import argparse
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy import optimize, stats

from agon.evaluate.compare import Entrant, NoEvaluationError, enter

POWER, LEVEL = 0.8, 0.05


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, help="folders of runs")
    parser.add_argument("--task", default="gsm8k")
    parser.add_argument("--contrasts", type=int, default=6, help="contrasts of one family (default 6)")
    arguments = parser.parse_args()
    cells = read(arguments.folders, arguments.task)
    seed_spread, freedom = between_seeds(cells)
    problem_spread, problems = between_problems(cells)
    print(f"runs: {', '.join(f'{method} at {rate} x {len(runs)}' for (method, rate), runs in cells.items())}")
    print(f"deviation between seeds: {100 * seed_spread:.2f} points ({freedom} degrees of freedom)")
    print(f"deviation of a problem's difference: {100 * problem_spread:.1f} points ({problems} problems)\n")
    needed = stats.norm.ppf(1 - LEVEL / 2) + stats.norm.ppf(POWER)
    for asked in (256, problems, 1319):
        print(f"by problems, {asked} of them: {100 * needed * problem_spread / asked**0.5:.1f} points")
    print(f"\n| seeds | over seeds | over seeds, strictest of {arguments.contrasts} by Holm |")
    print("| ---: | ---: | ---: |")
    for seeds in (2, 3, 4, 6):
        found = [over_seeds(seed_spread, seeds, level) for level in (LEVEL, LEVEL / arguments.contrasts)]
        print(f"| {seeds} | {100 * found[0]:.1f} | {100 * found[1]:.1f} |")


def read(folders: list[Path], task: str) -> dict[tuple[str, str], list[Entrant]]:
    """The evaluated runs by method and learning rate."""
    found: dict[tuple[str, str], list[Entrant]] = defaultdict(list)
    for folder in sorted(path for parent in folders for path in parent.iterdir() if path.is_dir()):
        try:
            entrant = enter(str(folder), task)
        except NoEvaluationError:
            continue
        if entrant.seed is not None:
            found[entrant.method, folder.name.rpartition("-lr")[2]].append(entrant)
    return dict(found)


def between_seeds(cells: dict[tuple[str, str], list[Entrant]]) -> tuple[float, int]:
    """The pooled deviation of pass@1 between seeds, and its degrees of freedom."""
    groups = [[float(run.correct.mean()) for run in runs] for runs in cells.values() if len(runs) > 1]
    freedom = sum(len(group) - 1 for group in groups)
    squares = sum((len(group) - 1) * float(np.var(group, ddof=1)) for group in groups)
    return (squares / freedom) ** 0.5, freedom


def between_problems(cells: dict[tuple[str, str], list[Entrant]]) -> tuple[float, int]:
    """The deviation over problems of the difference of two methods, the mean over pairs of methods at one rate."""
    rates = {key: np.mean([run.correct.mean(axis=1) for run in runs], axis=0) for key, runs in cells.items()}
    spreads = [
        float(np.std(rates[one] - rates[other], ddof=1))
        for one, other in combinations(rates, 2)
        if one[1] == other[1] and one[0] != other[0]
    ]
    return float(np.mean(spreads)), len(next(iter(rates.values())))


def over_seeds(deviation: float, seeds: int, level: float) -> float:
    """The difference that a two-sided t-test of `seeds` runs each finds with the wanted power."""
    freedom, error = 2 * seeds - 2, deviation * (2 / seeds) ** 0.5
    limit = stats.t.ppf(1 - level / 2, freedom)

    def missing(difference: float) -> float:
        return float(stats.nct.sf(limit, freedom, difference / error)) - POWER

    return float(optimize.brentq(missing, 0.0, 60 * error))


if __name__ == "__main__":
    main()
