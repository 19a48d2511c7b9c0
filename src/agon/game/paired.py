"""The paired advantage: the conversion bonus without its noise.

`agon` pays 2 for a right challenge and 3 where the paired draft was wrong, then subtracts the mean of the
group. In a group whose challenges are all right, that mean still leaves advantages: the bonus tells the
drafts apart, and a right answer after a right draft is punished. Here the mean is taken of the challenges'
own outcomes first, and the draft's verdict weighs what is left:

    2 w_i (c_i - mean c),  w_i = 3/2 where the paired draft failed, 1 elsewhere

The weight does not depend on what the challenger writes, so the expected gradient is that of `agon`; a
group that ended alike has no advantage. Every other term of the reward, such as form, is taken less its
mean, as usual. `tests/game/test_paired.py` shows both by enumeration.
"""

from collections.abc import Sequence
from statistics import fmean

from agon.game.advantages import EPSILON, Scale, has_signal
from agon.game.duel import Duel
from agon.game.methods import Method
from agon.game.rewards import conversion


def challenge_values(group: Sequence[Duel], method: Method) -> list[float]:
    """What tells the challenges of a group apart: their rewards, or their paired values.

    A group in which these are all equal says nothing and is dropped.
    """
    rewards = [duel.challenge.reward for duel in group if duel.challenge is not None]
    if method.advantage == "group":
        return rewards
    pays = conversion in method.challenge_reward  # with a reward of one's own it may not be
    rivals = [not pays or group[duel.opponent or 0].draft.correct for duel in group]
    right = [duel.challenge is not None and duel.challenge.correct for duel in group]
    return paired_values(rewards, right, rivals)


def paired_values(
    rewards: Sequence[float], correct: Sequence[bool], rival_correct: Sequence[bool]
) -> list[float]:
    """Each reward less the group's mean, the conversion bonus less what the mean challenge earns of it.

    `rewards` hold the bonus of 1 that `agon` pays. After a right draft there is none to earn, or to miss.

    >>> paired_values([2.0, 3.0, 0.0], [True, True, False], [True, False, False])
    [0.6666666666666667, 1.0, -2.0]
    """
    bonus = [float(own and not rival) for own, rival in zip(correct, rival_correct, strict=True)]
    rest = [paid - extra for paid, extra in zip(rewards, bonus, strict=True)]
    mean_rest, mean_right = fmean(rest), fmean(map(float, correct))
    return [
        value - mean_rest + (0.0 if rival else own - mean_right)
        for value, own, rival in zip(rest, correct, rival_correct, strict=True)
    ]


def paired_advantages(values: Sequence[float], scale: Scale = "group") -> list[float]:
    """Paired values in units of their size: GRPO's deviation, taken about zero and not about their mean.

    To subtract their mean once more would turn the gradient; where all weights are equal it is zero, and
    the unit is GRPO's.
    """
    if len(values) < 2 or not has_signal(values):
        return [0.0] * len(values)
    if scale == "none":
        return list(values)
    unit = (sum(value**2 for value in values) / (len(values) - 1)) ** 0.5 + EPSILON
    return [value / unit for value in values]
