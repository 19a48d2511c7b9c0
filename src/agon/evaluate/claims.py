"""A claim about two sides of a comparison, tested: how large, how sure, over problems and over seeds, and what power.

Two questions stay apart, as in `compare`: whether these training runs differ by more than the choice of problems could
make them (paired by problem, Holm's correction over the claims tested together), and whether new training runs would
(Welch's test over the runs' accuracies, which needs two seeds on both sides).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from agon.evaluate.compare import Entrant, Side, compare, sides
from agon.evaluate.intervals import Interval, contrast

LEVEL = 0.05
POWER = 0.8


@dataclass(frozen=True)
class Difference:
    """What a comparison of two sides gave. Rates are fractions.

    `visible` is the smallest difference that such a test over these problems finds in 8 of 10 cases, corrected for as
    many claims; `visible_over_seeds` the same for Welch's test with the spread and the number of these runs.
    """

    first: str
    second: str
    first_rate: float
    second_rate: float
    difference: float
    interval: Interval
    p: float
    p_holm: float
    test: str
    visible: float
    seeds: tuple[int, int]
    p_seeds: float | None = None
    seeds_interval: Interval | None = None
    visible_over_seeds: float | None = None


def claim_differences(entrants: Sequence[Entrant], pairs: Sequence[tuple[str, str]]) -> list[Difference]:
    """The pairs of sides, each tested; corrected by Holm for their number."""
    if not pairs:
        return []
    table = {side.label: side for side in sides(entrants)}
    rows = compare(entrants, pairs)["contrasts"]
    found = []
    for row in rows:
        one, other = table[row["first"]], table[row["second"]]
        over_runs = row["across_seeds"]
        found.append(
            Difference(
                one.label,
                other.label,
                float(one.correct.mean()),
                float(other.correct.mean()),
                row["difference"],
                (row["ci95"][0], row["ci95"][1]),
                row["p"],
                row["p_holm"],
                row["test"],
                visible_difference(one.correct, other.correct, len(pairs)),
                (len(one.entrants), len(other.entrants)),
                over_runs["p"] if over_runs else None,
                (over_runs["ci95"][0], over_runs["ci95"][1]) if over_runs else None,
                visible_over_seeds(one, other),
            )
        )
    return found


def pair_difference(
    first: str, second: str, one: np.ndarray, other: np.ndarray, seeds: tuple[int, int] = (1, 1)
) -> Difference:
    """Two arms on the same problems that are no sides of a comparison, such as a final and its reader alone."""
    seen = contrast(one, other)
    return Difference(
        first,
        second,
        float(one.mean()),
        float(other.mean()),
        seen.difference,
        seen.interval,
        seen.p,
        seen.p,
        seen.test,
        visible_difference(one, other),
        seeds,
    )


def visible_difference(one: np.ndarray, other: np.ndarray, claims: int = 1) -> float:
    """The smallest difference that a paired test at 5% finds in 8 of 10 cases, with this many problems.

    Of several `claims` it is one that is seen where all others are open: Holm then asks for 5% divided by their number.
    The normal approximation with the deviation that the problems' differences have here; where they have none, that of
    one problem that differs.
    """
    per_problem = one.mean(axis=1) - other.mean(axis=1)
    problems = len(per_problem)
    if problems < 2:
        return 1.0
    deviation = float(per_problem.std(ddof=1)) or 1 / math.sqrt(problems)
    return min(1.0, float(_z(1 - LEVEL / claims / 2) + _z(POWER)) * deviation / math.sqrt(problems))


def visible_over_seeds(one: Side, other: Side) -> float | None:
    """The same for Welch's test over the runs; None where a side has one run, or no spread at all."""
    runs = [[float(entrant.correct.mean()) for entrant in side.entrants] for side in (one, other)]
    if min(map(len, runs)) < 2:
        return None
    parts = [float(np.var(values, ddof=1)) / len(values) for values in runs]
    if not sum(parts):
        return None
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, runs, strict=True)
    )
    reach = float(stats.t.ppf(1 - LEVEL / 2, freedom) + stats.t.ppf(POWER, freedom))
    return min(1.0, reach * math.sqrt(sum(parts)))


def _z(share: float) -> float:
    return float(stats.norm.ppf(share))
