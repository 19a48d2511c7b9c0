"""Judges by name, and your own: `build("math")`, `build("my_module:my_judge")`.

Your own judge is an object (or a class without required arguments) with `judge(problem, answer)`, or
a plain function that returns a verdict, a boolean, or a number (1 or more is correct).
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from agon.errors import InputError, own_code, unknown
from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.judges.judge import Judge


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
        return Verdict(True, "correct") if result >= 1 else Verdict(False, "wrong")


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
        return _make(_load(JUDGES[spec].where), spec, options)
    if ":" not in spec:
        raise unknown("judge", spec, [*JUDGES, "module:object"])
    found = _load(spec)
    if isinstance(found, type):
        return _make(found, spec, options)
    if options:
        raise InputError(f"The judge {spec} takes no options: {', '.join(options)}.")
    return as_judge(found)


def as_judge(found: Any) -> Judge:
    """An object with a `judge` method as it is, a plain function wrapped."""
    if isinstance(found, Judge) and not isinstance(found, type):
        return found
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


def _load(spec: str) -> Any:
    module, _, name = spec.partition(":")
    try:
        with own_code(f"The judge '{spec}'"):
            found: Any = import_module(module)
    except InputError as error:
        if isinstance(error.__cause__, ImportError):
            raise InputError(
                f"The judge's module '{module}' cannot be imported: {error.__cause__}."
            ) from error
        raise
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"The module '{module}' has no '{name}' to judge with.")
        found = getattr(found, part)
    return found
