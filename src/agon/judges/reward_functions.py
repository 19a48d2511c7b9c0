"""Reward functions as TRL's trainers take them, taken as a judge as they stand.

Such a function has a parameter `completions`; it may ask for `prompts` and for any column of the dataset
by its name, and returns a list of numbers. Here it is called with one completion at a time, in a worker
process, so one that compares the completions of a batch with each other cannot be used. 1 or more is a
right answer; what is between 0 and 1 is the score, which a run with `graded` pays for.
"""

import asyncio
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agon.game.problem import Problem
from agon.game.verdict import Verdict

RewardFunction = Callable[..., Any]


def is_reward_function(found: object) -> bool:
    """Whether this is written for TRL: it has a parameter `completions`."""
    if not callable(found) or isinstance(found, type):
        return False
    try:
        return "completions" in inspect.signature(found).parameters
    except (TypeError, ValueError):
        return False


@dataclass(frozen=True)
class RewardFunctionJudge:
    """One or more reward functions: right is what all of them say, the score is their mean."""

    functions: Sequence[RewardFunction]
    reads_completion = True  # and not only the answer section

    def judge(self, problem: Problem, answer: str) -> Verdict:
        said = [_call(function, problem, answer) for function in self.functions]
        given = [value for value in said if value is not None]  # None: this function does not apply
        if not given:
            return Verdict(False, "wrong", "No reward function applies to this problem.", score=0.0)
        if any(math.isnan(value) for value in given):
            return Verdict(False, "error", "A reward function returned a value that is not a number.")
        score = sum(min(max(value, 0.0), 1.0) for value in given) / len(given)
        right = all(value >= 1 for value in given)
        return Verdict(right, "correct" if right else "wrong", score=score)


def _call(function: RewardFunction, problem: Problem, text: str) -> float | None:
    """What a function says of one completion, given in the form that TRL gives it in."""
    columns = {name: [value] for name, value in problem.metadata.get("columns", {}).items()}
    columns.setdefault("answer", [problem.answer])
    columns.setdefault("solution", [problem.answer])
    if "conversation" in problem.metadata:
        prompt: Any = [*problem.conversation, {"role": "user", "content": problem.prompt}]
        completion: Any = [{"role": "assistant", "content": text}]
    else:
        prompt, completion = problem.prompt, text
    absent = dict.fromkeys(("trainer_state", "log_extra", "log_metric"))
    given: dict[str, Any] = {"completion_ids": [[]], **absent, **columns}
    given |= {"prompts": [prompt], "completions": [completion]}
    said = function(**_accepted(function, given))
    if inspect.isawaitable(said):
        said = asyncio.run(_awaited(said))
    if not isinstance(said, Sequence) or len(said) != 1:
        raise TypeError(f"a reward function returns a list of one number for one completion, not {said!r}")
    return None if said[0] is None else float(said[0])


def _accepted(function: RewardFunction, given: dict[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return given
    names = {each.name for each in parameters}
    return {name: value for name, value in given.items() if name in names}


async def _awaited(said: Any) -> Any:
    return await said
