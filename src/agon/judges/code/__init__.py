"""The code judge: programs run in a sandbox, and what they are tested against stays outside it."""

from agon.judges.code.judge import CodeJudge

__all__ = ["CodeJudge"]
