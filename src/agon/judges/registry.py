"""Judges by name, and your own: `build("math")`, `build("my_module:my_judge")`.

Your own judge is an object (or a class without required arguments) with `judge(problem, answer)`, or
a plain function that returns a verdict, a boolean, or a number (1 or more is correct; what lies between
0 and 1 is the score, which a run with `graded` pays for). A reward function of TRL is one too.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from agon.errors import InputError, unknown
from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.judges.judge import Judge
from agon.judges.reward_functions import RewardFunctionJudge, is_reward_function
from agon.own_parts import is_part, load_part


@dataclass(frozen=True)
class BuiltInJudge:
    """Where a judge is (imported only when asked for) and which options it takes."""

    where: str
    options: tuple[str, ...] = ()


JUDGES = {
    "math": BuiltInJudge("agon.judges.math:MathJudge", ("limits",)),
    "code": BuiltInJudge("agon.judges.code:CodeJudge", ("sandbox", "language", "run_limits", "limits")),
    "exact": BuiltInJudge("agon.judges.exact:ExactJudge", ("case_sensitive",)),
    "gym": BuiltInJudge("agon.judges.gym:GymJudge", ("limits",)),
}


OWN = "own"  # how a run records a function that has no name by which it could be loaded


@dataclass(frozen=True)
class FunctionJudge:
    """A plain function as a judge."""

    function: Callable[[Problem, str], Any]

    def judge(self, problem: Problem, answer: str) -> Verdict:
        result = self.function(problem, answer)
        if isinstance(result, Verdict):
            return result
        if not isinstance(result, (bool, int, float)):
            kind = type(result).__name__
            return Verdict(
                False,
                "error",
                f"A judge returns a verdict, a boolean or a number, and this one returned {kind}.",
            )
        if isinstance(result, bool):
            return Verdict(result, "correct" if result else "wrong")
        if math.isnan(result):
            return Verdict(False, "error", "The judge returned a value that is not a number.")
        score = min(max(float(result), 0.0), 1.0)
        return Verdict(True, "correct", score=score) if result >= 1 else Verdict(False, "wrong", score=score)


def options_for(spec: object, **offered: Any) -> dict[str, Any]:
    """Those of the offered options that this judge takes; none for a judge of your own.

    >>> options_for("code", sandbox="none"), options_for("math", sandbox="none")
    ({'sandbox': 'none'}, {})
    """
    known = JUDGES.get(spec) if isinstance(spec, str) else None
    return {name: value for name, value in offered.items() if known and name in known.options}


def build(spec: str, **options: Any) -> Judge:
    """The judge of this name, or the one that `module:object` names, with its options."""
    if spec in JUDGES:
        return _make(_built_in(JUDGES[spec].where), spec, options)
    if spec == OWN:
        raise InputError(
            "The judge was a function of a script or a notebook, which a run folder cannot hold: pass it again in "
            "Python (judge=…), or name it as module:object."
        )
    if not is_part(spec):
        raise unknown("judge", spec, [*JUDGES, "module:object"])
    found = load_part(spec, "judge")
    if isinstance(found, type):
        return _make(found, spec, options)
    if options:
        raise InputError(f"The judge {spec} takes no options: {', '.join(options)}.")
    return as_judge(found)


def as_judge(found: Any) -> Judge:
    """An object with a `judge` method as it is, a plain function wrapped, several reward functions as one."""
    if isinstance(found, Judge) and not isinstance(found, type):
        return found
    functions = list(found) if isinstance(found, list | tuple) else [found]
    if functions and all(map(is_reward_function, functions)):
        return RewardFunctionJudge(tuple(functions))
    if isinstance(found, list | tuple):
        if len(functions) == 1:
            return as_judge(functions[0])
        raise InputError(
            "Several judges are taken only where all of them are reward functions as TRL's are, with a parameter "
            "`completions`."
        )
    if callable(found):
        return FunctionJudge(found)
    raise InputError(
        f"A judge is an object with a method judge(problem, answer) or a function, not {type(found).__name__}."
    )


def _make(kind: Callable[..., Any], spec: str, options: dict[str, Any]) -> Judge:
    try:
        return as_judge(kind(**options))
    except TypeError as fault:
        raise InputError(f"The judge {spec} cannot be made with these options: {fault}.") from fault


def _built_in(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def is_own(judge: Judge) -> bool:
    """Whether a judge is a user's, and not one that comes with the package."""
    if isinstance(judge, FunctionJudge | RewardFunctionJudge):
        return True
    return not type(judge).__module__.startswith("agon.judges.")


def name_of(judge: object) -> str | None:
    """The name by which a run can record a judge that was given as an object; None if it has none.

    A function of a script or a notebook has no module from which another process could load it.
    """
    module, name = getattr(judge, "__module__", None), getattr(judge, "__qualname__", None)
    if not module or not name or module == "__main__" or not is_part(f"{module}:{name}"):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is judge else None
