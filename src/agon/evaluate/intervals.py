"""How sure a figure is: intervals and paired tests, all of them from scipy and statsmodels.

The unit of chance is the problem. With one sample per problem an accuracy is a binomial proportion
and its interval is Clopper–Pearson's. With several samples per problem the answers to one problem
go together, so counting them as independent would make the interval too short: it is then
Clopper–Pearson's at the effective sample size of Korn and Graubard (1998), as in survey statistics.
Two runs are compared problem by problem.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

Interval = tuple[float, float]
LEVEL = 0.95
RESAMPLES = 9_999


def clopper_pearson(successes: float, trials: float, level: float = LEVEL) -> Interval:
    """The exact interval of a binomial proportion.

    >>> [round(100 * end, 1) for end in clopper_pearson(183, 300)]
    [55.2, 66.6]
    """
    low, high = proportion_confint(successes, trials, alpha=1 - level, method="beta")
    return float(low), float(high)


def accuracy_interval(correct: np.ndarray, level: float = LEVEL) -> Interval:
    """The interval of a mean accuracy from `correct[problem, sample]`.

    Clopper–Pearson's for one sample per problem. For more, the same at the effective sample size:
    the number of independent answers that would vary as much as the problems' means do.
    """
    problems, samples = correct.shape
    if samples == 1 or problems == 1:
        # One problem says nothing of how problems vary: its samples count as one answer.
        return clopper_pearson(float(correct.mean(axis=1).sum()), problems, level)
    effective = _effective_size(correct, level)
    return clopper_pearson(float(correct.mean()) * effective, effective, level)


def _effective_size(correct: np.ndarray, level: float) -> float:
    problems, samples = correct.shape
    accuracy = float(correct.mean())
    spread = float(correct.mean(axis=1).var(ddof=1)) / problems
    independent = problems * samples
    # All right, all wrong: nothing tells the samples of a problem apart, so they count as one.
    if accuracy in (0.0, 1.0):
        return problems
    size = accuracy * (1 - accuracy) / spread if spread else independent
    # The spread is itself an estimate, from few problems a poor one: Student's t pays for that.
    tail = (1 + level) / 2
    size *= (stats.t.ppf(tail, independent - 1) / stats.t.ppf(tail, problems - 1)) ** 2
    return min(size, independent)


@dataclass(frozen=True)
class Contrast:
    """Two arms on the same problems. `difference` is the first's accuracy less the second's.

    `only_first` counts the samples that the first got right and the second wrong; where the arms have
    different numbers of samples there are no such pairs, and it is None.
    """

    difference: float
    interval: Interval
    only_first: int | None
    only_second: int | None
    p: float
    test: str


def contrast(first: np.ndarray, second: np.ndarray, level: float = LEVEL, seed: int = 0) -> Contrast:
    """Compare two arms from `correct[problem, sample]`, paired by problem and, where they can be, by sample."""
    if len(first) != len(second):
        raise ValueError(f"Paired arms have the same problems, not {len(first)} and {len(second)} of them.")
    packed = [(np.ascontiguousarray(arm, dtype=bool).tobytes(), *arm.shape) for arm in (first, second)]
    return _contrast(packed[0], packed[1], level, seed)


Packed = tuple[bytes, int, int]  # an arm that can be remembered


@lru_cache(
    maxsize=1024
)  # a report asks for the same contrast in several of its tables, at a fifth of a second each
def _contrast(one: Packed, other: Packed, level: float, seed: int) -> Contrast:
    first, second = (
        np.frombuffer(answers, dtype=bool).reshape(problems, samples)
        for answers, problems, samples in (one, other)
    )
    paired = first.shape == second.shape
    only_first = int((first & ~second).sum()) if paired else None
    only_second = int((second & ~first).sum()) if paired else None
    per_problem = first.mean(axis=1) - second.mean(axis=1)
    if only_first is not None and only_second is not None and first.shape[1] == 1:
        p, test = mcnemar_exact(only_first, only_second), "exact McNemar"
    else:
        p, test = sign_flip(per_problem, seed=seed), "sign flips by problem"
    return Contrast(
        difference=float(per_problem.mean()),
        interval=bootstrap_interval(per_problem, level, seed=seed),
        only_first=only_first,
        only_second=only_second,
        p=p,
        test=test,
    )


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """The exact two-sided p-value of McNemar's test from the discordant counts."""
    table = [[0, only_first], [only_second, 0]]
    return float(min(1.0, mcnemar(table, exact=True).pvalue))


