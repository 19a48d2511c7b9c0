"""A damaged run folder never ends in a traceback, and never in other adapters without a word."""

import collections
import os
import random
from collections.abc import Iterator

import pytest

from tests.fuzz.real_runs import RealRuns, kind_of

SEED = int(os.environ.get("AGON_FUZZ_SEED", "0"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRuns]:
    made = RealRuns(tmp_path_factory.mktemp("fuzz"))
    yield made
    made.close()


def faults(runs: RealRuns, count: int, seed: int, quick: bool = False) -> list[str]:
    """What was wrong in so many cases; how many of which kind is printed."""
    rng, found = random.Random(seed), []
    kinds = {name: collections.Counter[str]() for name in ("command", "damage", "file")}
    for _ in range(count):
        case = runs.draw(rng, quick)
        kinds["command"][case.words[0]] += 1
        kinds["damage"][case.damage] += 1
        kinds["file"][kind_of(case.file)] += 1
        fault = runs.fault_of(case)
        if fault:
            found.append(f"{case}\n{fault}")
    print(f"{count} cases from seed {seed}, {len(found)} faults")
    for name, counted in kinds.items():
        print(f"by {name}: {dict(counted.most_common())}")
    return found


def test_undamaged_runs_end_as_they_did(runs: RealRuns) -> None:
    """The reference itself: the half-finished run ends with the finished one's adapters."""
    assert runs.undisturbed["train", "--resume", "half"] == runs.adapters
    assert runs.adapters.keys() == {"A", "B"}


def test_damaged_runs_are_refused_in_one_sentence_or_end_alike(runs: RealRuns) -> None:
    assert faults(runs, 60, SEED, quick=True) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(14_400)
def test_five_thousand_damaged_runs_are_refused_in_one_sentence_or_end_alike(runs: RealRuns) -> None:
    assert faults(runs, 5_000, SEED + 1) == []
