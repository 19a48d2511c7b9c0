"""What a world is: a task, the options of its trainings, and what construction says must come out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Expected = Literal["more", "same", "not more"]
METHODS = ("grpo", "self-refine", "coop", "agon", "hidden", "shuffled")
SIXTEEN = 16  # rollouts of a problem: eight drafts and eight challenges


def base_path(name: str) -> Path:
    """The folder of a base that speaks the moves of a world; `scripts/pretraining/worlds.py` made it."""
    return Path(__file__).parent / "bases" / name


@dataclass(frozen=True)
class Claim:
    """How the accuracy of one method must compare with that of another.

    `same` and `not more` are no statements of equality: the lab must then find no difference, or none upwards.
    """

    first: str
    second: str
    expected: Expected

    def __str__(self) -> str:
        words = {"more": ">", "same": "=", "not more": "≤"}
        return f"{self.first} {words[self.expected]} {self.second}"


@dataclass(frozen=True)
class World:
    """A world. `accuracy` is what construction predicts for each method after training, `why` in one sentence.

    `base` is one of ours, `task` as `agon train --task` takes it, `methods` the options by the names in the tables,
    `habits` the first words that the base has for its moves.
    """

    name: str
    why: str
    base: str
    task: str
    claims: tuple[Claim, ...]
    accuracy: Mapping[str, float]
    habits: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    methods: Mapping[str, str] = field(default_factory=lambda: {name: name for name in METHODS})
    # Where a method has other seeds than the rest: with the same ones its second name would repeat its runs.
    first_seeds: Mapping[str, int] = field(default_factory=dict)

    def training(self, method: str, seed: int) -> dict[str, Any]:
        """The options of `agon train` for one of its runs."""
        return {
            "model": str(base_path(self.base)),
            "task": self.task,
            "method": self.methods[method],
            "seed": seed,
            **COMMON,
            **self.options,
        }


# Every run of a world: sixteen problems a step, one thread, nothing kept but the adapters and the metrics.
COMMON: dict[str, Any] = {
    "dialect": "think",
    "num_generations": SIXTEEN,
    "per_device_train_batch_size": 128,
    "gradient_accumulation_steps": 2,
    "num_train_epochs": 1,
    "lr_scheduler_type": "constant",
    "warmup_steps": 0,
    "save_strategy": "no",
    "log_duels": False,
    "torch_threads": 1,
    "judge_workers": 1,
    "use_cpu": True,
}
