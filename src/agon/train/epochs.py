"""The order of the problems, a function of the seed and the epoch alone.

TRL's sampler draws each epoch's order from a generator that it begins anew in every process: a run resumed in its
second epoch would play the first one's order again. Here the order of an epoch is the one that an uninterrupted run
has.
"""

from collections.abc import Iterator
from typing import Any

import torch
from transformers import TrainerCallback
from trl.trainer.utils import RepeatSampler

from agon.train.stopping import Generators, generators


class EpochSampler(RepeatSampler):
    """TRL's sampler, which can be put to the beginning of any epoch."""

    epoch = 0

    @staticmethod
    def like(made: RepeatSampler) -> "EpochSampler":
        """One with the same settings."""
        names = ("data_source", "mini_repeat_count", "batch_size", "repeat_count", "shuffle", "seed")
        return EpochSampler(**{name: getattr(made, name) for name in names})

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        if self.shuffle:
            self.generator.manual_seed(self.seed)
            for _ in range(self.epoch):
                torch.randperm(self.num_samples, generator=self.generator)
        return super().__iter__()


class EpochStart(TrainerCallback):
    """Tells the sampler which epoch begins; several layers of data loaders lie between it and the trainer.

    It also keeps the random numbers of that moment, before the loader is started, which draws one.
    """

    def __init__(self) -> None:
        self.sampler: EpochSampler | None = None
        self._began: tuple[int, Generators] | None = None

    def generators_at(self, step: int) -> Generators | None:
        """The state of all generators before the epoch that began at a step; None if none did."""
        return self._began[1] if self._began and self._began[0] == step else None

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._began = (state.global_step, generators())
        if self.sampler is not None:
            self.sampler.set_epoch(int(state.epoch or 0))
