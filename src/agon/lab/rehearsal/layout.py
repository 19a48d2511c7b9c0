"""How many problems a rehearsed step has: the recipe's, fewer, or as many as a time allows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agon.embedded import model_path
from agon.errors import InputError
from agon.lab.rehearsal.facts import found_gpu
from agon.lab.rehearsal.task import PROMPT_TOKENS
from agon.planning.architectures import architecture
from agon.planning.estimate import GPUS, Workload, hours
from agon.planning.lengths import Lengths
from agon.planning.recipe_plan import workload
from agon.train.config import AgonConfig


@dataclass(frozen=True)
class Layout:
    """How many problems a rehearsed step has, and the options that make it so."""

    problems: int
    options: Mapping[str, int]

    def planned(self, work: Workload) -> Workload:
        """A workload with these options; the plan derives none of them from another."""
        steps = self.options["gradient_accumulation_steps"]
        return replace(
            work,
            gradient_accumulation_steps=steps,
            steps_per_generation=self.options.get("steps_per_generation", steps),
        )


def layout_of(recipe: AgonConfig, problems: int | None) -> Layout:
    """Fewer problems a step by fewer micro-batches, each as large as the recipe's."""
    rows = recipe.per_device_train_batch_size * recipe.gradient_accumulation_steps
    whole = rows // recipe.num_generations
    if problems is None:
        return Layout(whole, {})
    if not 1 <= problems <= whole:
        raise InputError(f"--problems is from 1 to the recipe's {whole} problems a step, not {problems}.")
    scaled = {}
    for name in ("gradient_accumulation_steps", "steps_per_generation"):
        value = getattr(recipe, name) * problems / whole
        if value % (2 if recipe.game.challenges else 1):
            raise InputError(
                f"--problems {problems} would make {name} {value:g}, which must be a whole number and even for a "
                f"method with challenges; choose another number of problems up to the recipe's {whole}."
            )
        scaled[name] = int(value)
    if recipe.steps_per_generation == recipe.gradient_accumulation_steps:
        del scaled["steps_per_generation"]  # it follows from the other
    return Layout(problems, scaled)


def fitting_problems(model: str, recipe: AgonConfig, lengths: Lengths, seconds: float) -> int:
    """The most problems whose step takes so many seconds by the plan, and at least the fewest possible."""
    gpu = found_gpu()
    if gpu is None:
        raise InputError("--seconds needs a card of the plan's table to plan for: give --problems instead.")
    shape = architecture(model_path(model))
    work = replace(workload(recipe, 1, PROMPT_TOKENS), mean_completion_length=lengths.mean)
    whole = recipe.per_device_train_batch_size * recipe.gradient_accumulation_steps // recipe.num_generations
    possible: list[int] = []
    for problems in range(1, whole + 1):
        try:
            changed = layout_of(recipe, problems).planned(replace(work, max_steps=1))
        except InputError:
            continue
        if not possible or hours(shape, changed, GPUS[gpu], 1).total * 3600 <= seconds:
            possible.append(problems)
    return max(possible)
