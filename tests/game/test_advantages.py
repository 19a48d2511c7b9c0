"""Group-relative advantages: TRL's numbers, and nothing from a group without variance."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agon.game import group_advantages, has_signal
from agon.game.advantages import EPSILON

rewards = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 2.0, 2.5, 3.0, 3.5]), min_size=2, max_size=16)
any_rewards = st.lists(st.floats(-100, 100, allow_nan=False), min_size=2, max_size=16)


@given(rewards)
def test_advantages_are_those_of_trl(group: list[float]) -> None:
    values = torch.tensor(group, dtype=torch.float64)
    theirs = (values - values.mean()) / (values.std() + 1e-4)
    assert torch.tensor(group_advantages(group), dtype=torch.float64).allclose(theirs, rtol=0, atol=1e-9)


@given(rewards)
def test_unscaled_advantages_are_rewards_less_their_mean(group: list[float]) -> None:
    values = torch.tensor(group, dtype=torch.float64)
    ours = torch.tensor(group_advantages(group, scale="none"), dtype=torch.float64)
    assert ours.allclose(values - values.mean(), rtol=0, atol=1e-9)


@given(st.floats(-100, 100), st.integers(0, 16))
def test_a_group_without_variance_moves_nothing(value: float, size: int) -> None:
    assert group_advantages([value] * size) == [0.0] * size
    assert size == 0 or not has_signal([value] * size)


def test_a_group_of_one_moves_nothing() -> None:
    assert group_advantages([3.0]) == [0.0]


@given(any_rewards)
def test_advantages_sum_to_nothing(group: list[float]) -> None:
    assert sum(group_advantages(group)) == pytest.approx(0.0, abs=1e-6)


@given(any_rewards)
def test_advantages_keep_the_order_of_rewards(group: list[float]) -> None:
    by_reward = [advantage for _, advantage in sorted(zip(group, group_advantages(group), strict=True))]
    assert by_reward == sorted(by_reward)


@given(rewards, st.floats(-10, 10))
def test_a_constant_added_to_all_rewards_changes_nothing(group: list[float], shift: float) -> None:
    shifted = group_advantages([value + shift for value in group])
    assert shifted == pytest.approx(group_advantages(group), abs=1e-6)


@given(rewards)
def test_scaled_advantages_have_almost_unit_deviation(group: list[float]) -> None:
    if not has_signal(group):
        return
    advantages = torch.tensor(group_advantages(group), dtype=torch.float64)
    deviation = torch.tensor(group, dtype=torch.float64).std().item()
    assert math.isclose(advantages.std().item(), deviation / (deviation + EPSILON), rel_tol=1e-9)
