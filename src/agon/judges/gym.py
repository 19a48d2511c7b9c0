"""The gym judge: reasoning-gym's own scorer for the problem's dataset.

A problem carries `metadata = {"gym": dataset name, "entry": the entry as generated}`. The scorers
give partial credit between 0 and 1; only the full score is correct.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agon.game.answers import final_answer
from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.judges.limits import Limits

FULL_SCORE = 1.0


@dataclass(frozen=True)
class GymJudge:
    """Correct if and only if the dataset's scorer gives the full score."""

    limits: Limits = field(default_factory=lambda: Limits(deadline=10.0, memory_bytes=4 << 30, patience=0.5))

    def warm(self) -> None:
        import reasoning_gym  # noqa: F401

    def judge(self, problem: Problem, answer: str) -> Verdict:
        name, entry = problem.metadata.get("gym"), problem.metadata.get("entry")
        if not isinstance(name, str) or not isinstance(entry, dict):
            return Verdict(False, "error", "A gym problem needs metadata 'gym' (the dataset) and 'entry'.")
        given = final_answer(answer, str.__eq__)
        if isinstance(given, Verdict):
            return given
        score = float(_dataset(name).score_answer(given, entry))
        if score >= FULL_SCORE:
            return Verdict(True, "correct")
        return Verdict(False, "wrong", f"{name} scored it {score:g} of {FULL_SCORE:g}.")


@lru_cache(maxsize=64)
def _dataset(name: str) -> Any:
    """A dataset of one entry: only its scorer is used."""
    import reasoning_gym

    return reasoning_gym.create_dataset(name, size=1, seed=0)
