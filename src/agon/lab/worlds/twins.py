"""Twins: one method under two names, to see how often the lab finds a difference where there is none.

`again` is the row of `coop` in every column but its name, so two sets of runs with different seeds differ by chance
alone, and a test at 5% may call them different in 5% of all comparisons. One comparison of ten runs each cannot show a
rate; `false_claims` makes many, from made-up runs whose accuracies vary from seed to seed as trained ones do, and puts
them through the same statistics (`python -m agon.lab.worlds.twins` prints the rates).

The tests answer different questions, and only one of them is about methods. Welch's test over runs asks whether new
trainings would differ. The test paired by problem asks whether *these runs* differ, and runs of one method do.
"""

import numpy as np

from agon.game.methods import METHODS
from agon.lab.worlds.play import contrasts
from agon.printing import say

again = METHODS["coop"]
ONE, OTHER = "coop", "coop-again"


def false_claims(
    comparisons: int,
    seeds: int = 10,
    problems: int = 300,
    spread: float = 0.05,
    level: float = 0.05,
    seed: int = 0,
) -> dict[str, float]:
    """The share of comparisons of equal methods that each test calls different.

    `spread` is the deviation of a run's true accuracy, around 0.6, from one training seed to the next.
    """
    rng = np.random.default_rng(seed)
    found = {"over runs (Welch)": 0, "paired by problem": 0}
    for _ in range(comparisons):
        hardness = rng.normal(0, 0.15, problems)
        outcomes = []
        for method in (ONE, OTHER):
            for run in range(seeds):
                truth = np.clip(0.6 + hardness + rng.normal(0, spread), 0, 1)
                right = [_marks(rng.random(problems) < truth) for _ in range(2)]
                outcomes.append({"world": "made up", "method": method, "seed": run, "right": right})
        (row,) = contrasts(outcomes, [(ONE, OTHER)])
        found["over runs (Welch)"] += row["across_seeds"]["p"] <= level
        found["paired by problem"] += row["p"] <= level
    return {name: count / comparisons for name, count in found.items()}


def _marks(right: np.ndarray) -> str:
    return "".join("01"[bool(mark)] for mark in right)


if __name__ == "__main__":
    for spread in (0.0, 0.05):
        rates = false_claims(200, spread=spread)
        said = ", ".join(f"{name} {100 * rate:.1f}%" for name, rate in rates.items())
        say(f"runs that deviate by {100 * spread:g} points: called different at 5%: {said}", flush=True)
