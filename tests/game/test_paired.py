"""The paired advantage: agon's expected gradient, and nothing where nothing was learned."""

import math
from itertools import product
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.game import (
    METHODS,
    Duel,
    Entry,
    Outcome,
    Problem,
    Rollout,
    Verdict,
    group_advantages,
    reward,
    rewards,
)
from agon.game.paired import challenge_values, paired_advantages, paired_values

Vector = list[float]
# An answer of the challenger: right or wrong, well formed or not. The third is right and badly written.
ANSWERS = ((True, True), (False, True), (True, False), (False, False))

parameters = st.lists(st.floats(-1.5, 1.5), min_size=2 * len(ANSWERS), max_size=2 * len(ANSWERS))
groups = st.lists(st.booleans(), min_size=2, max_size=4).map(tuple)


def probabilities(theta: Vector, rival_correct: bool) -> Vector:
    """A softmax with parameters that all contexts share and some that count where the rival failed."""
    size = len(ANSWERS)
    logits = [theta[y] + (0.0 if rival_correct else theta[size + y]) for y in range(size)]
    weights = [math.exp(logit) for logit in logits]
    return [weight / sum(weights) for weight in weights]


def score(theta: Vector, rival_correct: bool, answer: int) -> Vector:
    common = [(y == answer) - p for y, p in enumerate(probabilities(theta, rival_correct))]
    return common + ([0.0] * len(ANSWERS) if rival_correct else common)


def paid(answers: tuple[int, ...], rivals: tuple[bool, ...]) -> Vector:
    return [
        reward(rewards.COMPETITIVE, Outcome(*ANSWERS[answer], rival_correct=rival))
        for answer, rival in zip(answers, rivals, strict=True)
    ]


def agon_raw(answers: tuple[int, ...], rivals: tuple[bool, ...]) -> Vector:
    return group_advantages(paid(answers, rivals), "none")


def paired_raw(answers: tuple[int, ...], rivals: tuple[bool, ...]) -> Vector:
    return paired_values(paid(answers, rivals), [ANSWERS[answer][0] for answer in answers], rivals)


def expected_gradient(raw: object, theta: Vector, rivals: tuple[bool, ...]) -> Vector:
    """E[sum of advantage x gradient of log pi] over every combination of answers: exact, nothing sampled."""
    assert callable(raw)
    total = [0.0] * len(theta)
    for answers in product(range(len(ANSWERS)), repeat=len(rivals)):
        chance = math.prod(
            probabilities(theta, rival)[answer] for rival, answer in zip(rivals, answers, strict=True)
        )
        for rival, answer, value in zip(rivals, answers, raw(answers, rivals), strict=True):
            for at, part in enumerate(score(theta, rival, answer)):
                total[at] += chance * value * part
    return total


@settings(max_examples=25)
@given(parameters, groups)
def test_before_standardisation_the_expected_gradient_is_that_of_agon(
    theta: Vector, rivals: tuple[bool, ...]
) -> None:
    ours, agons = (expected_gradient(raw, theta, rivals) for raw in (paired_raw, agon_raw))
    assert ours == pytest.approx(agons, abs=1e-12)


def test_subtracting_the_mean_of_paired_values_once_more_would_turn_the_gradient() -> None:
    def recentred(answers: tuple[int, ...], rivals: tuple[bool, ...]) -> Vector:
        values = paired_raw(answers, rivals)
        return [value - fmean(values) for value in values]

    theta, rivals = [0.3, -0.2, 0.1, 0.4, 0.2, 0.5, -0.3, 0.1], (True, False, False)
    once = expected_gradient(paired_raw, theta, rivals)
    twice = expected_gradient(recentred, theta, rivals)
    dot = sum(x * y for x, y in zip(once, twice, strict=True))
    assert dot / (math.hypot(*once) * math.hypot(*twice)) < 1 - 1e-6


@given(st.booleans(), st.booleans(), st.lists(st.booleans(), min_size=2, max_size=16))
def test_a_group_whose_challenges_end_alike_has_no_advantage(
    correct: bool, well_formed: bool, rivals: list[bool]
) -> None:
    own = [Outcome(correct, well_formed, rival_correct=rival) for rival in rivals]
    earned = [reward(rewards.COMPETITIVE, outcome) for outcome in own]
    values = paired_values(earned, [correct] * len(rivals), rivals)
    assert paired_advantages(values) == [0.0] * len(rivals)


def test_in_such_a_group_agon_punishes_right_answers_after_right_drafts() -> None:
    """What the paired advantage is for: four right drafts of eight, and every challenge right."""
    rivals = [True] * 4 + [False] * 4
    earned = [reward(rewards.COMPETITIVE, Outcome(True, True, rival_correct=rival)) for rival in rivals]
    assert group_advantages(earned)[0] == pytest.approx(-0.94, abs=0.005)
    assert paired_advantages(paired_values(earned, [True] * 8, rivals)) == [0.0] * 8


@given(st.lists(st.booleans(), min_size=2, max_size=16), st.booleans())
def test_against_rivals_that_are_all_alike_the_advantages_are_those_of_coop(
    correct: list[bool], rival: bool
) -> None:
    earned = [reward(rewards.COMPETITIVE, Outcome(right, True, rival_correct=rival)) for right in correct]
    plain = [reward(rewards.COOPERATIVE, Outcome(right, True)) for right in correct]
    ours = paired_advantages(paired_values(earned, correct, [rival] * len(correct)))
    assert ours == pytest.approx(group_advantages(plain), abs=1e-3)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=16))
def test_the_weight_is_three_halves_where_the_draft_failed(group: list[tuple[bool, bool]]) -> None:
    correct, rivals = [own for own, _ in group], [rival for _, rival in group]
    earned = [reward(rewards.COMPETITIVE, Outcome(own, True, rival_correct=rival)) for own, rival in group]
    mean = fmean(map(float, correct))
    weights = [1.0 if rival else 1.5 for rival in rivals]
    expected = [2 * weight * (own - mean) for weight, own in zip(weights, correct, strict=True)]
    assert paired_values(earned, correct, rivals) == pytest.approx(expected, abs=1e-9)


def duel(index: int, draft: bool, challenge: bool, method: str) -> Duel:
    def entry(correct: bool, rival: bool, stack: rewards.Stack) -> Entry:
        rollout = Rollout("", 1, "stop", "A", 0)
        earned = reward(stack, Outcome(correct, True, rival_correct=rival))
        return Entry(rollout, Verdict(correct, "correct" if correct else "wrong"), True, earned)

    row = METHODS[method]
    return Duel(
        Problem("0", "?", "tiny", "1"),
        entry(draft, False, row.draft_reward),
        0,
        index,
        challenge=entry(challenge, draft, row.challenge_reward),
        opponent=index,
    )


def test_a_method_says_which_values_tell_its_challenges_apart() -> None:
    outcomes = [(True, True), (False, True), (False, True)]
    values = {
        name: challenge_values([duel(at, *each, name) for at, each in enumerate(outcomes)], METHODS[name])
        for name in ("coop", "agon", "agon-paired")
    }
    assert values["coop"] == [2.5, 2.5, 2.5]
    assert values["agon"] == [2.5, 3.5, 3.5]
    assert values["agon-paired"] == [0.0, 0.0, 0.0]
