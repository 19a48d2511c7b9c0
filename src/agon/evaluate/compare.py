"""Runs against each other, paired by problem and sample.

Runs of one method with different seeds are one side of a contrast. What the problems' sampling could
have done to a difference (the bootstrap over problems, the paired test) and how far training runs of
one method lie apart (their spread) are two questions, and are answered separately.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from agon.engines.protocol import Sampling
from agon.errors import InputError, unknown
from agon.evaluate.arms import arms_for
from agon.evaluate.intervals import accuracy_interval, contrast, holm, spread
from agon.evaluate.metrics import correctness, grid
from agon.evaluate.target import Target, read_target
from agon.runs.differences import differences
from agon.runs.evaluations import EvaluationFolder, find_evaluations, folder_name
from agon.runs.folder import is_run
from agon.runs.samples import Sample, SampleKey

HEADLINE = "headline"
# What a result must say of itself to be compared.
COMPARED = {
    **dict.fromkeys(("task", "split", "fingerprint", "engine"), str),
    **dict.fromkeys(("n", "samples"), int),
    "decoding": dict,
}
# What makes two training runs equally expensive; the number of optimizer steps stands in the summary.
BUDGET = ("model", "num_generations", "max_completion_length", "num_train_epochs", "max_steps")


class NoEvaluationError(InputError):
    """A run that has not been evaluated on what is to be compared."""


@dataclass(frozen=True)
class Entrant:
    """One run's evaluation: its result, one arm of it as `correct[problem, sample]`, its budget."""

    name: str
    method: str
    seed: int | None
    arm: str
    result: Mapping[str, Any]
    correct: np.ndarray
    budget: Mapping[str, Any]
    where: str = ""  # as it was given
    limit: int | None = None  # of the problems, where not all of a split were played
    base: str | None = None  # what identifies the base's weights, wherever its folder is


def enter(where: str, task: str | None = None, split: str = "test", arm: str = HEADLINE) -> Entrant:
    """Read the evaluation of a run, or of a folder that `agon eval --output` wrote.

    RUN@ARM is one arm of it, and stands for itself beside others of the same method.
    """
    where, own = _split_arm(where)
    target = read_target(where) if is_run(where) else None
    evaluation = _evaluation(Path(where), target, task, split)
    with _whole(where, evaluation):
        result, samples = evaluation.read_result(), evaluation.read_samples()
        return _entrant(where, own, arm, target, result, samples, evaluation.base())


@contextmanager
def _whole(where: str, evaluation: EvaluationFolder) -> Iterator[None]:
    """Says in one sentence what an evaluation lacks."""
    try:
        yield
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        raise InputError(
            f"{evaluation.folder} does not hold a whole evaluation ({type(error).__name__}: {error}): remove the "
            f"folder and run `{eval_command(where)}`."
        ) from error


def _entrant(
    where: str,
    own: str | None,
    arm: str,
    target: Target | None,
    result: Mapping[str, Any],
    samples: Mapping[SampleKey, Sample],
    base: str | None,
) -> Entrant:
    arm = own or arm
    chosen = result["headline"] if arm == HEADLINE else arm
    if chosen not in result["arms"]:
        raise unknown(f"arm of '{where}'", chosen, result["arms"])
    arms = {row.name: row for row in arms_for(result["policies"], result["directions"])}
    answers = grid(arms[chosen], result["problems"], result["samples"], samples)
    method = str(result["method"] or result["model"])
    for name, kind in COMPARED.items():
        if not isinstance(result[name], kind):
            raise TypeError(f"{name} is {result[name]!r}")
    return Entrant(
        name=Path(where).resolve().name,
        method=f"{method} {chosen}" if own else method,
        seed=target.config.get("seed") if target else None,
        arm=chosen,
        result=result,
        correct=correctness(answers),
        budget=_budget(target) if target else {},
        where=where,
        limit=_limit(result, target),
        base=base,
    )


def evaluation_of(entrant: Entrant, split: str = "test") -> EvaluationFolder:
    """The folder that an entrant was read from, for what its result does not tell."""
    where = entrant.where
    target = read_target(where) if is_run(where) else None
    return _evaluation(Path(where), target, entrant.result["task"], split)


def enter_arms(
    where: str,
    task: str | None = None,
    split: str = "test",
    read_result: Callable[[EvaluationFolder], Mapping[str, Any]] = EvaluationFolder.read_result,
) -> dict[str, Entrant]:
    """Every arm of one evaluation by its name, the samples read once; `read_result` may know the result already."""
    target = read_target(where) if is_run(where) else None
    evaluation = _evaluation(Path(where), target, task, split)
    with _whole(where, evaluation):
        result, samples = read_result(evaluation), evaluation.read_samples()
        base = evaluation.base()
        found = {name: _entrant(where, None, name, target, result, samples, base) for name in result["arms"]}
        return found | {HEADLINE: found[result["headline"]]}


