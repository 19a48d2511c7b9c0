"""Intervals cover what they say, tests reject no more than they say, and both match published values."""

from fractions import Fraction
from math import comb, sqrt

import numpy as np
import pytest
from scipy.stats import binom

from agon.evaluate.intervals import (
    accuracy_interval,
    bootstrap_interval,
    clopper_pearson,
    contrast,
    holm,
    mcnemar_exact,
    pass_at_k,
    sign_flip,
    spread,
)

# The paper's table of confidence intervals: pass@1 in percent of 300 problems, and what it prints.
PAPER = {
    "zero-shot": (23, 18.4, 28.3),
    "grpo": (30, 25.0, 35.4),
    "self-refine": (32, 26.9, 37.5),
    "self-cascade": (35, 29.7, 40.7),
    "moa": (34, 28.8, 39.5),
    "shared": (32, 26.9, 37.5),
    "coop": (46, 40.3, 51.8),
    "agon": (61, 55.2, 66.6),
}
# The exact ones to 0.1. Only the last two rows of the paper's table agree at both ends: some others
# are those of Jeffreys, and no method gives all eight.
EXACT = {
    "zero-shot": (18.4, 28.2),
    "grpo": (24.9, 35.5),
    "self-refine": (26.8, 37.6),
    "self-cascade": (29.6, 40.7),
    "moa": (28.7, 39.7),
    "shared": (26.8, 37.6),
    "coop": (40.3, 51.8),
    "agon": (55.2, 66.6),
}


def answers(rng: np.random.Generator, rates: np.ndarray, samples: int) -> np.ndarray:
    return rng.random((len(rates), samples)) < rates[:, None]


def solved(percent: int) -> np.ndarray:
    """300 problems of which so many percent are solved."""
    return np.arange(300)[:, None] < 3 * percent


@pytest.mark.parametrize("method", PAPER)
def test_the_papers_eight_rows_have_these_exact_intervals(method: str) -> None:
    percent, *printed = PAPER[method]
    low, high = accuracy_interval(solved(percent))
    assert (round(100 * low, 1), round(100 * high, 1)) == EXACT[method]
    # By definition: at each end, a count as extreme as the one seen has probability 2.5%.
    assert binom.sf(3 * percent - 1, 300, low) == pytest.approx(0.025)
    assert binom.cdf(3 * percent, 300, high) == pytest.approx(0.025)
    assert (100 * low, 100 * high) == pytest.approx(printed, abs=0.17)


@pytest.mark.parametrize("trials", [10, 60])
def test_one_sample_per_problem_is_covered_exactly(trials: int) -> None:
    """No simulation: the coverage is a sum over all possible counts."""
    ends = [clopper_pearson(count, trials) for count in range(trials + 1)]
    for rate in np.linspace(0.005, 0.995, 100):
        inside = [low <= rate <= high for low, high in ends]
        assert binom.pmf(np.flatnonzero(inside), trials, rate).sum() >= 0.95


# Problems, samples, and the distribution of problems' difficulty: all alike, mixed, mostly hopeless.
CLUSTERS = [(50, 4, 2, 2), (100, 8, 0.2, 0.6), (40, 2, 50, 50), (60, 4, 0.3, 4)]


@pytest.mark.parametrize(("problems", "samples", "a", "b"), CLUSTERS)
def test_several_samples_per_problem_are_covered(problems: int, samples: int, a: float, b: float) -> None:
    rng = np.random.default_rng(7)
    truth, runs = a / (a + b), 1500
    ends = [accuracy_interval(answers(rng, rng.beta(a, b, problems), samples)) for _ in range(runs)]
    assert np.mean([low <= truth <= high for low, high in ends]) >= 0.95


def test_counting_samples_of_a_problem_as_independent_would_not_cover() -> None:
    rng = np.random.default_rng(7)
    runs = [answers(rng, rng.beta(0.2, 0.6, 100), 8) for _ in range(500)]
    ends = [clopper_pearson(int(run.sum()), run.size) for run in runs]
    assert np.mean([low <= 0.25 <= high for low, high in ends]) < 0.8


@pytest.mark.parametrize("value", [False, True])
def test_samples_that_never_differ_count_as_one(value: bool) -> None:
    assert accuracy_interval(np.full((20, 8), value)) == clopper_pearson(20 * value, 20)


def test_one_problem_says_little_however_often_it_is_sampled() -> None:
    low, high = accuracy_interval(np.array([[True, False, True, True]]))
    assert high - low > 0.9


@pytest.mark.parametrize(("problems", "samples", "gain"), [(50, 1, 0.0), (40, 4, 0.1)])
def test_the_interval_of_a_difference_covers(problems: int, samples: int, gain: float) -> None:
    rng = np.random.default_rng(3)
    hits = []
    for _ in range(300):
        rates = rng.beta(2, 2, problems) * (1 - gain)
        apart = answers(rng, rates + gain, samples).mean(1) - answers(rng, rates, samples).mean(1)
        low, high = bootstrap_interval(apart, resamples=2999)
        hits.append(low <= gain <= high)
    assert np.mean(hits) >= 0.95 - sqrt(0.95 * 0.05 / len(hits))  # 95% and its simulation error


def test_the_bootstrap_agrees_with_the_distribution_it_samples() -> None:
    """Drawing problems that differ by 0 or 1 is a binomial, whose quantiles are known."""
    per_problem = np.array([1.0] * 30 + [0.0] * 70)
    low, high = bootstrap_interval(per_problem, resamples=20_000)
    tail = 0.0238  # 2.5% at 99 degrees of freedom, after the expansion for n = 100
    assert low == pytest.approx(binom.ppf(tail, 100, 0.3) / 100, abs=0.011)
    assert high == pytest.approx(binom.ppf(1 - tail, 100, 0.3) / 100, abs=0.011)


