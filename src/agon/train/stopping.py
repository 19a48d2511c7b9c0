"""How a run stops before its end: why, with which exit code, and what it keeps.

    0    finished                          130  Ctrl-C
    1    an error inside                   138  SIGUSR1, which Slurm sends before it pre-empts
    2    wrong input                       143  SIGTERM
    3    the run stopped itself: the judge, the engine or the numbers failed

Whatever the reason, a run keeps the state at the end of its last step. A round that is under way is given up: rounds
are seeded, so a resumed run plays it again as it would have been.
"""

import random
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from agon import printing

STOPPED_ITSELF = 3
# After a signal the step may go on for so long; then its round is given up. Slurm and Kubernetes kill after 30 s.
PATIENCE_SECONDS = 15.0


class StopRunError(Exception):
    """The run must stop: a sentence, its exit code, and whether the state of the last step can be kept."""

    def __init__(self, sentence: str, code: int = STOPPED_ITSELF, keeps: bool = True) -> None:
        super().__init__(sentence)
        self.code = code
        self.keeps = keeps


def exit_code(number: int) -> int:
    """The exit code of a run that was stopped by a signal, as shells have it."""
    return 128 + number


class Abandonment:
    """Lets a signal end the work of a round, and nothing else: no file is being written there."""

    def __init__(self) -> None:
        self._wanted: StopRunError | None = None
        self._inside = False

    def forget(self) -> None:
        """Nobody asks any more: another training begins."""
        self._wanted = None

    def check(self) -> None:
        """Stop here, if that was asked for."""
        if self._wanted is not None:
            raise self._wanted

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Within this block, and when entering it, a run that is asked to stop does so."""
        self.check()
        self._inside = True
        try:
            yield
        finally:
            self._inside = False

    def ask(self, stop: StopRunError) -> None:
        """Called by a handler of signals, between any two instructions of the main thread."""
        self._wanted = stop
        if self._inside:
            self._inside = False
            raise stop


Generators = tuple[Any, ...]


def generators() -> Generators:
    """The state of every generator of random numbers."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), cuda


@dataclass(frozen=True)
class RoundStart:
    """All that playing and training a round changes before its optimizer step, as it was before the round."""

    step: int
    generators: Generators
    metrics: dict[str, list[float]]
    loss: torch.Tensor | None
    counters: dict[str, Any]

    @staticmethod
    def of(trainer: Any) -> "RoundStart":
        loss = getattr(trainer, "_tr_loss", None)
        return RoundStart(
            step=int(trainer.state.global_step),
            generators=generators(),
            metrics={name: list(values) for name, values in trainer._metrics["train"].items()},
            loss=None if loss is None else loss.clone(),
            counters={
                "num_input_tokens_seen": trainer.state.num_input_tokens_seen,
                "total_flos": trainer.state.total_flos,
                "current_flos": trainer.current_flos,
            },
        )

    def restore(self, trainer: Any, others: Generators | None = None) -> None:
        """Put everything back, so that the round can be played again or a checkpoint be saved.

        A resumed run begins an epoch after its checkpoint was loaded, which draws a number: a checkpoint between two
        epochs needs the generators of before, `others`.
        """
        python, numpy, cpu, cuda = others or self.generators
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
        trainer._metrics["train"] = defaultdict(list, {key: list(each) for key, each in self.metrics.items()})
        if self.loss is not None:
            trainer._tr_loss = self.loss.clone()
        for name, value in self.counters.items():
            setattr(trainer if name == "current_flos" else trainer.state, name, value)


def say(sentence: str) -> None:
    """A sentence for whoever watches the run."""
    printing.say(f"agon: {sentence}", file=sys.stderr, flush=True)


# What ends a run from outside, and what it is called in a sentence.
SIGNALS = {signal.SIGTERM: "SIGTERM", signal.SIGUSR1: "SIGUSR1"}