def enter_all(
    places: Sequence[str], task: str | None = None, split: str = "test", arm: str = HEADLINE
) -> list[Entrant]:
    """Read every run; for those without an evaluation, say the command that makes one like the others'."""
    entrants, missing = [], []
    for where in places:
        try:
            entrants.append(enter(where, task, split, arm))
        except NoEvaluationError:
            missing.append(_split_arm(where)[0])
    if missing:
        limit = entrants[0].limit if entrants else None
        commands = " && ".join(eval_command(where, task, split, limit) for where in dict.fromkeys(missing))
        named = ", ".join(f"'{where}'" for where in dict.fromkeys(missing))
        each = "Each of " if len(set(missing)) > 1 else ""
        raise InputError(f"{each}{named} has no {split} evaluation{_of(task)} yet: run `{commands}` first.")
    return entrants


def eval_command(where: str, task: str | None = None, split: str = "test", limit: int | None = None) -> str:
    """The command that makes the evaluation which a comparison wants."""
    words = ["agon eval", where]
    words += ["--task", task] if task else []
    words += ["--split", split] if split != "test" else []
    words += ["--limit", str(limit)] if limit else []
    return " ".join(words)


def _limit(result: Mapping[str, Any], target: Target | None) -> int | None:
    """The `--limit` that plays as many problems again; none where they are all of the run's own task."""
    sizes = (target.task.get("sizes") or {}) if target else {}
    whole = target is not None and result["task"] == target.task.get("name")
    return None if whole and sizes.get(result["split"]) == result["n"] else int(result["n"])


def _of(task: str | None) -> str:
    return f" of '{task}'" if task else ""


def _split_arm(where: str) -> tuple[str, str | None]:
    """A run and the arm named after it, as in runs/coop-0@A->B; a folder may have an @ in its name."""
    run, at, arm = where.rpartition("@")
    return (run, arm) if at and arm and not Path(where).exists() else (where, None)


def _evaluation(where: Path, target: Target | None, task: str | None, split: str) -> EvaluationFolder:
    """The one evaluation that a run, an --output or an evaluation's own folder stands for."""
    if EvaluationFolder(where).finished:
        return EvaluationFolder(where)
    found = target.run.evaluated(split) if target and target.run else find_evaluations(where, split)
    if task is not None:
        wanted = folder_name(task.split(",")[0], split)
        found = [each for each in found if each.folder.name == wanted]
    elif target and len(found) > 1:
        own = folder_name(str(target.task.get("name", "")), split)
        found = [each for each in found if each.folder.name == own] or found
    if not where.exists():
        raise InputError(f"There is no run '{where}': give the folders of evaluated runs.")
    if not found and target is None and not find_evaluations(where):
        raise InputError(
            f"'{where}' holds neither a run nor evaluations: give the folders of evaluated runs."
        )
    if not found:
        raise NoEvaluationError(
            f"'{where}' has no {split} evaluation{_of(task)} yet: run `{eval_command(str(where), task, split)}` first."
        )
    if len(found) > 1:
        names = ", ".join(each.folder.name for each in found)
        raise InputError(f"'{where}' has several {split} evaluations ({names}): choose one with --task.")
    return found[0]


def _budget(target: Target) -> dict[str, Any]:
    """What the run was given to train with."""
    return {
        **{name: target.config.get(name) for name in BUDGET},
        "training problems": target.task.get("fingerprints", {}).get("train"),
        "steps": target.summary.get("steps"),
    }


def refuse_unlike(entrants: Sequence[Entrant]) -> None:
    """Runs are compared only where task, decoding and budget are the same."""
    first = entrants[0]
    for other in entrants[1:]:
        for what, mine, theirs in (
            ("problems", _problems_of(first), _problems_of(other)),
            ("decoding", decoding_of(first.result), decoding_of(other.result)),
            ("training budget", first.budget, other.budget),
        ):
            if what == "training budget" and not (mine and theirs):
                continue  # a plain model has none
            if what == "training budget" and first.base and first.base == other.base:
                theirs = {**theirs, "model": mine["model"]}  # in two folders, or on two machines
            found = differences(mine, theirs)
            if found:
                listed = (
                    "; ".join(found)
                    .replace(" there", f" in {first.name}")
                    .replace(" here", f" in {other.name}")
                )
                raise InputError(
                    f"'{first.name}' and '{other.name}' differ in their {what}: {listed}.{_alike(first, other)}"
                )


def decoding_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """How a result was sampled, with the defaults of options that are newer than it."""
    defaults = {field.name: field.default for field in fields(Sampling) if field.default is not MISSING}
    return {**defaults, **result["decoding"]}


