"""A rehearsal: a recipe at full size, before a week is spent on it.

The model has its real shapes and random weights, completions have stated lengths, verdicts are a
seeded coin; everything else is the recipe's: engine, batch, precision, adapters. After one step a
checkpoint is written, and a new trainer with a new engine resumes from it. What it leaves out: several
processes, validation (it is extrapolated), and whatever depends on what the model writes.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from agon.engines.chat import Chat
from agon.errors import InputError
from agon.evaluate.arms import directions
from agon.lab.rehearsal.engine import SUMMARY_TOKENS, checked_lengths
from agon.lab.rehearsal.facts import Plans, compare, found_gpu, rehearsed_workload, whole_recipe
from agon.lab.rehearsal.layout import fitting_problems, layout_of
from agon.lab.rehearsal.model import RandomBase, free_memory, make_random_base
from agon.lab.rehearsal.phases import Phases
from agon.lab.rehearsal.task import PROMPT_TOKENS, Prompts, find_prompts
from agon.lab.rehearsal.trainer import Counts, RehearsalTrainer, StopAfter
from agon.planning.architectures import architecture
from agon.planning.estimate import GPUS, MEAN_SHARE
from agon.planning.lengths import Lengths
from agon.planning.recipe_plan import workload
from agon.policies.base import load_tokenizer
from agon.train.config import AgonConfig
from agon.train.processes import Launched, wants_fsdp
from agon.train.recipes import Request, RunArguments, build_config

# Room for prompts beside the longest completion: a problem and a summary, twice over.
PROMPT_ROOM = 4096
# A closed engine's process returns its memory a moment later.
CARD_PATIENCE_S, CARD_POLL_S = 30.0, 0.5


@dataclass(frozen=True)
class Wanted:
    """What to rehearse: a recipe's run, so many steps of it, of so many problems (the recipe's if None)."""

    recipe: str
    asked: Request
    steps: int = 2
    lengths: str | None = None
    problems: int | None = None
    seconds: float | None = None  # instead of `problems`: as many as the plan fits into this time
    path: str | None = None
    out: Path | None = None
    # Told what the phases took so far, after each of the two trainers: a rehearsal may be cut short.
    watch: Callable[[Mapping[str, Mapping[str, Any]]], None] | None = None


def rehearse(wanted: Wanted) -> dict[str, Any]:
    """Rehearse a recipe and return all that was measured, as plain JSON values."""
    if wanted.steps < 1:
        raise InputError(f"--steps is a positive number, not {wanted.steps}.")
    if Launched.read().processes > 1 or wants_fsdp(wanted.asked.options):
        raise InputError(
            "A rehearsal runs in one process with the whole base: start it without a launcher and without fsdp; "
            "`agon plan --gpus N` has the arithmetic for more."
        )
    given = {**wanted.asked.options, **({"task_path": wanted.path} if wanted.path else {})}
    what, recipe = wanted.asked.what, build_config(given)
    lengths = checked_lengths(wanted.lengths, recipe.max_completion_length, MEAN_SHARE)
    problems = wanted.problems
    if wanted.seconds is not None:
        problems = fitting_problems(what.model, recipe, lengths, wanted.seconds / wanted.steps)
    layout = layout_of(recipe, problems)
    cuda = recipe.device.type == "cuda"
    phases, counts = Phases(cuda), Counts()
    with _folder(wanted.out) as folder:
        try:
            with phases("make the model"):
                base = make_random_base(
                    what.model,
                    folder / "model",
                    torch.bfloat16 if recipe.bf16 else torch.float32,
                    recipe.device.type,
                    recipe.max_completion_length + PROMPT_ROOM,
                    recipe.trust_remote_code,
                )
            given |= {"dialect": recipe.dialect or base.dialect}
            recipe = build_config(given)
            prompts = _prompts(what, recipe, base, layout.problems * wanted.steps)
            options = {**given, **layout.options, "output_dir": str(folder / "run")}
            config = _rehearse_steps(wanted, options, base, prompts, lengths, phases, counts)
        except torch.OutOfMemoryError as error:
            raise InputError(
                f"There is no room on the card in the phase '{phases.failed}': {str(error).splitlines()[0]} Lower "
                "per_device_train_batch_size, max_completion_length or vllm_gpu_memory_utilization."
            ) from error
        return _facts(wanted, what, recipe, config, base, prompts, lengths, phases, counts)


def _prompts(what: RunArguments, recipe: AgonConfig, base: RandomBase, needed: int) -> Prompts:
    tokenizer = load_tokenizer(str(base.folder))
    chat = Chat(tokenizer, recipe.dialect, dict(recipe.chat_template_kwargs or {}))
    return find_prompts(what.task, recipe.task_path, recipe.task_seed, chat, needed)


def _rehearse_steps(
    wanted: Wanted,
    given: Mapping[str, Any],
    base: RandomBase,
    prompts: Prompts,
    lengths: Lengths,
    phases: Phases,
    counts: Counts,
) -> AgonConfig:
    """One step and a checkpoint, then the others by a trainer that resumes from it."""
    round_steps = build_config(given).steps_per_round
    last = wanted.steps * round_steps
    options = {
        **given,
        "max_steps": last,
        "save_strategy": "steps",
        "save_steps": round_steps,
        "eval_strategy": "no",
        "sample_ahead": False,  # every round is timed where it is sampled
        "logging_steps": 1,
        "report_to": "none",
        # Forced completions end without a stop token, and would all be masked.
        "mask_truncated_completions": False,
    }
    free = torch.cuda.mem_get_info()[0] if phases.cuda else 0
    for stop in sorted({round_steps, last}):
        config = build_config(options)
        trainer = RehearsalTrainer(
            base.folder, prompts.task, config, lengths, phases, counts, longest=stop == last
        )
        trainer.add_callback(StopAfter(stop, counts))
        try:
            with phases("begin and end"):
                trainer.train(resume_from_checkpoint=stop != round_steps)
        finally:
            if wanted.watch:
                wanted.watch(phases.as_dicts())
            trainer.close()
        trainer.accelerator.free_memory()
        del trainer
        free_memory()
        if stop != last and phases.cuda:
            _wait_for_card(free)
    return config


def _wait_for_card(free: int) -> None:
    """Wait until nine tenths of what was free before are free again."""
    waited = time.monotonic() + CARD_PATIENCE_S
    while torch.cuda.mem_get_info()[0] < 0.9 * free and time.monotonic() < waited:
        time.sleep(CARD_POLL_S)


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    """Where the model and the run lie: a folder that was asked for and is kept, or a temporary one."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="agon-rehearsal-", ignore_cleanup_errors=True) as temporary:
            yield Path(temporary)
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"'{out}' is not an empty folder: choose another --out.")
    out.mkdir(parents=True, exist_ok=True)
    yield out


