"""`evaluate`: a run or a model on one or more tasks, from the choice of direction to the result files.

The direction (for a single-pass method: the adapter) is chosen on the validation split of the task
that the run was trained on, with the same decoding, and named in the result. The test split decides
nothing; both directions are in the result whichever was chosen.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from agon.arena import Arena
from agon.engines.context_length import refuse_long_prompts
from agon.engines.protocol import Sampling
from agon.errors import InputError
from agon.evaluate.arms import Arm, arms_for, directions
from agon.evaluate.load import EngineChoice, Load, LoadedTarget, load_target
from agon.evaluate.metrics import Figures
from agon.evaluate.request import EvaluationRequest
from agon.evaluate.split_evaluation import Progress, Settings, SplitEvaluation, choose, first
from agon.evaluate.target import Target, open_target
from agon.evaluate.vllm_budget import VllmBudget
from agon.game.problem import Problem
from agon.judges.registry import OWN, name_of
from agon.runs.evaluations import EvaluationFolder, folder_name
from agon.runs.lock import owned
from agon.runs.trust import EVALUATED_PARTS, Trust
from agon.tasks import Task

__all__ = ["EvaluationRequest", "Watch", "evaluate", "evaluate_task", "problems_played", "unwatched"]

Watch = Callable[[str], Progress]  # what is played next → where its progress goes


def unwatched(_: str) -> Progress:
    """A watch that shows nothing."""
    return lambda done, total: None


@dataclass(frozen=True)
class Plan:
    """How every task of a request is evaluated."""

    sampling: Sampling
    split: str = "test"
    samples: int = 1
    direction: str = "both"
    controls: bool = True
    limit: int | None = None
    seed: int = 0
    output: Path | None = None
    judge: Any = None  # a name or an object, in place of the run's and the tasks' own


@dataclass(frozen=True)
class Headline:
    """The arm that stands for a target, its direction, and on what it was chosen."""

    direction: str
    arm: str
    chosen_on: str


def evaluate(
    where: str, request: EvaluationRequest, watch: Watch = unwatched, load: Load = load_target
) -> list[Figures]:
    """Evaluate a run's folder or a model on every task of a request; one result for each."""
    request.check()
    target = open_target(where, Trust(where, request.trust_run_code, request.named, EVALUATED_PARTS))
    target.refuse_other_base(request.model)
    plan = Plan(
        sampling=target.sampling(request.temperature, request.top_p, request.max_tokens),
        split=request.split,
        samples=max(request.samples),
        direction=request.direction,
        controls=request.controls,
        limit=request.limit,
        seed=request.seed,
        output=request.output,
        judge=request.judge,
    )
    if target.run is None and plan.output is None:
        raise InputError("A plain model has no run folder to keep its samples in: give --output DIR.")
    arms_for(target.policies, plan.direction, plan.controls)  # a direction that it has not is refused here
    budget = VllmBudget(plan.sampling.max_tokens, request.vllm_kv_cache_bytes, request.max_model_len)
    choice = EngineChoice(request.engine, budget, request.rows, request.vllm_servers)
    own = cache(target.own_task)
    tasks = [target.named_task(name, request.path) for name in request.tasks] or [own()]
    plans = [replace(plan, samples=count) for count in _one_for_each(request.samples, len(tasks))]
    for task in tasks:
        task.problems(plan.split)  # an empty split is refused before the model is loaded
    played = [*tasks, own()] if len(target.policies) == 2 and plan.direction == "both" else tasks
    target.refuse_untrusted(played, request.engine)
    if choice.name == "vllm":
        choice = replace(choice, budget=replace(budget, problems=problems_played(target, tasks, plan, own)))
    with ExitStack() as alone:
        for task in tasks:  # two evaluations of one run may go on at once, but not two of the same
            alone.enter_context(owned(_folder(target, task, plan.split, plan).folder, "evaluation"))
        loaded = alone.enter_context(load(target, choice))
        for task in tasks:
            problems = first(task, plan.split, plan.limit).problems(plan.split)
            refuse_long_prompts(loaded.chat, problems, loaded.pair.model.config)
        return [
            evaluate_task(loaded, task, each, watch, own, choosing=plan)
            for task, each in zip(tasks, plans, strict=True)
        ]


