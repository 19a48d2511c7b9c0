"""The trainer of a rehearsal: the real one, timed by phase, on an engine that keeps to stated lengths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PrinterCallback, TrainerCallback

from agon.arena import Arena
from agon.engines.build import build_engine
from agon.game.duel import Duel
from agon.lab.rehearsal.coin import COIN
from agon.lab.rehearsal.engine import ForcedLengths, Writer
from agon.lab.rehearsal.phases import Phases
from agon.planning.lengths import Lengths
from agon.tasks import Task
from agon.train.config import AgonConfig
from agon.train.round_rows import Rows
from agon.train.sampling import Play
from agon.train.streams import Batch
from agon.train.trainer import AgonTrainer


@dataclass
class Counts:
    """What the steps of a rehearsal were made of."""

    lengths: list[int] = field(default_factory=list)
    chains: list[int] = field(default_factory=list)  # of each round, the longest draft with its challenge
    prompts: list[int] = field(default_factory=list)
    trained_tokens: int = 0
    steps: int = 0
    resumed_from: int | None = None
    longest_micro_batch: tuple[int, int] | None = None  # rows and tokens of each

    def add(self, duels: Sequence[Sequence[Duel]]) -> None:
        self.chains.append(max(_tokens(duel) for group in duels for duel in group))
        for duel in (duel for group in duels for duel in group):
            entries = [duel.draft] if duel.challenge is None else [duel.draft, duel.challenge]
            self.lengths += [entry.rollout.length for entry in entries]
            self.prompts += [entry.rollout.prompt_length for entry in entries]


def _tokens(duel: Duel) -> int:
    return duel.draft.rollout.length + (duel.challenge.rollout.length if duel.challenge else 0)


class RehearsalTrainer(AgonTrainer):
    """Plays and trains as a run does. With `longest`, its first gradient is one of the longest micro-batch.

    The rollouts of a few problems rarely put the longest completions into one micro-batch. A week's run
    will, so the peak is measured with one that is filled up to the recipe's cap; its gradient is dropped.
    """

    def __init__(
        self,
        folder: Path,
        task: Task,
        args: AgonConfig,
        lengths: Lengths,
        phases: Phases,
        counts: Counts,
        longest: bool,
    ) -> None:
        self.phases, self.counts = phases, counts
        self._longest_due = longest
        self._in_round = False
        engine = ForcedLengths(args.engine, lengths, phases)
        with phases("load"):
            super().__init__(model=str(folder), task=task, args=args, judge=COIN, engine=engine)
        self.remove_callback(PrinterCallback)
        with phases("engine start"):
            inner = build_engine(args.engine, self.pair, self.chat, str(folder), args.engine_options)
        engine.start(inner, Writer(self.chat, self.problems[0].domain))
        self.arena = _TimedArena(self)
        self.add_callback(_StepClock(phases))

    def _play_round(self, rows: Rows) -> list[Batch]:
        self._in_round = True
        try:
            with self.phases("scoring"):
                return super()._play_round(rows)
        finally:
            self._in_round = False

    def _logprobs(self, *args: Any, **kwargs: Any) -> Any:
        with self.phases("sampler check"):
            return super()._logprobs(*args, **kwargs)

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        with self.phases("training"):
            loss: torch.Tensor = super().training_step(*args, **kwargs)
        return loss

    def _compute_loss(self, model: nn.Module, inputs: Batch) -> torch.Tensor:
        if "passes" in inputs:
            return self._compute_passes(model, inputs)
        if self._longest_due:
            self._longest_due = False
            with self.phases("longest micro-batch"):
                self._measure_longest(model, inputs)
        self.counts.trained_tokens += int(inputs["prompt_mask"].sum() + inputs["completion_mask"].sum())
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        return loss

    def _compute_passes(self, model: nn.Module, inputs: Batch) -> torch.Tensor:
        """Passes of one stream come back to `_compute_loss` one by one; those of both are counted here."""
        for batch in (batch for each in inputs["passes"] if len(each) > 1 for batch in each):
            self.counts.trained_tokens += int(batch["prompt_mask"].sum() + batch["completion_mask"].sum())
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        return loss

    def _measure_longest(self, model: nn.Module, inputs: Batch) -> None:
        rows, completion = self.args.per_device_train_batch_size, self.args.max_completion_length
        prompt = max(self.counts.prompts)
        full = stretched(inputs, rows, prompt, completion)
        self.accelerator.backward(super()._compute_loss(model, full))
        model.zero_grad(set_to_none=True)
        self.counts.longest_micro_batch = (rows, prompt + completion)

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        with self.phases("checkpoint"):
            super()._save_checkpoint(*args, **kwargs)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        with self.phases("resume"):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        with self.phases("resume"):
            super()._load_optimizer_and_scheduler(checkpoint)
        self.counts.resumed_from = int(self.state.global_step)

    def _note_memory(self, phase: str) -> None:
        """Nothing: it would set the peaks back that the phases read."""


class _TimedArena(Arena):
    """The trainer's arena; sampling in a round is counted, sampling for a check only timed."""

    def __init__(self, trainer: RehearsalTrainer) -> None:
        super().__init__(trainer.engine, trainer.chat, trainer.judge, trainer.args.summary_limit)
        self._trainer = trainer

    def sample(self, *args: Any, **kwargs: Any) -> Play:
        in_round = self._trainer._in_round
        with self._trainer.phases("sampling" if in_round else "sampler check"):
            duels = super().sample(*args, **kwargs)()
        if in_round:
            self._trainer.counts.add(duels)
        return lambda: duels


class _StepClock(TrainerCallback):
    """Times the optimizer's own step, and what of a whole step is in no other phase."""

    def __init__(self, phases: Phases) -> None:
        self._phases = phases

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._phases.enter("other")

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        self._phases.enter("optimizer")

    def on_optimizer_step(self, *_: Any, **__: Any) -> None:
        self._phases.leave()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._phases.leave()


class StopAfter(TrainerCallback):
    """Ends a training after a step, as an interruption would, and counts steps."""

    def __init__(self, step: int, counts: Counts) -> None:
        self._step = step
        self._counts = counts

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._counts.steps += 1
        if state.global_step >= self._step:
            control.should_training_stop = True


def stretched(batch: Mapping[str, Any], rows: int, prompt: int, completion: int) -> Batch:
    """A micro-batch filled up: so many rows, prompts and completions repeated up to so many tokens."""
    present, width = batch["completion_mask"].shape
    device = batch["completion_mask"].device
    chosen = torch.arange(rows, device=device) % present
    columns = {
        True: torch.arange(prompt, device=device) % batch["prompt_mask"].shape[1],
        False: torch.arange(completion, device=device) % width,
    }
    full: Batch = {}
    for key, value in batch.items():
        of_prompt = key in ("prompt_ids", "prompt_mask")
        if not isinstance(value, torch.Tensor) or value.dim() == 0:
            full[key] = value
        elif of_prompt or (value.dim() == 2 and value.shape[1] == width):
            full[key] = value[chosen][:, columns[of_prompt]]
        else:
            full[key] = value[chosen]
    for mask in ("prompt_mask", "completion_mask"):
        full[mask] = torch.ones_like(full[mask])
    # Rows of a real micro-batch differ in length: attention then takes its masked path, which costs more.
    full["prompt_mask"][1:, 0] = 0
    return full
