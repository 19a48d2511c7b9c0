"""A judge that tosses a seeded coin, for rehearsals: the same answer gets the same verdict every time.

Random weights solve nothing, and groups whose rewards do not differ are dropped before the gradient.
"""

import hashlib

from agon.game.problem import Problem

COIN = "agon.lab.rehearsal.coin:coin"


def coin(problem: Problem, answer: str) -> bool:
    """Heads or tails, decided by the problem and the answer."""
    return bool(hashlib.blake2b(f"{problem.id} {answer}".encode()).digest()[0] & 1)
