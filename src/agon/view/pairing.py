"""Runs side by side, paired by problem: how often each was right on it, and where they differ."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from agon.view.details import name_of
from agon.view.index import Index
from agon.view.query import outcome_of, select
from agon.view.words import Filter

Plain = dict[str, Any]


def paired(indexes: Sequence[Index], wanted: Filter, differ: bool) -> list[Plain]:
    """The problems that every run played, the largest difference first; `right` and `n` are by run.

    Right is the final answer: that of the challenge, or of the draft where there is none.
    """
    counts = [_by_problem(index, wanted) for index in indexes]
    common = set(counts[0]).intersection(*counts[1:])
    found = []
    for problem, title in indexes[0].problems:
        if problem not in common:
            continue
        shares = [count[problem] for count in counts]
        rates = [right / n for right, n, _ in shares]
        spread = max(rates) - min(rates)
        if spread or not differ:
            found.append(
                {
                    "problem": problem,
                    "title": title,
                    "right": [right for right, _, _ in shares],
                    "n": [n for _, n, _ in shares],
                    "first": [name for _, _, name in shares],
                    "spread": round(spread, 4),
                }
            )
    return sorted(found, key=lambda one: (-one["spread"], one["problem"]))


def _by_problem(index: Index, wanted: Filter) -> dict[str, tuple[int, int, str]]:
    """Of each problem that was played: how often it was right, how often played, and the name of one duel of it."""
    rows = index.snapshot().rows
    chosen = rows[np.sort(select(index, rows, wanted))]
    if not len(chosen):
        return {}
    right = outcome_of(chosen["flags"], "right")
    numbers, first, place = np.unique(chosen["problem"], return_index=True, return_inverse=True)
    every, good = np.bincount(place), np.bincount(place, weights=right)
    return {
        index.problems[number][0]: (int(good[at]), int(every[at]), name_of(chosen[first[at]]))
        for at, number in enumerate(numbers.tolist())
    }