def sign_flip(differences: Sequence[float] | np.ndarray, seed: int = 0, resamples: int = RESAMPLES) -> float:
    """The p-value of paired differences under flips of their signs.

    With one sample per problem this is McNemar's exact test; with several it still takes a problem
    as one unit, which McNemar's test over all samples would not.
    """
    moved = np.asarray([value for value in differences if value])
    if moved.size < 2:  # one difference is as large with either sign
        return 1.0
    result = stats.permutation_test(
        (moved,),
        lambda flipped, axis: flipped.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        rng=np.random.default_rng(seed),
    )
    return float(min(1.0, result.pvalue))


def bootstrap_interval(
    per_problem: np.ndarray, level: float = LEVEL, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """The interval of a mean over problems, by drawing problems with replacement.

    Percentiles of a bootstrap are a little narrow, by the bias of a sample's deviation and by
    leaving out that the deviation is estimated; the level is raised to make up for it (the expanded
    percentile interval of Hesterberg, 2015).
    """
    problems = len(per_problem)
    if problems < 2 or np.ptp(per_problem) == 0:
        return _no_difference_seen(float(np.mean(per_problem)), problems, level)
    wide = math.sqrt(problems / (problems - 1)) * stats.t.ppf((1 + level) / 2, problems - 1)
    result = stats.bootstrap(
        (per_problem,),
        np.mean,
        confidence_level=1 - 2 * stats.norm.sf(wide),
        n_resamples=resamples,
        method="percentile",
        batch=max(1, 2_000_000 // problems),
        rng=np.random.default_rng(seed),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def _no_difference_seen(value: float, problems: int, level: float) -> Interval:
    """Where every problem shows the same difference, what Clopper–Pearson allows to have been missed."""
    reach = clopper_pearson(0, problems, level)[1]
    return max(-1.0, value - reach), min(1.0, value + reach)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values after Holm's correction for the number of contrasts."""
    return [float(p) for p in multipletests(list(p_values), method="holm")[1]] if p_values else []


def pass_at_k(correct: np.ndarray) -> tuple[float, Interval]:
    """How often at least one of a problem's samples is right, with its exact interval."""
    solved = int(correct.any(axis=1).sum())
    return solved / len(correct), clopper_pearson(solved, len(correct))


@dataclass(frozen=True)
class Spread:
    """Runs that differ by their seed only: training's own spread, apart from the sampling error.

    `training` is the deviation of the runs' accuracies; it contains the sampling error of one run,
    `sampling`. `interval` is Student's over the runs and covers both.
    """

    mean: float
    training: float
    sampling: float
    interval: Interval
    runs: int


def spread(runs: Sequence[np.ndarray], level: float = LEVEL) -> Spread | None:
    """The spread of at least two runs, each given as `correct[problem, sample]`."""
    if len(runs) < 2:
        return None
    means = np.array([run.mean() for run in runs])
    errors = [run.mean(axis=1).std(ddof=1) / math.sqrt(len(run)) for run in runs]
    deviation = float(means.std(ddof=1))
    half = stats.t.ppf((1 + level) / 2, len(runs) - 1) * deviation / math.sqrt(len(runs))
    mean = float(means.mean())
    return Spread(
        mean=mean,
        training=deviation,
        sampling=float(np.sqrt(np.mean(np.square(errors)))),
        interval=(max(0.0, mean - float(half)), min(1.0, mean + float(half))),
        runs=len(runs),
    )
