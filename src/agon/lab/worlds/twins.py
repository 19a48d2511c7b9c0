"""Twins: one method under two names, to see how often the lab finds a difference where there is none.

`again` is the row of `coop` in every column but its name, so two sets of runs with different seeds differ by chance
alone, and a test at 5% may call them different in 5% of all comparisons. One comparison of ten runs each cannot show a
rate; `false_claims` makes many, from made-up runs whose accuracies vary from seed to seed as trained ones do, and puts
them through the tests of `agon compare` (`python -m agon.lab.worlds.twins` prints the rates, in two minutes or so).

The tests answer different questions, and only one of them is about methods. Welch's test over runs asks whether new
trainings would differ. The test paired by problem asks whether *these runs* differ, and runs of one method do.
"""

import numpy as np
from scipy import stats

from agon.evaluate.intervals import clopper_pearson, contrast
from agon.game.methods import METHODS
from agon.printing import say

again = METHODS["coop"]
ONE, OTHER = "coop", "coop-again"
OVER_RUNS, BY_PROBLEM = "over runs (Welch)", "paired by problem"
COMPARISONS, PAIRED = 5000, 100  # the second test takes a third of a second


def false_claims(
    comparisons: int,
    paired: int | None = None,
    seeds: int = 10,
    problems: int = 300,
    spread: float = 0.05,
    level: float = 0.05,
    seed: int = 0,
) -> dict[str, tuple[int, int]]:
    """How many comparisons of equal methods each test calls different, and of how many; `paired` has the first ones.

    `spread` is the deviation of a run's true accuracy, around 0.6, from one training seed to the next.
    """
    rng = np.random.default_rng(seed)
    paired = comparisons if paired is None else paired
    called = {OVER_RUNS: 0, BY_PROBLEM: 0}
    for number in range(comparisons):
        hardness = rng.normal(0, 0.15, problems)
        one, other = (_side(rng, hardness, seeds, spread) for _ in range(2))
        called[OVER_RUNS] += welch(one, other) <= level
        if number < paired:
            tested = contrast(np.concatenate(one, axis=1), np.concatenate(other, axis=1))
            called[BY_PROBLEM] += tested.p <= level
    return {OVER_RUNS: (called[OVER_RUNS], comparisons), BY_PROBLEM: (called[BY_PROBLEM], paired)}


def _side(rng: np.random.Generator, hardness: np.ndarray, seeds: int, spread: float) -> list[np.ndarray]:
    """Runs of one method, each as `correct[problem, sample]` with a sample of each direction."""
    truths = [np.clip(0.6 + hardness + rng.normal(0, spread), 0, 1) for _ in range(seeds)]
    return [rng.random((len(hardness), 2)) < truth[:, None] for truth in truths]


def welch(one: list[np.ndarray], other: list[np.ndarray]) -> float:
    """The p-value over runs, as in `agon compare` and without the rest of what it computes."""
    accuracies = ([float(run.mean()) for run in side] for side in (one, other))
    return float(stats.ttest_ind(*accuracies, equal_var=False).pvalue)


def main() -> None:
    for spread in (0.0, 0.05):
        for test, (called, made) in false_claims(COMPARISONS, PAIRED, spread=spread).items():
            low, high = clopper_pearson(called, made)
            say(
                f"runs that deviate by {100 * spread:g} points, {test}: {called} of {made} called different, "
                f"{100 * called / made:.1f}% ({100 * low:.1f} to {100 * high:.1f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
