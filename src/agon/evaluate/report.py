"""`evaluate`: a subject on a task, from the choice of direction on validation to the result file.

The direction (for a single-pass method: the adapter) is chosen on the validation split of the task
that the run was trained on, with the same decoding, and named in the result. The test split decides
nothing; both directions are in the result whichever was chosen.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agon.arena.arena import Arena
from agon.engines.protocol import Sampling
from agon.errors import InputError
from agon.evaluate.arms import Arm, arms_for, directions
from agon.evaluate.evaluation import (
    Evaluation,
    Progress,
    Settings,
    choose,
    first,
    folder_name,
    write_json,
)
from agon.evaluate.metrics import Figures
from agon.evaluate.opening import Opened, judge_for, judge_name
from agon.evaluate.subject import Subject
from agon.game.problem import Problem
from agon.tasks import Task

Watch = Callable[[str], Progress]  # what is played next → where its progress goes


@dataclass(frozen=True)
class Plan:
    """How a subject is to be evaluated."""

    sampling: Sampling
    split: str = "test"
    samples: int = 1
    direction: str = "both"
    controls: bool = True
    limit: int | None = None
    seed: int = 0
    output: Path | None = None

    def __post_init__(self) -> None:
        for name in ("samples", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"--{name} must be at least 1, not {value}.")


@dataclass(frozen=True)
class Choice:
    """What the headline is and on what it was chosen."""

    direction: str
    headline: str
    chosen_on: str


def evaluate(
    opened: Opened,
    task: Task,
    plan: Plan,
    watch: Watch,
    own: Callable[[], Task],
    choosing: Plan | None = None,
) -> Figures:
    """Play every arm of a split and return the result, which is also written to its file.

    `own` loads the task that the run was trained on; it is asked only if a choice has to be made.
    `choosing` is the plan by which validation is played for it, `plan` itself if left out: tasks with
    other numbers of samples should still agree on one choice.
    """
    task.problems(plan.split)  # an empty split is refused before anything is sampled
    arms = arms_for(opened.subject.policies, plan.direction, plan.controls)
    choice = _choice(opened, choosing or plan, watch, own)
    figures = _played(opened, task, plan.split, arms, plan, watch)
    result = {
        "task": task.name,
        "split": plan.split,
        "direction": choice.direction,
        "headline": choice.headline,
        "chosen_on": choice.chosen_on,
        **figures,
    }
    write_json(_folder(opened, task, plan.split, plan) / "result.json", result)
    return result


def problems_played(
    subject: Subject, tasks: Sequence[Task], plan: Plan, own: Callable[[], Task]
) -> list[Problem]:
    """Every problem that `evaluate` will play for these tasks, those of the choice of direction among them."""
    splits = [(task, plan.split) for task in tasks]
    if len(subject.policies) == 2 and plan.direction == "both" and own().splits.get("validation"):
        splits.append((own(), "validation"))
    return [problem for task, split in splits for problem in first(task, split, plan.limit).problems(split)]


def _choice(opened: Opened, plan: Plan, watch: Watch, own: Callable[[], Task]) -> Choice:
    """The headline of a subject, chosen on validation where there is anything to choose."""
    policies = opened.subject.policies
    ways = [play.name for play in directions(policies)]
    if not policies:
        return Choice("base->base", "self-cascade", "nothing: a bare model has one direction")
    method = opened.subject.method
    single = method is not None and method.evaluated_as == "single"
    if len(policies) == 1:
        return Choice(ways[0], policies[0] if single else ways[0], "nothing: one policy has one direction")
    if plan.direction != "both":
        headline = plan.direction.split("->")[0] if single else plan.direction
        return Choice(plan.direction, headline, "nothing: the direction was given")
    task = own()
    if not task.splits.get("validation"):
        return Choice(
            ways[0], policies[0] if single else ways[0], f"nothing: {task.name} has no validation split"
        )
    arms = arms_for(policies, controls=False)
    seen = _played(opened, task, "validation", arms, plan, watch)
    chosen = choose(seen["arms"], ways)
    headline = choose(seen["arms"], policies) if single else chosen
    return Choice(chosen, headline, f"{task.name} validation, n={seen['n']}, k={seen['samples']}")


def _played(
    opened: Opened, task: Task, split: str, arms: Sequence[Arm], plan: Plan, watch: Watch
) -> dict[str, Any]:
    subject = opened.subject
    folder = _folder(opened, task, split, plan)
    limited = first(task, split, plan.limit)
    settings = Settings(
        task=task.name,
        split=split,
        split_fingerprint=task.fingerprint(split),
        model=subject.model,
        weights=opened.fingerprints(),
        decoding=asdict(plan.sampling),
        dialect=opened.chat.dialect.name,
        prompts=opened.prompts(),
        summary_limit=subject.config.get("summary_limit"),
        judge=judge_name(subject, task),
        engine=opened.engine.capabilities.name,
        seed=plan.seed,
    )
    settings.keep(folder)
    evaluation = Evaluation(
        problems=limited.problems(split),
        arms=arms,
        samples=plan.samples,
        sampling=plan.sampling,
        versions=subject.versions,
        seed=plan.seed,
        folder=folder,
        batch=opened.batch,
    )
    if evaluation.wanted():
        with judge_for(subject, task) as judge:
            arena = Arena(opened.engine, opened.chat, judge, settings.summary_limit)
            played = evaluation.play(arena, watch(f"{task.name} {split}"))
    else:
        played = evaluation.kept()
    return {
        "model": subject.model,
        "method": subject.method.name if subject.method else None,
        "policies": list(subject.policies),
        "directions": plan.direction,
        "n": len(evaluation.problems),
        "samples": plan.samples,
        "fingerprint": limited.fingerprint(split),
        "decoding": dict(settings.decoding),
        "engine": settings.engine,
        "seed": plan.seed,
        "intervals": _intervals(plan.samples),
        **evaluation.figures(played),
        "notes": list(task.notes),
        "problems": [problem.id for problem in evaluation.problems],
    }


def _folder(opened: Opened, task: Task, split: str, plan: Plan) -> Path:
    run = opened.subject.folder
    place = plan.output or (run / "evaluations" if run else None)
    if place is None:
        raise InputError("A plain model has no run folder to keep its samples in: give --output DIR.")
    return place / folder_name(task.name, split)


def _intervals(samples: int) -> str:
    if samples == 1:
        return "Clopper-Pearson"
    return "Clopper-Pearson at the effective sample size of Korn and Graubard"
