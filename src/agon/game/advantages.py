"""Group-relative advantages, and the rule for groups that carry no signal.

This is the definition to read. A trainer has TRL compute the same numbers (sample standard deviation,
1e-4 added to it), once, and they are the ones that duels record; a test holds the two together.
"""

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Literal

Scale = Literal["group", "none"]
EPSILON = 1e-4


def has_signal(rewards: Sequence[float]) -> bool:
    """Whether a group's rewards differ at all. A group without variance is dropped everywhere."""
    return max(rewards) - min(rewards) > 1e-9


def group_advantages(rewards: Sequence[float], scale: Scale = "group") -> list[float]:
    """Each reward less the group's mean, in units of its standard deviation.

    A dropped group has advantage 0 everywhere: it moves nothing.
    """
    if len(rewards) < 2 or not has_signal(rewards):
        return [0.0] * len(rewards)
    mean = fmean(rewards)
    unit = stdev(rewards) + EPSILON if scale == "group" else 1.0
    return [(value - mean) / unit for value in rewards]