def test_no_difference_seen_is_not_no_difference() -> None:
    low, high = bootstrap_interval(np.zeros(300))
    assert -0.02 < low < -0.01 < 0.01 < high < 0.02


def test_mcnemar_on_a_published_table() -> None:
    """Agresti's approval ratings: 150 and 86 of 1600 changed their mind; exact p = 3.716e-05 in R's exact2x2."""
    assert mcnemar_exact(150, 86) == pytest.approx(3.716e-05, rel=1e-3)


@pytest.mark.parametrize(("one", "other"), [(0, 0), (1, 0), (9, 3), (25, 25), (40, 11)])
def test_mcnemar_is_the_binomial_sum(one: int, other: int) -> None:
    total = one + other
    tail = sum(comb(total, count) for count in range(min(one, other) + 1))
    assert mcnemar_exact(one, other) == pytest.approx(float(min(Fraction(1), Fraction(2 * tail, 2**total))))


@pytest.mark.parametrize(("one", "other"), [(9, 3), (7, 1), (6, 6), (0, 1), (1, 1), (0, 0)])
def test_sign_flips_of_single_samples_are_mcnemars_test(one: int, other: int) -> None:
    assert sign_flip([1.0] * one + [-1.0] * other + [0.0] * 50) == pytest.approx(mcnemar_exact(one, other))


@pytest.mark.parametrize(("samples", "runs"), [(1, 2000), (4, 400)])
def test_equal_arms_are_called_different_at_most_one_time_in_twenty(samples: int, runs: int) -> None:
    rng = np.random.default_rng(11)
    rejected = 0
    for _ in range(runs):
        rates = rng.beta(0.5, 0.7, 80)
        one, other = answers(rng, rates, samples), answers(rng, rates, samples)
        if samples == 1:
            p = mcnemar_exact(int((one & ~other).sum()), int((other & ~one).sum()))
        else:
            p = sign_flip(one.mean(1) - other.mean(1), resamples=999)
        rejected += p <= 0.05
    assert rejected / runs <= 0.05


def test_mcnemar_over_correlated_samples_would_reject_too_often() -> None:
    """Why several samples are tested by problem: two arms of equal skill that know different problems."""
    rng = np.random.default_rng(5)
    naive = clustered = 0
    for _ in range(300):
        one, other = (answers(rng, rng.beta(0.2, 0.2, 60), 8) for _ in range(2))
        naive += mcnemar_exact(int((one & ~other).sum()), int((other & ~one).sum())) <= 0.05
        clustered += sign_flip(one.mean(1) - other.mean(1), resamples=499) <= 0.05
    assert naive / 300 > 0.3
    assert clustered / 300 < 0.09  # 5% and its simulation error


def test_a_contrast_names_what_it_did() -> None:
    one = np.array([[True], [True], [False], [True]])
    other = np.array([[True], [False], [True], [False]])
    found = contrast(one, other)
    assert (found.difference, found.only_first, found.only_second) == (0.25, 2, 1)
    assert (found.p, found.test) == (1.0, "exact McNemar")
    assert found.interval[0] < 0 < found.interval[1]
    assert contrast(one.repeat(2, 1), other.repeat(2, 1)).test == "sign flips by problem"


def test_unequal_numbers_of_samples_pair_by_problem_only() -> None:
    one = np.array([[True, True, False]] * 8)
    found = contrast(one, np.zeros((8, 2), dtype=bool))
    assert found.difference == pytest.approx(2 / 3)
    assert (found.only_first, found.only_second) == (None, None)
    assert found.p == pytest.approx(2 / 2**8)


def test_a_contrast_can_be_reversed() -> None:
    rng = np.random.default_rng(0)
    one, other = answers(rng, np.full(50, 0.7), 1), answers(rng, np.full(50, 0.3), 1)
    forth, back = contrast(one, other), contrast(other, one)
    assert forth.difference == -back.difference
    assert forth.p == back.p < 0.05
    assert forth.interval == pytest.approx((-back.interval[1], -back.interval[0]), abs=0.03)


def test_holm_steps_down() -> None:
    """By hand: 4 x 0.005, 3 x 0.01, 2 x 0.03, and never below the one before."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.2]) == pytest.approx([0.2])
    assert holm([]) == []


def test_pass_at_k_counts_problems() -> None:
    correct = np.array([[True, False], [False, False], [True, True], [False, True]])
    rate, interval = pass_at_k(correct)
    assert rate == 0.75
    assert interval == clopper_pearson(3, 4)


def test_the_spread_of_seeds_is_kept_apart_from_sampling_error() -> None:
    runs = [np.arange(100)[:, None] < solved for solved in (50, 60, 70)]
    seen = spread(runs)
    assert seen is not None
    assert seen.mean == pytest.approx(0.6)
    assert seen.training == pytest.approx(0.1)
    errors = [p * (1 - p) / 99 for p in (0.5, 0.6, 0.7)]
    assert seen.sampling == pytest.approx(sqrt(sum(errors) / 3))
    half = 4.302653 * 0.1 / sqrt(3)  # Student's t, two degrees of freedom
    assert seen.interval == pytest.approx((0.6 - half, 0.6 + half))
    assert spread(runs[:1]) is None
