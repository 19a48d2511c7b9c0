"""From what a rehearsal measured to what it means: beside the plan, and for the whole recipe."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

import torch

from agon.lab.rehearsal.phases import Measured
from agon.lab.rehearsal.trainer import Counts
from agon.planning.architectures import Architecture
from agon.planning.estimate import GIB, GPUS, Gpu, Workload, hours, memory, tokens
from agon.train.config import AgonConfig

FORMULA = (
    "start + steps x (sampling x sampling_scale + (scoring + training) x problem_scale + sync + check + optimizer + "
    "other) + checkpoints x checkpoint + validations x rollouts x mean length / sampled tokens a second, each the mean "
    "of the rehearsed steps; problem_scale is the recipe's problems a step over the rehearsed ones, sampling_scale the "
    "same ratio of planned seconds (of problems, without a plan)"
)
START = ("load", "engine start")
# Phases that grow with the problems of a step, and those that do not.
BY_PROBLEM, BY_STEP = ("scoring", "training"), ("sync", "optimizer", "other")


@dataclass(frozen=True)
class Plans:
    """What the plan knows of a rehearsal: the model, both workloads, and the card if it is in its table."""

    model: Architecture
    rehearsed: Workload
    recipe: Workload
    gpu: Gpu | None

    def step_seconds(self, work: Workload) -> dict[str, float] | None:
        """Seconds of sampling and of training in a step, as planned; None without a known card."""
        if self.gpu is None:
            return None
        took, steps = hours(self.model, work, self.gpu, 1), tokens(work, 1).steps
        return {name: value * 3600 / steps for name, value in asdict(took).items()}

    def memory_bytes(self, work: Workload) -> dict[str, int]:
        """The peaks as planned: of training, and of the card with vLLM's share."""
        parts = memory(self.model, work)
        vllm = 0
        if work.engine == "vllm" and self.gpu is not None:
            own = work.vllm_kv_cache_bytes and work.vllm_kv_cache_bytes + parts.base
            vllm = int(own or work.vllm_gpu_memory_utilization * self.gpu.memory * GIB)
        return {"training": parts.training_peak, "vllm": vllm, "card": parts.peak + vllm}


def found_gpu() -> str | None:
    """The plan's name for this machine's card, or None."""
    if not torch.cuda.is_available():
        return None
    words = torch.cuda.get_device_name().upper().replace(" ", "")
    fitting = [name for name in GPUS if all(part.upper() in words for part in name.split("-"))]
    return max(fitting, key=len, default=None)


def rehearsed_workload(recipe: Workload, config: AgonConfig, counts: Counts) -> Workload:
    """The workload that was rehearsed, with the lengths that came of it."""
    return replace(
        recipe,
        problems=0,
        max_steps=counts.steps,
        gradient_accumulation_steps=config.gradient_accumulation_steps,
        steps_per_generation=config.steps_per_generation,
        mean_completion_length=round(fmean(counts.lengths)),
        longest_chain=round(fmean(counts.chains)),
        prompt_tokens=max(counts.prompts),
    )


def compare(plans: Plans, phases: Mapping[str, Measured], counts: Counts, cuda: bool) -> list[dict[str, Any]]:
    """What was measured beside what was planned for the same steps, and for the recipe's."""
    measured: dict[str, tuple[float, str]] = {
        "sampling, s a step": (phases["sampling"].seconds / counts.steps, "sampling"),
        "scoring and training, s a step": (
            sum(phases[name].seconds for name in BY_PROBLEM if name in phases) / counts.steps,
            "training",
        ),
    }
    rows = []
    here, whole = plans.step_seconds(plans.rehearsed), plans.step_seconds(plans.recipe)
    for what, (value, key) in measured.items():
        rows.append(_row(what, value, here[key] if here else None, whole[key] if whole else None))
    peaks = {
        "training": max(each.peak_bytes for name, each in phases.items() if name != "make the model"),
        "card": max(each.card_bytes for each in phases.values()),
    }
    here_bytes, whole_bytes = plans.memory_bytes(plans.rehearsed), plans.memory_bytes(plans.recipe)
    for key, what in (("training", "trainer's peak, GiB"), ("card", "whole card's peak, GiB")):
        if key == "training" or cuda:
            planned = here_bytes[key] / GIB
            row = _row(what, peaks[key] / GIB, planned, whole_bytes[key] / GIB)
            # A CPU's figure is all of the process, its libraries included.
            rows.append(row if cuda else {**row, "ratio": None})
    return rows


def whole_recipe(
    plans: Plans, phases: Mapping[str, Measured], counts: Counts, config: AgonConfig, validation: int
) -> dict[str, Any]:
    """Hours of the whole recipe on this machine by `FORMULA`; `validation` is one validation's rollouts."""
    seconds = {name: each.seconds / counts.steps for name, each in phases.items()}
    planned = tokens(plans.recipe, 1)
    scale = planned.problems_per_step / tokens(plans.rehearsed, 1).problems_per_step
    here, whole = plans.step_seconds(plans.rehearsed), plans.step_seconds(plans.recipe)
    sampling_scale = whole["sampling"] / here["sampling"] if here and whole else scale
    checkpoint = phases["checkpoint"]
    per_token = phases["sampling"].seconds / sum(counts.lengths)
    check = seconds.get("sampler check", 0.0)
    parts = {
        "start": sum(phases[name].seconds / phases[name].times for name in START),
        "sampling": planned.steps * seconds["sampling"] * sampling_scale,
        "scoring and training": planned.steps * scale * sum(seconds.get(name, 0.0) for name in BY_PROBLEM),
        "sync, optimizer, other": planned.steps * (sum(seconds.get(name, 0.0) for name in BY_STEP) + check),
        "checkpoints": _times(planned.steps, config.save_strategy, config.save_steps)
        * (checkpoint.seconds / checkpoint.times),
        "validation": _times(planned.steps, config.eval_strategy, config.eval_steps)
        * validation
        * fmean(counts.lengths)
        * per_token,
    }
    total = sum(parts.values()) / 3600
    planned_hours = hours(plans.model, plans.recipe, plans.gpu, 1).total if plans.gpu else None
    return {
        "steps": planned.steps,
        "problems_per_step": planned.problems_per_step,
        "problem_scale": scale,
        "sampling_scale": sampling_scale,
        "hours": total,
        "gpu_hours": total,
        "hours_by_part": {name: value / 3600 for name, value in parts.items()},
        "planned_hours": planned_hours,
        "ratio": total / planned_hours if planned_hours else None,
        "formula": FORMULA,
    }


def _row(what: str, measured: float, planned: float | None, recipe: float | None) -> dict[str, Any]:
    ratio = measured / planned if planned else None
    return {
        "what": what,
        "measured": measured,
        "planned": planned,
        "ratio": ratio,
        "planned_for_recipe": recipe,
    }


def _times(steps: int, strategy: Any, every: float | None) -> int:
    """How often something happens in a run that happens every so many steps (a share of them below 1)."""
    if getattr(strategy, "value", strategy) != "steps" or not every:
        return 0
    return int(steps // (every if every >= 1 else max(1, steps * every)))
