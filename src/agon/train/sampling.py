"""A trainer's rounds: what is played in each, when it is sampled, and from which weights.

As a rule a round is sampled when it is due, from the policies as they are then. With `sample_ahead` the next round is
begun as soon as the present one is scored, and sampled while that one trains: its rollouts are one round of updates
old when they are trained on, and never more. A round is sampled when it is due all the same

- at the start of a run and of an epoch (the loader gives no batch beyond an epoch's end);
- after a checkpoint, so that a resumed run plays what the uninterrupted one does;
- where sampling it ahead has failed.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from trl import GRPOTrainer

from agon.arena import Arena
from agon.engines.protocol import Engine, derive_seed
from agon.game.duel import Duel
from agon.game.methods import Method
from agon.game.problem import Problem
from agon.policies import Pair
from agon.train.callbacks import StopOnInterrupt
from agon.train.config import AgonConfig
from agon.train.logprob_gap import SamplerWatch
from agon.train.round_ahead import Progress, Round, RoundAhead
from agon.train.round_rows import Rows
from agon.train.stopping import Abandonment

# Duels, once their verdicts are there.
Play = Callable[[], list[list[Duel]]]


class Peekable(Iterator[Any]):
    """An iterator whose later items can be looked at before they are handed out."""

    def __init__(self, source: Iterator[Any]) -> None:
        self.source = source
        self._seen: deque[Any] = deque()

    def __next__(self) -> Any:
        return self._seen.popleft() if self._seen else next(self.source)

    def peek(self, number: int) -> Any | None:
        """The item that comes after `number` others; None if there are not so many."""
        while len(self._seen) <= number:
            try:
                self._seen.append(next(self.source))
            except StopIteration:
                return None
        return self._seen[number]


class SamplingTrainer(GRPOTrainer):
    """Plays rounds under the policies as they are, or one round ahead."""

    args: AgonConfig
    arena: Arena
    engine: Engine
    method: Method
    pair: Pair
    problems: Sequence[Problem]
    stops: StopOnInterrupt
    on_sampling: Progress | None
    _abandonment: Abandonment
    _ahead: RoundAhead[Play]
    _sampler: SamplerWatch
    _batches: Peekable | None = None

    @property
    def round(self) -> int:
        """Which round of rollouts the present step belongs to; roles swap with it."""
        return int(self.state.global_step // self.args.steps_per_round)

    def _sync(self) -> dict[str, int]:
        """Hand the engine the policies as they are now; a version is the number of updates so far."""
        if self.args.vllm_enable_sleep_mode:
            self.engine.wake()
        versions = dict.fromkeys(self.pair.names, int(self.state.global_step))
        for policy, version in versions.items():
            self.engine.sync(policy, version)
            if not self.engine.capabilities.live_weights:
                self._sampler.note_sync(policy, version)
        return versions

    def _sample(self, problems: Sequence[Problem]) -> list[list[Duel]]:
        """Play the duels of a round under the policies as they are now."""
        due = self._planned(problems, self._step, int(self.state.global_step))
        return self._sampled(due, self._sync(), self.on_sampling)()

    def _sampled(self, planned: Round, versions: Mapping[str, int], progress: Progress | None) -> Play:
        return self.arena.sample(
            planned.problems,
            self.method,
            drafts=self.args.group_size,
            sampling=self.args.sampling,
            versions=versions,
            step=planned.step,
            players=planned.players,
            seed=planned.seed,
            progress=progress,
        )

    def _due(self, problems: Sequence[Problem]) -> tuple[list[list[Duel]], float]:
        """The duels of the round that is due, and the seconds that it was sampled for before it was due."""
        due = self._planned(problems, self._step, int(self.state.global_step))
        sampled = self._ahead.take(due, self.on_sampling)
        return (sampled.what(), sampled.before) if sampled else (self._sample(problems), 0.0)

    def _planned(self, problems: Sequence[Problem], micro_step: int, step: int) -> Round:
        """The round that begins with a micro-step, which is one of an optimizer step."""
        return Round(
            problems=tuple(problems),
            step=step,
            players=self.method.players(step // self.args.steps_per_round),
            seed=derive_seed(self.args.seed, micro_step // self.args.steps_per_generation),
        )

    # The round after the present one

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: torch.device) -> Any:
        """The Trainer's: an optimizer step's batches. What comes after them can be looked at."""
        if self.args.sample_ahead:
            if self._batches is None or self._batches.source is not epoch_iterator:
                self._batches = Peekable(epoch_iterator)
            epoch_iterator = self._batches
        return super().get_batch_samples(epoch_iterator, num_batches, device)

    def _begin_next(self) -> None:
        """Begin the next round under the policies as they are now, at the first micro-step of the present one."""
        rows = self._next_rows()
        if rows is None:
            return
        micro_step, step = self._next_start()
        planned = self._planned(self._problems_of(rows), micro_step, step)
        versions: dict[str, int] = {}
        with self._abandonment.allowed():
            self._ahead.begin(
                planned,
                lambda: versions.update(self._sync()),
                lambda progress: self._sampled(planned, versions, progress),
            )

    def _next_rows(self) -> Rows | None:
        """The rows of the next round; None where it is not to be sampled ahead. All processes answer alike."""
        micro_step, step = self._next_start()
        if not self.args.sample_ahead or self._batches is None or step >= self.state.max_steps:
            return None
        if self._saves_until(step) or self._is_stopping():
            return None
        # The batches of this optimizer step have been handed out.
        rows: Rows | None = self._batches.peek(
            micro_step - self._step - self.args.gradient_accumulation_steps
        )
        return rows

    def _next_start(self) -> tuple[int, int]:
        """The first micro-step of the next round, and its optimizer step; rounds are of whole ones here."""
        each = self.args.steps_per_generation * self.num_iterations
        micro_step = (self._step // each + 1) * each
        return micro_step, micro_step // self.args.gradient_accumulation_steps

    def _saves_until(self, step: int) -> bool:
        """Whether a checkpoint will be saved before a step begins, as far as that is known."""
        every = int(self.state.save_steps) if self.args.save_strategy == "steps" else 0
        return every > 0 and step // every > self.state.global_step // every

    def _is_stopping(self) -> bool:
        """Whether the run stops after this round, so that nobody will want the next one.

        A signal may have reached only some of several processes, and a sync of shared servers needs all of them.
        """
        alone = self.accelerator.num_processes == 1 or not self._ahead.overlaps
        return bool(self.stops.requested) and alone

    def _problems_of(self, rows: Rows) -> list[Problem]:
        """The problems of a round's rows, of which each problem has several."""
        return [self.problems[row["index"]] for row in rows[:: self.args.num_generations]]