def _facts(
    wanted: Wanted,
    what: RunArguments,
    recipe: AgonConfig,
    config: AgonConfig,
    base: RandomBase,
    prompts: Prompts,
    lengths: Lengths,
    phases: Phases,
    counts: Counts,
) -> dict[str, Any]:
    gpu = found_gpu() if phases.cuda else None
    measured = phases.measured
    recipe_work = replace(
        workload(recipe, prompts.recipe_problems, PROMPT_TOKENS),
        mean_completion_length=lengths.mean,
        width=2 if recipe.bf16 else 4,
    )
    plans = Plans(
        architecture(str(base.folder)),
        rehearsed_workload(recipe_work, config, counts),
        recipe_work,
        GPUS[gpu] if gpu else None,
    )
    plays = len(directions(("A", "B")[: recipe.game.policies]))
    validation = 2 * plays * recipe.validation_size * (recipe.num_generations_eval or 1)
    rows = config.per_device_train_batch_size * config.gradient_accumulation_steps
    return {
        "recipe": wanted.recipe,
        "model": what.model,
        "task": what.task,
        "method": recipe.method,
        "engine": recipe.engine,
        "device": torch.cuda.get_device_name() if phases.cuda else "CPU",
        "planned_card": gpu,
        "base": {name: value for name, value in asdict(base).items() if name != "folder"},
        "verdicts": "a seeded coin",
        "prompts": {
            "source": prompts.source,
            "mean": fmean(counts.prompts),
            "longest": max(counts.prompts),
            "summary_tokens": SUMMARY_TOKENS,
        },
        "lengths": {
            "asked": asdict(lengths),
            "rollouts": len(counts.lengths),
            "mean": fmean(counts.lengths),
            "longest": max(counts.lengths),
            "longest_chain": fmean(counts.chains),
            "at_cap": fmean(length >= lengths.cap for length in counts.lengths),
        },
        "steps": counts.steps,
        "problems_per_step": rows // config.num_generations,
        "recipe_problems_per_step": (
            recipe.per_device_train_batch_size * recipe.gradient_accumulation_steps // recipe.num_generations
        ),
        "resumed_from": counts.resumed_from,
        "longest_micro_batch": counts.longest_micro_batch,
        "phases": phases.as_dicts(),
        "tokens_per_second": {
            "sampling": sum(counts.lengths) / measured["sampling"].seconds,
            "training": counts.trained_tokens / measured["training"].seconds,
        },
        "compared": compare(plans, measured, counts, phases.cuda),
        "whole_recipe": whole_recipe(plans, measured, counts, recipe, validation),
    }
