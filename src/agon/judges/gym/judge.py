"""The gym judge: correct if and only if the answer earns the dataset's full score.

A problem carries `metadata = {"gym": dataset name, "entry": the entry as generated}`.

reasoning-gym's scorers are not built for hostile answers. Nine evaluate an answer as Python, two more
evaluate parts of the entry, and others look for the right answer anywhere in a text ("It is not 405, it is
7."). So every dataset is in one of these tables, and `tests/judges/test_gym.py` holds them to the library:

- `OWN_SCORERS`: we score it ourselves; the library's scorer is never called.
- `FORMS`: an answer must have the form of an answer, all of it; then the library's scorer decides.
- `COMPARED`: the library's scorer compares the whole answer, and executes nothing.

A dataset in none of them (`boxnet`, `composite`, or one that the library gains later) has not been made
safe. It is scored in the sandbox, one answer a process: the worst that an answer can do there is decide its
own score. Training refuses such a dataset unless asked for it (`agon.tasks.gym`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agon.game.answers import final_answer
from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.judges.gym.forms import COMPARED, FORMS
from agon.judges.gym.sandboxed import score_in_sandbox
from agon.judges.gym.scorers import OWN_SCORERS
from agon.judges.limits import Limits

FULL_SCORE = 1.0
# The longest gold of all datasets at their default sizes has 2,700 characters.
MAX_CHARACTERS = 50_000


@dataclass(frozen=True)
class GymJudge:
    """Correct if and only if the answer earns the full score of its dataset."""

    limits: Limits = field(default_factory=lambda: Limits(deadline=10.0, memory_bytes=4 << 30, patience=0.5))

    def warm(self) -> None:
        import reasoning_gym  # noqa: F401

    def judge(self, problem: Problem, answer: str) -> Verdict:
        name, entry = problem.metadata.get("gym"), problem.metadata.get("entry")
        parameters = problem.metadata.get("parameters") or {}
        if not isinstance(name, str) or not isinstance(entry, dict) or not isinstance(parameters, dict):
            return Verdict(False, "error", "A gym problem needs metadata 'gym' (the dataset) and 'entry'.")
        given = final_answer(answer, str.__eq__)
        if isinstance(given, Verdict):
            return given
        if len(given) > MAX_CHARACTERS:
            return Verdict(False, "wrong", f"The answer is longer than {MAX_CHARACTERS} characters.")
        if name in OWN_SCORERS:
            return _decided(name, float(OWN_SCORERS[name](given, entry)))
        if name not in FORMS and name not in COMPARED:
            return _judge_in_sandbox(name, parameters, entry, given)
        if name in FORMS and given != entry.get("answer") and not FORMS[name](given, entry):
            return Verdict(False, "wrong", f"This does not have the form of an answer to {name}.")
        dataset = _dataset(name, json.dumps(parameters) if parameters else "{}")
        return _decided(name, float(dataset.score_answer(given, entry)))


def _decided(name: str, score: float) -> Verdict:
    if score >= FULL_SCORE:
        return Verdict(True, "correct")
    return Verdict(False, "wrong", f"{name} scored it {score:g} of {FULL_SCORE:g}.")


def _judge_in_sandbox(
    name: str, parameters: Mapping[str, Any], entry: Mapping[str, Any], given: str
) -> Verdict:
    score = score_in_sandbox(name, parameters, entry, given)
    return score if isinstance(score, Verdict) else _decided(name, score)


@lru_cache(maxsize=64)
def _dataset(name: str, parameters: str) -> Any:
    """A dataset of one entry: only its scorer is used."""
    import reasoning_gym

    return reasoning_gym.create_dataset(name, size=1, seed=0, **json.loads(parameters))
