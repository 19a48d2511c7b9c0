"""The paper's claims about the reward, as exact statements.

The policy is a softmax over three answers whose logits depend on parameters shared by all contexts
and on parameters that count only where the rival's draft is wrong. Expected gradients are sums over
every combination of answers of a group: nothing is sampled, so equality means equality up to
rounding.
"""

import math
from itertools import product
from statistics import stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.game import Outcome, group_advantages, reward, rewards
from agon.game.advantages import EPSILON, Scale

ANSWERS = 3
RIGHT = 0  # the answer that is correct
Vector = list[float]

parameters = st.lists(st.floats(-1.5, 1.5), min_size=2 * ANSWERS, max_size=2 * ANSWERS)


def probabilities(theta: Vector, rival_correct: bool) -> Vector:
    """The challenger's distribution over answers in a context."""
    logits = [theta[y] + (0.0 if rival_correct else theta[ANSWERS + y]) for y in range(ANSWERS)]
    weights = [math.exp(logit) for logit in logits]
    return [weight / sum(weights) for weight in weights]


def score(theta: Vector, rival_correct: bool, answer: int) -> Vector:
    """The gradient of log π(answer | context) by the parameters."""
    common = [(y == answer) - p for y, p in enumerate(probabilities(theta, rival_correct))]
    return common + ([0.0] * ANSWERS if rival_correct else common)


def expected_gradient(
    stack: rewards.Stack, theta: Vector, opponents: tuple[bool, ...], scale: Scale = "none"
) -> Vector:
    """E[Σ advantage · ∇ log π] over all answers of a group that meets these opponents."""
    total = [0.0] * (2 * ANSWERS)
    for answers in product(range(ANSWERS), repeat=len(opponents)):
        weight = math.prod(
            probabilities(theta, rival)[answer] for rival, answer in zip(opponents, answers, strict=True)
        )
        paid = [
            reward(stack, Outcome(answer == RIGHT, True, rival_correct=rival))
            for rival, answer in zip(opponents, answers, strict=True)
        ]
        for rival, answer, advantage in zip(opponents, answers, group_advantages(paid, scale), strict=True):
            for at, part in enumerate(score(theta, rival, answer)):
                total[at] += weight * advantage * part
    return total


def cosine(one: Vector, other: Vector) -> float:
    dot = sum(x * y for x, y in zip(one, other, strict=True))
    return dot / (math.hypot(*one) * math.hypot(*other))


@given(
    st.lists(st.booleans(), min_size=2, max_size=16).filter(lambda group: len(set(group)) == 2),
    st.booleans(),
    st.booleans(),
)
def test_a_group_constant_conversion_bonus_yields_the_advantages_of_no_bonus(
    correct: list[bool], rival_correct: bool, well_formed: bool
) -> None:
    """Equal once the ε of the denominator is taken out; with it, apart by ε/(2s) of an advantage at most.

    s is the deviation of c(b): the rewards deviate by 2s without and 3s with the bonus, and
    3d/(3s+ε) over 2d/(2s+ε) lies between 1 and 1 + ε/(2s).
    """
    own = [Outcome(right, well_formed, rival_correct=rival_correct) for right in correct]
    with_bonus = [reward(rewards.COMPETITIVE, outcome) for outcome in own]
    without = [reward(rewards.COOPERATIVE, outcome) for outcome in own]
    bonus_advantages, plain_advantages = group_advantages(with_bonus), group_advantages(without)
    assert [
        advantage * (stdev(with_bonus) + EPSILON) / stdev(with_bonus) for advantage in bonus_advantages
    ] == pytest.approx(
        [advantage * (stdev(without) + EPSILON) / stdev(without) for advantage in plain_advantages], abs=1e-12
    )
    bound = EPSILON / (2 * stdev(map(float, correct)))
    for ours, plain in zip(bonus_advantages, plain_advantages, strict=True):
        assert abs(ours - plain) <= bound * abs(plain) + 1e-12


def test_a_group_constant_bonus_still_shifts_the_weight_of_form_against_correctness() -> None:
    """The claim above is for groups of equal form: 3c + λφ is no multiple of 2c + λφ where φ varies."""
    own = [Outcome(True, False), Outcome(False, True), Outcome(False, False)]
    with_bonus = group_advantages([reward(rewards.COMPETITIVE, outcome) for outcome in own])
    without = group_advantages([reward(rewards.COOPERATIVE, outcome) for outcome in own])
    assert with_bonus[1] - with_bonus[2] < without[1] - without[2] - 0.1


@settings(max_examples=40)
@given(parameters, st.lists(st.booleans(), min_size=2, max_size=4).map(tuple))
def test_the_margin_points_where_cooperation_points(theta: Vector, opponents: tuple[bool, ...]) -> None:
    """Unnormalised, for any opponents: 3c(b) - c(a) is one and a half times 2c(b), and nothing else."""
    cooperative = expected_gradient(rewards.COOPERATIVE, theta, opponents)
    margin = expected_gradient(rewards.MARGIN, theta, opponents)
    assert margin == pytest.approx([1.5 * part for part in cooperative], abs=1e-12)


@settings(max_examples=40)
@given(parameters, st.integers(2, 4), st.booleans())
def test_the_conversion_bonus_keeps_the_direction_against_equal_opponents(
    theta: Vector, size: int, rival_correct: bool
) -> None:
    opponents = (rival_correct,) * size
    cooperative = expected_gradient(rewards.COOPERATIVE, theta, opponents)
    competitive = expected_gradient(rewards.COMPETITIVE, theta, opponents)
    factor = 1.0 if rival_correct else 1.5
    assert competitive == pytest.approx([factor * part for part in cooperative], abs=1e-12)


@settings(max_examples=40)
@given(parameters, st.sampled_from([(True, False), (False, True, True), (True, False, True, False)]))
def test_the_conversion_bonus_turns_the_gradient_where_opponents_vary(
    theta: Vector, opponents: tuple[bool, ...]
) -> None:
    """It leans towards the contexts in which the rival failed."""
    cooperative = expected_gradient(rewards.COOPERATIVE, theta, opponents)
    competitive = expected_gradient(rewards.COMPETITIVE, theta, opponents)
    assert cosine(cooperative, competitive) < 1 - 1e-6
    # The last parameters act only where the rival failed, the first everywhere.
    share = [math.hypot(*g[ANSWERS:]) / math.hypot(*g) for g in (cooperative, competitive)]
    assert share[1] > share[0]


@settings(max_examples=25)
@given(parameters)
def test_standardised_the_bonus_still_turns_the_gradient_only_where_opponents_vary(theta: Vector) -> None:
    for opponents, turns in (((False,) * 3, False), ((True,) * 3, False), ((True, False, False), True)):
        cooperative = expected_gradient(rewards.COOPERATIVE, theta, opponents, "group")
        competitive = expected_gradient(rewards.COMPETITIVE, theta, opponents, "group")
        assert (cosine(cooperative, competitive) < 1 - 1e-6) == turns
