"""A trainer that loses nothing: rounds played again, whole checkpoints, a stop at the last good step.

The part of `AgonTrainer` that deals with what goes wrong or is interrupted. It knows nothing of duels: what it saves is
the pair, and what it plays again is whatever it is handed.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from transformers import TrainerState
from transformers.trainer_utils import TrainOutput
from trl import GRPOTrainer

from agon.engines.protocol import Engine
from agon.errors import InputError
from agon.policies import Pair
from agon.runs.checkpoints import STATE
from agon.runs.folder import Run
from agon.runs.lock import owned
from agon.runs.trust import refuse_links
from agon.train.callbacks import StopOnInterrupt
from agon.train.epochs import EpochStart
from agon.train.live import LiveView
from agon.train.logprob_gap import NotSyncedError
from agon.train.processes import sharding
from agon.train.redo import failed, recover
from agon.train.round_ahead import RoundAhead
from agon.train.sharding import shard_on_cpu
from agon.train.stopping import Abandonment, RoundStart, StopRunError, say
from agon.train.streams import Batch

T = TypeVar("T")
U = TypeVar("U")


class ResumingTrainer(GRPOTrainer):
    """Owns its run folder while it trains, and can be stopped and continued at any moment."""

    run: Run
    pair: Pair
    engine: Engine
    stops: StopOnInterrupt
    view: LiveView | None
    is_fsdp_enabled: bool
    _abandonment: Abandonment
    _ahead: RoundAhead[Any]
    _epochs: EpochStart
    _round_start: RoundStart | None
    _micro_batches: list[Batch]

    def train(
        self, resume_from_checkpoint: str | bool | None = None, trust_run_code: bool = False, **kwargs: Any
    ) -> Any:
        """Train, from the start or from a checkpoint; `True` takes the run's newest whole one, if any.

        A checkpoint with links that lead out of its run is not read without `trust_run_code`.
        """
        if resume_from_checkpoint and not trust_run_code:
            refuse_links(self.run, None if resume_from_checkpoint is True else Path(resume_from_checkpoint))
        with owned(self.run.folder) if self.accelerator.is_main_process else nullcontext():
            return self._train_alone(resume_from_checkpoint, **kwargs)

    def _train_alone(self, resume_from_checkpoint: str | bool | None, **kwargs: Any) -> Any:
        checkpoint = self._checkpoint(resume_from_checkpoint)
        self._micro_batches, self._round_start = [], None
        if checkpoint is not None:
            state = TrainerState.load_from_json(str(checkpoint / STATE))
            last = self.args.max_steps if self.args.max_steps > 0 else state.max_steps
            if 0 < last <= state.global_step:
                return self._write_the_rest(checkpoint, state)
        try:
            return super().train(resume_from_checkpoint=str(checkpoint) if checkpoint else None, **kwargs)
        except (StopRunError, InputError) as stop:
            self._keep_last_step(getattr(stop, "keeps", True))
            raise
        finally:
            self.stops.restore()
            if self.view is not None:
                self.view.close()  # whatever happened, the terminal is given back
            self._ahead.give_up()

    def _checkpoint(self, wanted: str | bool | None) -> Path | None:
        """The checkpoint to go on from, checked to be whole."""
        if wanted is True:
            chosen = self.run.choose_checkpoint()
            if chosen.passed_over and self.accelerator.is_main_process:
                say(chosen.passed_over)
            return chosen.folder
        if not wanted:
            return None
        self.run.refuse_damaged(Path(wanted))
        return Path(wanted)

    def _write_the_rest(self, checkpoint: Path, state: TrainerState) -> TrainOutput:
        """A run that was stopped after its last step, before it had written its adapters and summary."""
        state.is_world_process_zero, state.is_local_process_zero = (
            self.is_world_process_zero(),
            self.is_local_process_zero(),
        )
        self.state = state
        self.pair.load_weights(checkpoint)
        self.callback_handler.on_train_begin(self.args, state, self.control)
        self.callback_handler.on_train_end(self.args, state, self.control)
        return TrainOutput(state.global_step, 0.0, {})

    def _keep_last_step(self, keeps: bool) -> None:
        """Save the state at the end of the last step, as it was before the round that is given up."""
        start, step = self._round_start, int(self.state.global_step)
        if not keeps or not step or start is None or start.step != step or step % self.args.steps_per_round:
            return
        self.model.zero_grad()
        start.restore(self, self._epochs.generators_at(step))
        if self.run.newest_step() != step:
            self.control.should_log = self.control.should_save = True
            self.control.should_evaluate = False
            self._maybe_log_save_evaluate(self._tr_loss, None, self.model, None, 0, None, 0.0)
        if self.accelerator.is_main_process:
            self.run.rewind(step)
        self.accelerator.wait_for_everyone()
        self.callback_handler.on_train_end(self.args, self.state, self.control)

    # A round that failed

    def _redone(self, play: Callable[[], T], score: Callable[[T], U]) -> U:
        """What `score` makes of what was played; both again once where the engine failed.

        Rounds are seeded, so nothing changes. `play` may fail in one process alone, so all agree on that before
        `score`, in which they wait for one another; a sync that did not arrive fails in every one.
        """
        for tries_left in (1, 0):
            error: Exception | None = None
            try:
                with self._abandonment.allowed():
                    played = play()
            except StopRunError:
                raise
            except Exception as fault:
                error = fault
            if not self._anyone(error is not None):
                try:
                    with self._abandonment.allowed():
                        return score(played)
                except NotSyncedError as stale:
                    error = stale
            # Another process may have a round that was sampled ahead: all of them sync for the next one, or none.
            self._ahead.give_up()
            if not tries_left or not recover(self.engine, error):
                raise failed(error)
            say(f"The engine failed ({' '.join(str(error).split())}): this round is played again.")
            assert self._round_start is not None
            self._round_start.restore(self)
        raise AssertionError("a round is played at most twice")

    def _anyone(self, here: bool) -> bool:
        """Whether something is so in any process."""
        if self.accelerator.num_processes == 1:
            return here
        flag = torch.tensor(float(here), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, reduction="sum") > 0)

    # Checkpoints

    def _get_output_dir(self, trial: Any) -> str:
        return str(self.run.staging)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Write a checkpoint aside and move it into place whole: a kill never leaves half of one.

        A round that was sampled ahead is no part of it. A resumed run samples that round when it is due, and so does
        this one.
        """
        self._ahead.give_up()
        with self._whole_adapters():
            super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            self.run.publish_checkpoint(self.state.global_step, self.args.save_total_limit)
        self.accelerator.wait_for_everyone()

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self.pair.load_weights(resume_from_checkpoint)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        with self._whole_adapters():
            super()._load_optimizer_and_scheduler(checkpoint)

    @contextmanager
    def _whole_adapters(self) -> Iterator[None]:
        """What a checkpoint holds is whole in every process, so it is written and read as without FSDP."""
        sharded, self.is_fsdp_enabled = self.is_fsdp_enabled, False
        try:
            yield
        finally:
            self.is_fsdp_enabled = sharded

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        if sharding(vars(self.args), os.environ) and not self.is_fsdp_enabled:
            shard_on_cpu(self.accelerator, self.args.fsdp_plugin_args)
            self.is_fsdp_enabled = True
