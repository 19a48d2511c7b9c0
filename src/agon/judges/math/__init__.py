"""The math judge: whether an answer equals the gold, decided by text, by exact arithmetic or by value."""

from agon.judges.math.judge import MathJudge

__all__ = ["MathJudge"]
