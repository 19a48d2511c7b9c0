"""What finished runs left behind besides their evaluations: settings, steps, times.

A folder of runs may hold plain models' evaluations as well (`agon eval MODEL --output`), which have no training.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from agon.errors import InputError
from agon.game.methods import method as method_of
from agon.game.methods import place_of
from agon.runs.evaluations import EvaluationFolder, find_evaluations
from agon.runs.folder import Run, is_run

Line = dict[str, Any]
# What a report reads of every result, whether or not it is compared.
RESULT: dict[str, type] = {
    **dict.fromkeys(("task", "model", "fingerprint", "engine"), str),
    **dict.fromkeys(("n", "samples"), int),
    **dict.fromkeys(("decoding", "arms"), dict),
}


@dataclass(frozen=True)
class Record:
    """One run, or one plain model's evaluations, which have neither a method nor steps."""

    run: Run

    @property
    def folder(self) -> Path:
        return self.run.folder

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def trained(self) -> bool:
        return is_run(self.folder)

    @cached_property
    def config(self) -> Line:
        return self.run.read_config() if self.trained else {}

    @property
    def method(self) -> str:
        return str(self.config["method"])

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def rate(self) -> float:
        return float(self.config["learning_rate"])

    @cached_property
    def task(self) -> Line:
        return self.run.read_task()

    @cached_property
    def summary(self) -> Line:
        return self.run.read_summary()

    @cached_property
    def environment(self) -> Line:
        return self.run.read_environment()

    @cached_property
    def note(self) -> str:
        """What a reader of its figures must know."""
        return self.run.read_note()

    @cached_property
    def times(self) -> dict[str, float]:
        """The seconds of each stage."""
        return self.run.read_times()

    @cached_property
    def steps(self) -> list[Line]:
        """The lines of the optimizer steps; those of validation are left out."""
        return [line for line in self.run.read_metrics() if "loss" in line]

    @property
    def rollouts(self) -> int:
        """How many rollouts the optimizer steps were fed with."""
        sizes = ("per_device_train_batch_size", "gradient_accumulation_steps")
        device, rounds = (int(self.config[size]) for size in sizes)
        each = device * rounds * int(self.environment.get("processes", 1))
        return len(self.steps) * each // int(self.config.get("num_iterations") or 1)

    def signal(self) -> dict[str, list[float]]:
        """The rollouts that each adapter learned from, summed up step by step.

        A group whose rollouts all earned the same teaches nothing and is left out of the update. Where policies learn
        from each other's rollouts too, every one learns from all.
        """
        method = method_of(self.method)
        roles = ("draft", "challenge") if method.challenges else ("draft",)
        rows = self.rollouts / max(1, len(self.steps)) / len(roles)
        sums: dict[str, list[float]] = {}
        for step in self.steps:
            fed: dict[str, float] = {}
            for role, policy in zip(roles, method.players(int(step["step"]) - 1), strict=False):
                fed[policy] = fed.get(policy, 0.0) + rows * (1 - step[f"{role}/dropped_groups"])
            if method.learns_from == "both":
                fed = dict.fromkeys(fed, sum(fed.values()))
            for name, more in fed.items():
                before = sums.setdefault(name, [])
                before.append((before[-1] if before else 0.0) + more)
        return sums

    @property
    def rollouts_with_signal(self) -> float:
        """The rollouts that an adapter learned from, mean over the adapters."""
        return fmean(sums[-1] for sums in self.signal().values())

    @property
    def rollouts_each(self) -> float:
        """The rollouts that an adapter would learn from if no group were left out."""
        return self.rollouts / (1 if method_of(self.method).learns_from == "both" else len(self.signal()))

    @property
    def sampled_tokens(self) -> float:
        """The tokens of all completions sampled in training."""
        return sum(step["time/tokens_per_second"] * step["time/sampling"] for step in self.steps)

    def evaluations(self, split: str) -> dict[str, EvaluationFolder]:
        """The evaluations of a split by the name of their task, the run's own task first."""
        if split not in self._evaluations:
            found = self.run.evaluated(split) if self.trained else find_evaluations(self.folder, split)
            self._evaluations[split] = {_task_of(each): each for each in found}
        return self._evaluations[split]

    @cached_property
    def base(self) -> str | None:
        """What identifies the weights of its base, where it was evaluated."""
        return next(
            (each.base() for split in ("test", "validation") for each in self.evaluations(split).values()),
            None,
        )

    @cached_property
    def _evaluations(self) -> dict[str, dict[str, EvaluationFolder]]:
        return {}


def _task_of(evaluation: EvaluationFolder) -> str:
    """The task of an evaluation, whose result is refused if it lacks what a report reads of every one."""
    result = evaluation.read_result()
    for name, kind in RESULT.items():
        if not isinstance(result.get(name), kind):
            raise InputError(f"{evaluation.folder} has no whole result ({name}): evaluate again.")
    return str(result["task"])


def read_records(folder: Path) -> list[Record]:
    """The runs and plain evaluations in a folder: plain ones first, runs as in the table of methods."""
    found = [read_record(path) for path in sorted(folder.glob("*")) if is_run(path) or find_evaluations(path)]
    if not any(record.trained for record in found):
        raise InputError(f"'{folder}' holds no runs: expected folders with a config.yaml in it.")
    return sorted(
        found,
        key=lambda one: (place_of(one.method), one.seed, one.rate) if one.trained else (-1, 0, 0.0),
    )


def read_record(folder: Path) -> Record:
    return Record(Run(folder))


def differing_in_rate(records: Sequence[Record]) -> list[Record]:
    """Runs of `grpo` for which there is another one with the same seed and another learning rate."""
    single = [record for record in records if record.method == "grpo"]
    return [
        record
        for record in single
        if any(one.seed == record.seed and one.rate != record.rate for one in single)
    ]
