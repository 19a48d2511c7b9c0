"""The judge of the comparison in `benchmarks/against_pebble.py`: math, but it misbehaves if the answer says so.

The math judge is warmed up when this module is imported, because a module's import is all that
multiprocessing's fork server runs before it forks. Both pools call the same function.
"""

import os
import time

from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.judges.math import MathJudge
from tests.judges.own_judges import misbehave

MISBEHAVIOURS = ("hang", "sleep", "be killed", "grow")

_JUDGE = MathJudge()
_JUDGE.warm()


def judge(problem: Problem, answer: str) -> bool | Verdict:
    return misbehave(problem, answer) if answer in MISBEHAVIOURS else _JUDGE.judge(problem, answer)


def process_id() -> int:
    """The id of a worker, slowly, so that every worker is asked."""
    time.sleep(0.2)
    return os.getpid()
