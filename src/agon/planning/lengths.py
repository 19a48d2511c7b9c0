"""How long completions are: a lognormal with a stated mean, cut off at a cap.

Reasoning models write many short solutions and a few very long ones, and what would go on beyond the
cap ends there, so some of them are exactly as long as the cap.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from random import Random
from statistics import NormalDist, fmean

from agon.errors import InputError

# Deviation of the logarithm. With the paper's mean of 6,100 tokens under a cap of 15,000, 0.7 lets 7% of
# the completions reach the cap.
SPREAD = 0.7
NORMAL = NormalDist()
# Rounds that the expected longest chain is averaged over.
REPEATS = 32


@dataclass(frozen=True)
class Lengths:
    """Completions of `mean` tokens on average, none longer than `cap`."""

    mean: int
    cap: int

    def __post_init__(self) -> None:
        if not 1 <= self.mean <= self.cap:
            raise InputError(
                f"Completions of {self.mean} tokens on average and at most {self.cap} do not exist: "
                "the mean must be at least 1 and no more than the cap."
            )

    @staticmethod
    def parse(text: str) -> "Lengths":
        """Lengths written as MEAN:CAP.

        >>> Lengths.parse("6100:15000")
        Lengths(mean=6100, cap=15000)
        """
        mean, colon, cap = text.partition(":")
        if not (colon and mean.isdecimal() and cap.isdecimal()):
            raise InputError(f"Lengths are written MEAN:CAP, such as 6100:15000, not '{text}'.")
        return Lengths(int(mean), int(cap))

    def at(self, share: float) -> int:
        """The length that this share of the completions, between 0 and 1, stays below."""
        if self.mean == self.cap:
            return self.cap
        return min(self.cap, max(1, round(math.exp(self._center + SPREAD * NORMAL.inv_cdf(share)))))

    def draw(self, seed: int) -> int:
        """One length, a function of the seed alone."""
        return self.at(min(max(Random(seed).random(), 1e-9), 1 - 1e-9))

    def longest_chain(self, chains: int, links: int) -> int:
        """How long the longest of so many chains is on average, each of so many completions in a row."""
        draws = Random(0)

        def longest() -> int:
            return max(
                sum(self.at(draws.uniform(1e-9, 1 - 1e-9)) for _ in range(links)) for _ in range(chains)
            )

        return round(fmean(longest() for _ in range(REPEATS)))

    @cached_property
    def square_mean(self) -> float:
        """The mean over tokens of how long their completion is: E[L²] / E[L]. Attention costs go by it."""
        lengths = [self.at((number + 0.5) / 200) for number in range(200)]
        return fmean(length**2 for length in lengths) / fmean(lengths)

    @cached_property
    def _center(self) -> float:
        """The mean of the logarithm for which the mean of the cut-off lengths is the stated one."""
        return _root(
            lambda center: _mean(center, self.cap) - self.mean, 0.0, math.log(self.cap) + 10 * SPREAD
        )


def _mean(center: float, cap: int) -> float:
    """E[min(X, cap)] of a lognormal X."""
    at_cap = (math.log(cap) - center) / SPREAD
    below = math.exp(center + SPREAD**2 / 2) * NORMAL.cdf(at_cap - SPREAD)
    return below + cap * (1 - NORMAL.cdf(at_cap))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function is zero."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return (low + high) / 2
