"""The judge of the tiny task, which raises on every answer while a file is there."""

import os

from agon.game.problem import Problem
from tests.last_box import last_box

BROKEN = "AGON_TEST_BROKEN_JUDGE"


def breakable(problem: Problem, answer: str) -> bool:
    if os.path.exists(os.environ.get(BROKEN, "")):
        raise RuntimeError("this judge is broken")
    return bool(last_box(problem, answer))


def broken(problem: Problem, answer: str) -> bool:
    raise RuntimeError("this judge is broken")