def evaluate_task(
    loaded: LoadedTarget,
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
    arms = arms_for(loaded.target.policies, plan.direction, plan.controls)
    headline = _headline(loaded, choosing or plan, watch, own)
    figures = _played(loaded, task, plan.split, arms, plan, watch)
    result = {
        "task": task.name,
        "split": plan.split,
        "direction": headline.direction,
        "headline": headline.arm,
        "chosen_on": headline.chosen_on,
        **figures,
    }
    _folder(loaded.target, task, plan.split, plan).write_result(result)
    return result


def problems_played(
    target: Target, tasks: Sequence[Task], plan: Plan, own: Callable[[], Task]
) -> list[Problem]:
    """Every problem that is played for these tasks, those of the choice of direction among them."""
    splits = [(task, plan.split) for task in tasks]
    if len(target.policies) == 2 and plan.direction == "both" and own().splits.get("validation"):
        splits.append((own(), "validation"))
    return [problem for task, split in splits for problem in first(task, split, plan.limit).problems(split)]


def _one_for_each(counts: Sequence[int], tasks: int) -> list[int]:
    """One number for every task: one for all of them, or as many as there are."""
    if len(counts) not in (1, tasks):
        raise InputError(
            f"--samples takes one number, or one for each of the {tasks} tasks; not {len(counts)}."
        )
    return list(counts) * tasks if len(counts) == 1 else list(counts)


def _headline(loaded: LoadedTarget, plan: Plan, watch: Watch, own: Callable[[], Task]) -> Headline:
    """The headline of a target, chosen on validation where there is anything to choose."""
    policies = loaded.target.policies
    ways = [play.name for play in directions(policies)]
    if not policies:
        return Headline("base->base", "self-cascade", "nothing: a bare model has one direction")
    method = loaded.target.method
    single = method is not None and method.evaluated_as == "single"
    if len(policies) == 1:
        return Headline(ways[0], policies[0] if single else ways[0], "nothing: one policy has one direction")
    if plan.direction != "both":
        arm = plan.direction.split("->")[0] if single else plan.direction
        return Headline(plan.direction, arm, "nothing: the direction was given")
    task = own()
    if not task.splits.get("validation"):
        return Headline(
            ways[0], policies[0] if single else ways[0], f"nothing: {task.name} has no validation split"
        )
    arms = arms_for(policies, controls=False)
    seen = _played(loaded, task, "validation", arms, plan, watch)
    chosen = choose(seen["arms"], ways)
    arm = choose(seen["arms"], policies) if single else chosen
    return Headline(chosen, arm, f"{task.name} validation, n={seen['n']}, k={seen['samples']}")


def _played(
    loaded: LoadedTarget, task: Task, split: str, arms: Sequence[Arm], plan: Plan, watch: Watch
) -> dict[str, Any]:
    target = loaded.target
    folder = _folder(target, task, split, plan).folder
    limited = first(task, split, plan.limit)
    settings = Settings(
        task=task.name,
        split=split,
        split_fingerprint=task.fingerprint(split),
        model=target.model,
        weights=loaded.fingerprints(),
        decoding=asdict(plan.sampling),
        dialect=loaded.chat.dialect.name,
        prompts=loaded.prompts(),
        summary_limit=target.settings.summary_limit,
        judge=_judge_name(plan.judge) or target.judge_name(task),
        engine=loaded.engine.capabilities.name,
        seed=plan.seed,
    )
    evaluation = SplitEvaluation(
        problems=limited.problems(split),
        arms=arms,
        samples=plan.samples,
        sampling=plan.sampling,
        versions=target.versions,
        seed=plan.seed,
        folder=folder,
        batch=loaded.batch,
    )
    settings.refuse_others(folder)
    if evaluation.missing_rollouts():
        given = settings.judge if plan.judge is None or isinstance(plan.judge, str) else plan.judge
        with owned(folder, "evaluation"), target.judging(task).open_judge(given) as judge:
            settings.keep(folder)
            arena = Arena(loaded.engine, loaded.chat, judge, settings.summary_limit)
            played = evaluation.play(arena, watch(f"{task.name} {split}"))
    else:
        settings.keep(folder)
        played = evaluation.kept()
    return {
        "model": target.model,
        "method": target.method.name if target.method else None,
        "policies": list(target.policies),
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


def _folder(target: Target, task: Task, split: str, plan: Plan) -> EvaluationFolder:
    if plan.output is not None:
        return EvaluationFolder(plan.output / folder_name(task.name, split))
    assert target.run is not None  # a plain model without --output was refused
    return target.run.evaluation(task.name, split)


def _judge_name(judge: Any) -> str | None:
    """How a judge that was given is recorded."""
    if judge is None or isinstance(judge, str):
        return judge
    return name_of(judge) or OWN


def _intervals(samples: int) -> str:
    if samples == 1:
        return "Clopper-Pearson"
    return "Clopper-Pearson at the effective sample size of Korn and Graubard"
