"""The copying trap, as exact statements about the package's own rewards and advantages.

A challenger copies its draft (right with p) or works the problem out (right with q). The one parameter is the logit of
the choice. Expected gradients are sums over everything that the drafts, choices and work of a group may come to.
"""

from collections.abc import Callable
from itertools import product

import pytest

from agon.game import METHODS, Outcome, group_advantages, reward, rewards
from agon.game.advantages import Scale

Case = tuple[bool, bool, bool]  # the draft is right, the challenger works it out, and would be right
CASES: list[Case] = list(product((False, True), (False, True), (False, True)))


def chance(case: Case, p: float, q: float, w: float) -> float:
    draft, works, solved = case
    return (p if draft else 1 - p) * (w if works else 1 - w) * (q if solved else 1 - q)


def choice_gradient(
    method: str, p: float, q: float, w: float = 0.5, size: int = 2, scale: Scale = "none"
) -> float:
    """E[Σ advantage · ∂ log π / ∂ choice] for a group of this size, by the method's reading and paying."""
    row, total = METHODS[method], 0.0
    for group in product(CASES, repeat=size):
        weight, paid = 1.0, []
        for number, (case, (_, works, solved)) in enumerate(zip(group, group, strict=True)):
            weight *= chance(case, p, q, w)
            read = row.draft_read(number, size)
            assert read is not None
            right = solved if works else group[read][0]
            paid.append(
                reward(
                    row.challenge_reward, Outcome(right, True, rival_correct=group[row.opponent(number)][0])
                )
            )
        for advantage, (_, works, _) in zip(group_advantages(paid, scale), group, strict=True):
            total += weight * advantage * (works - w)
    return total


@pytest.mark.parametrize("p", [0.2, 0.5, 0.6, 0.8])
@pytest.mark.parametrize(
    ("method", "threshold"),
    [
        ("coop", lambda p: p),
        ("agon", lambda p: 2 * p / (3 - p)),
        ("shuffled", lambda p: p),  # its copy, too, is paid for where its own pair failed
    ],
)
def test_the_choice_moves_towards_working_it_out_exactly_from_the_threshold_on(
    method: str, threshold: Callable[[float], float], p: float
) -> None:
    at = threshold(p)
    assert choice_gradient(method, p, at) == pytest.approx(0, abs=1e-12)
    assert choice_gradient(method, p, at - 0.02) < -1e-4
    assert choice_gradient(method, p, at + 0.02) > 1e-4


def test_the_margin_does_not_help_a_challenger_out_of_copying() -> None:
    """It is one and a half times the cooperative reward less a constant, so it pays to copy up to q = p."""
    assert METHODS["margin"].challenge_reward == rewards.MARGIN
    assert choice_gradient("margin", 0.6, 0.6) == pytest.approx(0, abs=1e-12)
    assert choice_gradient("margin", 0.6, 0.55) < 0 < choice_gradient("agon", 0.6, 0.55)


@pytest.mark.parametrize(("method", "low", "high"), [("coop", 0.58, 0.62), ("agon", 0.48, 0.54)])
def test_standardised_advantages_of_small_groups_keep_the_thresholds_nearly(
    method: str, low: float, high: float
) -> None:
    assert choice_gradient(method, 0.6, low, size=4, scale="group") < 0
    assert choice_gradient(method, 0.6, high, size=4, scale="group") > 0
