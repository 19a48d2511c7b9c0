"""No wrong input ends in a traceback, is accepted in silence, or leaves anything behind."""

import collections
import os
from itertools import islice

import pytest

from tests.fuzz.cases import cases
from tests.fuzz.play import fault_of, guarded

SEED = int(os.environ.get("AGON_FUZZ_SEED", "0"))


def faults(count: int, seed: int) -> list[str]:
    """What was wrong in so many cases, each kind of case counted on standard output."""
    found, kinds = [], collections.Counter[str]()
    with guarded():
        for case in islice(cases(seed), count):
            kinds[case.kind] += 1
            fault = fault_of(case)
            if fault:
                found.append(f"{case.kind}: agon {' '.join(case.words)[:300]!r}\n{fault}")
    print(f"{count} cases, {len(found)} faults; {dict(kinds)}")
    return found


def test_a_few_hundred_wrong_inputs_each_end_in_one_sentence() -> None:
    assert faults(240, SEED) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(5400)
def test_twenty_thousand_wrong_inputs_each_end_in_one_sentence() -> None:
    assert faults(20_000, SEED + 1) == []