def _alike(one: Entrant, other: Entrant) -> str:
    """The command that evaluates the run with fewer problems on as many as the other."""
    fewer, more = sorted((one, other), key=lambda entrant: entrant.result["n"])
    same = all(one.result[name] == other.result[name] for name in ("task", "split", "samples"))
    if not same or fewer.result["n"] == more.result["n"] or not fewer.where:
        return ""
    command = eval_command(fewer.where, None, fewer.result["split"], more.limit)
    return f" Evaluate both alike: {command}"


def _problems_of(entrant: Entrant) -> dict[str, Any]:
    return {name: entrant.result[name] for name in ("task", "split", "fingerprint", "n", "samples")}


@dataclass(frozen=True)
class Side:
    """Runs of one method that differ by their seed; `correct` has their samples side by side."""

    label: str
    entrants: tuple[Entrant, ...]

    @property
    def correct(self) -> np.ndarray:
        return np.concatenate([entrant.correct for entrant in self.entrants], axis=1)


def sides(entrants: Sequence[Entrant]) -> list[Side]:
    """Runs grouped by method; runs that no seed tells apart stand for themselves."""
    groups: dict[str, list[Entrant]] = {}
    for entrant in entrants:
        groups.setdefault(entrant.method, []).append(entrant)
    found = []
    for label, members in groups.items():
        seeds = [member.seed for member in members]
        if len(set(seeds)) == len(members):
            found.append(Side(label, tuple(members)))
        else:
            found += [Side(member.name, (member,)) for member in members]
    labels = [side.label for side in found]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(
                f"Two runs are called '{label}': rename a folder so that the table can name them."
            )
    return found


def compare(
    entrants: Sequence[Entrant], asked: Sequence[tuple[str, str]] = (), seed: int = 0
) -> dict[str, Any]:
    """Every contrast asked for (or all of them), corrected by Holm for their number."""
    if len(entrants) < 2:
        raise InputError("A comparison needs at least two runs.")
    refuse_unlike(entrants)
    table = {side.label: side for side in sides(entrants)}
    if len(table) < 2 and not asked:
        raise InputError(
            f"All runs are of '{next(iter(table))}' with different seeds: there is nothing to contrast them with."
        )
    pairs = list(asked) or list(combinations(table, 2))
    for label in (label for pair in pairs for label in pair):
        if label not in table:
            raise unknown("side of a contrast", label, table)
    contrasts = [_contrast(table[one], table[other], seed) for one, other in pairs]
    for row, corrected in zip(contrasts, holm([row["p"] for row in contrasts]), strict=True):
        row["p_holm"] = corrected
    result = entrants[0].result
    return {
        **{name: result[name] for name in ("task", "split", "n", "samples", "decoding", "fingerprint")},
        "sides": {label: _side(side) for label, side in table.items()},
        "contrasts": contrasts,
    }


def _side(side: Side) -> dict[str, Any]:
    seen = spread([entrant.correct for entrant in side.entrants])
    return {
        "runs": [
            {
                "run": entrant.name,
                "seed": entrant.seed,
                "arm": entrant.arm,
                "pass@1": float(entrant.correct.mean()),
                "ci95": list(accuracy_interval(entrant.correct)),
                "engine": entrant.result["engine"],
            }
            for entrant in side.entrants
        ],
        "pass@1": float(side.correct.mean()),
        "across_seeds": asdict(seen) if seen else None,
    }


def _contrast(one: Side, other: Side, seed: int) -> dict[str, Any]:
    found = contrast(one.correct, other.correct, seed=seed)
    return {
        "first": one.label,
        "second": other.label,
        "difference": found.difference,
        "ci95": list(found.interval),
        "only_first": found.only_first,
        "only_second": found.only_second,
        "p": found.p,
        "test": found.test,
        "across_seeds": _welch(one, other),
    }


def _welch(one: Side, other: Side) -> dict[str, Any] | None:
    """Welch's test over the runs' accuracies: what it says holds for new training runs too."""
    accuracies = [[float(entrant.correct.mean()) for entrant in side.entrants] for side in (one, other)]
    if min(map(len, accuracies)) < 2:
        return None
    if all(np.ptp(values) == 0 for values in accuracies):
        return None  # no spread at all: the runs are copies of each other
    with warnings.catch_warnings():  # one side may have no spread, and the test still holds
        warnings.filterwarnings("ignore", message="Precision loss", category=RuntimeWarning)
        test = stats.ttest_ind(*accuracies, equal_var=False)
    ends = test.confidence_interval(0.95)
    return {"p": float(test.pvalue), "ci95": [float(ends.low), float(ends.high)], "test": "Welch, over runs"}
