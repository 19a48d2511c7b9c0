"""A damaged run folder never ends in a traceback, and never in other adapters without a word."""

import collections
import os
import random
from collections.abc import Iterator

import pytest

from tests.fuzz.real_runs import Damaged, RealRuns

SEED = int(os.environ.get("AGON_FUZZ_SEED", "0"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRuns]:
    made = RealRuns(tmp_path_factory.mktemp("fuzz"))
    yield made
    made.close()


def faults(runs: RealRuns, count: int, seed: int, quick: bool = False) -> list[str]:
    """What was wrong in so many cases; what only a checkpoint's manifest can notice is left out without one."""
    rng, found, waiting = random.Random(seed), [], 0
    kinds = collections.Counter[str]()
    for _ in range(count):
        case = runs.draw(rng, quick)
        kinds[f"{case.words[0]} after {case.damage}"] += 1
        fault = runs.fault_of(case)
        if fault and case.of_a_checkpoint and not runs.manifest:
            waiting += 1
        elif fault:
            found.append(f"{case}\n{fault}")
    print(f"{count} cases, {len(found)} faults, {waiting} more that need a manifest; {dict(kinds)}")
    return found


def test_undamaged_runs_end_as_they_did(runs: RealRuns) -> None:
    """The reference itself: the half-finished run ends with the finished one's adapters."""
    none = Damaged(("train", "--resume", "half"), "none", "half/task.json", "half/task.json", 0)
    assert runs.fault_of(none) is None
    assert runs._weights(runs.place / "half") == runs.adapters


def test_damaged_runs_are_refused_in_one_sentence_or_end_alike(runs: RealRuns) -> None:
    assert faults(runs, 60, SEED, quick=True) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(14_400)
def test_five_thousand_damaged_runs_are_refused_in_one_sentence_or_end_alike(runs: RealRuns) -> None:
    assert faults(runs, 5_000, SEED + 1) == []
