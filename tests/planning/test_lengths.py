"""Lengths of completions: the stated mean under the stated cap."""

import doctest
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.engines.protocol import derive_seed
from agon.errors import InputError
from agon.planning import lengths
from agon.planning.lengths import Lengths


@given(st.integers(20, 5000), st.floats(0.1, 1.0))
def test_the_mean_is_the_stated_one_and_the_cap_is_kept(cap: int, share: float) -> None:
    wanted = Lengths(max(1, int(cap * share)), cap)
    found = [wanted.at((number + 0.5) / 2000) for number in range(2000)]
    assert fmean(found) == pytest.approx(wanted.mean, rel=0.02, abs=0.6)
    assert max(found) <= cap
    assert min(found) >= 1


def test_a_length_follows_from_its_seed_alone() -> None:
    paper = Lengths(6100, 15_000)
    seeds = [derive_seed(number) for number in range(4000)]
    drawn = [paper.draw(seed) for seed in seeds]
    assert drawn == [paper.draw(seed) for seed in seeds]
    assert fmean(drawn) == pytest.approx(6100, rel=0.04)
    assert 0.04 < fmean(length == 15_000 for length in drawn) < 0.08


def test_a_mean_equal_to_the_cap_makes_every_completion_that_long() -> None:
    assert {Lengths(50, 50).draw(seed) for seed in range(20)} == {50}


def test_the_longest_of_more_chains_is_longer_and_never_beyond_its_links() -> None:
    paper = Lengths(6100, 15_000)
    chains = [paper.longest_chain(count, 2) for count in (1, 8, 64)]
    assert chains == sorted(chains)
    assert 10_000 < chains[0] < 14_500
    assert chains[-1] < 30_000
    assert paper.longest_chain(64, 1) <= 15_000


@pytest.mark.parametrize("text", ["6100", "6100:", ":15000", "a:b", "6100:15000:1", "-1:5", "6.1:15"])
def test_lengths_that_are_not_mean_and_cap_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="written MEAN:CAP"):
        Lengths.parse(text)


@pytest.mark.parametrize("text", ["0:10", "11:10"])
def test_a_mean_that_no_completions_have_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="do not exist"):
        Lengths.parse(text)


def test_the_examples_run() -> None:
    assert doctest.testmod(lengths).failed == 0
