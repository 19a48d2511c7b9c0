"""The gym judge: reasoning-gym's datasets, scored without ever executing an answer."""

from agon.judges.gym.judge import GymJudge

__all__ = ["GymJudge"]
