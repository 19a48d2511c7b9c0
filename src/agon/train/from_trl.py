"""What a user of TRL hands to a trainer, turned into what ours works with.

`GRPOConfig`, `LoraConfig`, `reward_funcs`, datasets: each is taken as it stands where it has a meaning here,
and refused in one sentence where it has none.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from datasets import Dataset, IterableDataset, IterableDatasetDict
from peft import LoraConfig
from torch import nn
from trl import GRPOConfig

from agon.errors import InputError
from agon.game.problem import Problem
from agon.judges.judge import Judge
from agon.judges.registry import JUDGES, OWN, as_judge, is_own, name_of
from agon.runs.folder import is_run
from agon.tasks import Task, load_task, task_from_dataset
from agon.tasks.hub import SPLIT_NAMES
from agon.tasks.load import absolute
from agon.tasks.splits import SPLITS
from agon.tasks.stored import STORED
from agon.train.config import ALL_LINEAR, AgonConfig

JudgeLike = str | Judge | Callable[..., Any] | Sequence[Callable[..., Any]]

# What is read of a LoraConfig, and what may differ without a meaning here.
LORA = {
    "r": "lora_r",
    "lora_alpha": "lora_alpha",
    "lora_dropout": "lora_dropout",
    "target_modules": "lora_target_modules",
}
IGNORED_LORA = frozenset(("task_type", "peft_type", "peft_version", "inference_mode", "auto_mapping"))


def as_config(args: GRPOConfig | None) -> AgonConfig:
    """The configuration as ours. What a `GRPOConfig` leaves at TRL's default has our default.

    The layout of a batch is TRL's, whoever set it: where its accumulation steps are odd, the micro-batches are halved
    and their number doubled, because those of drafts and of challenges alternate.
    """
    if args is None:
        return AgonConfig(output_dir=free_folder())
    if isinstance(args, AgonConfig):
        return args
    if not isinstance(args, GRPOConfig):
        raise InputError(f"args must be an AgonConfig or a GRPOConfig, not {type(args).__name__}.")
    # TRL wants bfloat16 unless told otherwise, and refuses itself where there is none.
    device = {"use_cpu": args.use_cpu, "fp16": args.fp16, "bf16": args.bf16}
    usual = GRPOConfig(output_dir=args.output_dir, **device)
    given = {
        each.name: getattr(args, each.name)
        for each in fields(GRPOConfig)
        if each.init and getattr(args, each.name) != getattr(usual, each.name)
    }
    given |= {name: value for name, value in device.items() if name != "bf16" or not value}
    given |= _layout(args)
    folder = args.output_dir if args.output_dir != "trainer_output" else free_folder()
    return AgonConfig(**{**given, "output_dir": folder})


def _layout(args: GRPOConfig) -> dict[str, Any]:
    size, accumulation = args.per_device_train_batch_size, args.gradient_accumulation_steps
    steps = args.steps_per_generation
    if (accumulation % 2 or steps % 2) and size % 2 == 0:
        size, accumulation, steps = size // 2, accumulation * 2, steps * 2
    return {
        "num_generations": args.num_generations,
        "per_device_train_batch_size": size,
        "gradient_accumulation_steps": accumulation,
        "steps_per_generation": steps,
        "generation_batch_size": None,
    }


def free_folder() -> str:
    """The first of runs/agon, runs/agon-2, … that holds no run."""
    folder, number = Path("runs") / "agon", 1
    while is_run(folder):
        number += 1
        folder = Path("runs") / f"agon-{number}"
    return str(folder)


def take_lora(args: AgonConfig, given: LoraConfig | None) -> None:
    """Take rank, scale, dropout and layers from a `LoraConfig`."""
    if given is None:
        return
    if not isinstance(given, LoraConfig):
        raise InputError(
            f"peft_config must be a LoraConfig, not {type(given).__name__}: both policies are LoRA."
        )
    usual = LoraConfig()
    for each in fields(given):
        value = getattr(given, each.name)
        if each.name in LORA or each.name in IGNORED_LORA or value == getattr(usual, each.name):
            continue
        raise InputError(
            f"Agon takes {', '.join(LORA)} of a LoraConfig and not {each.name}: leave it at its default."
        )
    args.lora_r, args.lora_alpha, args.lora_dropout = given.r, given.lora_alpha, given.lora_dropout
    targets = given.target_modules
    if isinstance(targets, str) and targets != ALL_LINEAR:
        raise InputError(
            f"target_modules must be a list of names or '{ALL_LINEAR}', not the pattern '{targets}'."
        )
    if targets is not None:
        args.lora_target_modules = [targets] if isinstance(targets, str) else sorted(targets)


def take_judge(judge: JudgeLike | None, reward_funcs: Any, args: AgonConfig) -> JudgeLike | None:
    """Who decides: `judge` or `reward_funcs`, which mean the same here. The configuration records it by name."""
    if judge is not None and reward_funcs is not None:
        raise InputError("Give `judge` or `reward_funcs`, not both: they mean the same.")
    chosen = judge if judge is not None else reward_funcs
    if isinstance(chosen, list | tuple) and len(chosen) == 1:
        chosen = chosen[0]
    if chosen is None:
        return None
    if isinstance(chosen, str):
        if chosen not in JUDGES and ":" not in chosen:
            raise InputError(
                f"reward_funcs must be functions or the name of a judge ({', '.join(JUDGES)}, module:object); a "
                f"reward model such as '{chosen}' gives no right or wrong."
            )
        args.judge = chosen
        return chosen
    for each in chosen if isinstance(chosen, list | tuple) else [chosen]:
        if isinstance(each, nn.Module):
            raise InputError("reward_funcs must be functions: a reward model gives no right or wrong.")
    if isinstance(chosen, list | tuple) and any(isinstance(each, str) for each in chosen):
        raise InputError("A list of reward_funcs holds functions only; name one judge by itself.")
    as_judge(chosen)  # refuses what cannot judge
    args.judge = name_of(chosen) or OWN
    return chosen


@dataclass(frozen=True)
class TrainingTask:
    """The task of a run and how the run records it; `stored` where its problems must be kept in the run."""

    task: Task
    spec: str
    stored: bool


def take_task(
    task: Any, train_dataset: Any, eval_dataset: Any, judge: JudgeLike | None, args: AgonConfig
) -> TrainingTask:
    """The task: a name, a `Task`, or datasets with a judge."""
    if task is not None and train_dataset is not None:
        raise InputError("Give `task` or `train_dataset`, not both: they mean the same.")
    given = task if task is not None else train_dataset
    if given is None:
        raise InputError("Give `train_dataset` (a Dataset, a DatasetDict or the name of a task), or `task`.")
    if args.task_path is not None:
        args.task_path = os.path.abspath(os.path.expanduser(args.task_path))
    if isinstance(given, str):
        made = load_task(given, path=args.task_path, seed=args.task_seed)
        known = TrainingTask(made, absolute(given), stored=False)
        if given.startswith(STORED):
            known = TrainingTask(made, made.name, stored=True)
    elif isinstance(given, Task):
        known = TrainingTask(given, given.name, stored=True)
    else:
        made = _from_datasets(given, judge, args)
        known = TrainingTask(made, made.name, stored=True)
    if eval_dataset is None:
        return known
    reading = held_out(eval_dataset, known.task.name, judge, args)
    splits = {**known.task.splits, "validation": reading}
    return TrainingTask(replace(known.task, splits=splits), known.task.name, stored=True)


def held_out(dataset: Any, name: str, judge: JudgeLike | None, args: AgonConfig) -> list[Problem]:
    """The problems of a dataset that is not trained on."""
    parts = _parts(dataset)
    rows = next((parts[split] for split in ("validation", "test", "train") if split in parts), None)
    if rows is None:
        raise InputError(f"The evaluation dataset has no split called {', '.join(SPLITS)}.")
    made = task_from_dataset(
        rows, _judge_name(judge, args), name=name, needs_answer=_needs_answer(judge, args)
    )
    return list(made.problems("train"))


def _from_datasets(given: Any, judge: JudgeLike | None, args: AgonConfig) -> Task:
    if judge is None and args.judge is None:
        raise InputError(
            "A dataset needs a judge: pass `judge='math'`, `'exact'`, an object with a `judge` method, or a function."
        )
    parts = _parts(given)
    if "train" not in parts:
        raise InputError(f"The DatasetDict has no split 'train' (its splits: {', '.join(parts) or 'none'}).")
    return task_from_dataset(
        parts["train"],
        _judge_name(judge, args),
        parts.get("validation"),
        parts.get("test"),
        needs_answer=_needs_answer(judge, args),
    )


def _parts(given: Any) -> dict[str, Any]:
    """A dataset by split; one that has none is for training."""
    if isinstance(given, IterableDataset | IterableDatasetDict):
        raise InputError(
            "A streamed dataset has no length: load it without streaming, or take rows from it with "
            "Dataset.from_list(list(dataset.take(1000)))."
        )
    if isinstance(given, Mapping):
        return {SPLIT_NAMES.get(str(split), str(split)): rows for split, rows in given.items()}
    if isinstance(given, Dataset | list | tuple):
        return {"train": given}
    raise InputError(
        f"A dataset is a datasets.Dataset, a DatasetDict, a list of rows or the name of a task, not "
        f"{type(given).__name__}."
    )


def _judge_name(judge: JudgeLike | None, args: AgonConfig) -> str:
    return judge if isinstance(judge, str) else args.judge or OWN


def _needs_answer(judge: JudgeLike | None, args: AgonConfig) -> bool:
    """Whether the judge compares with a gold answer, as those that come with the package do."""
    if judge is None or isinstance(judge, str):
        return (judge or args.judge) in JUDGES
    return not is_own(as_judge(judge))
