"""What a judge is: any object with one method.

A judge sees the problem and the answer section of a rollout, never the rest of the text, and says
whether the answer is right. It runs in a worker process (`agon.judges.pool`), so it may block, crash
or use memory without harm to the caller.
"""

from typing import Protocol, runtime_checkable

from agon.game.problem import Problem
from agon.game.verdict import Verdict


@runtime_checkable
class Judge(Protocol):
    """Decides whether an answer solves a problem."""

    def judge(self, problem: Problem, answer: str) -> Verdict: ...
