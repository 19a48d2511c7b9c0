"""Simulate the statistics of `agon eval` and `agon compare`, and recompute the paper's intervals.

    python scripts/check_statistics.py [--runs 1000]

Prints three tables: the paper's eight intervals beside exact ones, the coverage of our intervals, and
how often our tests call equal arms different, each rate with its simulation error.
"""

import argparse
from math import sqrt

import numpy as np
from statsmodels.stats.proportion import proportion_confint

from agon.evaluate.intervals import (
    accuracy_interval,
    bootstrap_interval,
    clopper_pearson,
    mcnemar_exact,
    sign_flip,
)

PAPER = (
    ("zero-shot", 23, 18.4, 28.3),
    ("grpo", 30, 25.0, 35.4),
    ("self-refine", 32, 26.9, 37.5),
    ("self-cascade", 35, 29.7, 40.7),
    ("moa", 34, 28.8, 39.5),
    ("shared", 32, 26.9, 37.5),
    ("coop", 46, 40.3, 51.8),
    ("agon", 61, 55.2, 66.6),
)
# Problems, samples, and the beta distribution that a problem's own accuracy is drawn from.
ACCURACY = (
    (50, 4, 2, 2),
    (100, 8, 0.2, 0.6),
    (300, 4, 0.5, 1.5),
    (300, 4, 50, 50),
    (300, 2, 0.1, 10),
    (20, 4, 1, 1),
)
# Problems, samples, concentration of the beta distribution, true difference.
DIFFERENCE = ((100, 1, 2, 0.0), (300, 1, 2, 0.1), (300, 1, 0.2, 0.05), (60, 4, 2, 0.1), (50, 1, 1, 0.2))
EQUAL = ((100, 1, 2), (300, 1, 1), (60, 4, 2), (60, 8, 0.2))


def answers(rng: np.random.Generator, rates: np.ndarray, samples: int) -> np.ndarray:
    return rng.random((len(rates), samples)) < rates[:, None]


def paper() -> None:
    print("| method | paper | Clopper-Pearson, n = 300 | Jeffreys |\n| --- | --- | --- | --- |")
    for method, percent, low, high in PAPER:
        exact = clopper_pearson(3 * percent, 300)
        jeffreys = proportion_confint(3 * percent, 300, method="jeffreys")
        print(f"| {method} {percent} | [{low}, {high}] | {ends(exact)} | {ends(jeffreys)} |")


def ends(interval: tuple[float, float]) -> str:
    return "[{:.2f}, {:.2f}]".format(*(100 * end for end in interval))


def coverage(runs: int) -> None:
    print("\n| interval | problems | samples | difficulty | covered |\n| --- | ---: | ---: | --- | ---: |")
    for problems, samples, a, b in ACCURACY:
        rng = np.random.default_rng(0)
        truth = a / (a + b)
        seen = [accuracy_interval(answers(rng, rng.beta(a, b, problems), samples)) for _ in range(10 * runs)]
        show("accuracy", problems, samples, f"beta({a}, {b})", [low <= truth <= high for low, high in seen])
    for problems, samples, spread, gain in DIFFERENCE:
        rng = np.random.default_rng(0)
        hits = []
        for _ in range(runs):
            rates = rng.beta(spread, spread, problems) * (1 - gain)
            difference = answers(rng, rates + gain, samples).mean(1) - answers(rng, rates, samples).mean(1)
            low, high = bootstrap_interval(difference)
            hits.append(low <= gain <= high)
        show(f"difference {gain:g}", problems, samples, f"beta({spread}, {spread})", hits)


def false_positives(runs: int) -> None:
    print("\n| test at 5% | problems | samples | difficulty | rejected |\n| --- | ---: | ---: | --- | ---: |")
    for problems, samples, spread in EQUAL:
        rng = np.random.default_rng(0)
        rejected = []
        for _ in range(10 * runs if samples == 1 else runs):
            rates = rng.beta(spread, spread, problems)
            one, other = answers(rng, rates, samples), answers(rng, rates, samples)
            if samples == 1:
                p = mcnemar_exact(int((one & ~other).sum()), int((other & ~one).sum()))
            else:
                p = sign_flip(one.mean(1) - other.mean(1), resamples=999)
            rejected.append(p <= 0.05)
        name = "exact McNemar" if samples == 1 else "sign flips"
        show(name, problems, samples, f"beta({spread}, {spread})", rejected)


def show(name: str, problems: int, samples: int, difficulty: str, hits: list[bool]) -> None:
    rate = float(np.mean(hits))
    error = sqrt(rate * (1 - rate) / len(hits))
    print(
        f"| {name} | {problems} | {samples} | {difficulty} | {100 * rate:.1f} ± {100 * error:.1f} % |",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=1000,
        help="simulated evaluations per row; ten times as many where one is cheap",
    )
    arguments = parser.parse_args()
    paper()
    coverage(arguments.runs)
    false_positives(arguments.runs)
