"""A tiny run in a process of its own, which faults are done to.

Processes are forked from this one, where everything is imported already: a start costs a second, not ten.
"""

import contextlib
import gc
import os
import random
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from transformers import PrinterCallback, TrainerCallback

from agon.errors import InputError
from agon.train.stopping import StopRunError
from agon.train.trainer import AgonTrainer
from tests import tiny
from tests.faults.judge import BROKEN
from tests.train.build import config

STEPS = 6
OPTIONS: dict[str, Any] = {
    "max_steps": STEPS,
    "save_strategy": "steps",
    "save_steps": 1,
    "save_total_limit": 3,
    "lr_scheduler_type": "linear",
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 2,
    "num_generations": 8,
    "max_completion_length": 6,
}
Prepare = Callable[[AgonTrainer], None]


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code (negative: by a signal) and what it wrote."""

    code: int
    said: str


def build(folder: Path, **options: Any) -> AgonTrainer:
    task = tiny.task()
    # Four steps are an epoch: most faults happen in a later one than the first.
    few = {**task.splits, "train": task.splits["train"][:8]}
    task = replace(task, judge="tests.faults.judge:breakable", splits=few)
    made = AgonTrainer(
        tiny.model(), task, config(folder, **{**OPTIONS, **options}), processing_class=tiny.tokenizer()
    )
    made.remove_callback(PrinterCallback)
    return made


@dataclass
class Scene:
    """One run folder, the seeded moment of its fault, and the processes that train it."""

    folder: Path
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    # What else is done to every process that trains it, and to the next one only.
    always: list[Prepare] = field(default_factory=list)
    also: list[Prepare] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.steps: int = self.options.get("max_steps", STEPS)
        # There is a checkpoint before it, and a step after it.
        self.step = self.random.randrange(2, self.steps)
        self.broken_judge = self.folder.with_name(f"{self.folder.name}-judge-is-broken")

    def train(self, prepare: Prepare | None = None) -> Ended:
        """Start the run or go on with it, in a process that `prepare` has had its hands on."""
        said = self.folder.with_name(f"{self.folder.name}-said")
        child = os.fork()
        if child:
            self.also = []
            _, status = os.waitpid(child, 0)
            return Ended(os.waitstatus_to_exitcode(status), said.read_text())
        code = 1
        try:
            gc.freeze()  # what was imported is no garbage; looking for it takes half a second
            # Not only the descriptors: pytest has put its own objects in the place of these.
            sys.stdout = sys.stderr = file = said.open("w", buffering=1)
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            os.environ[BROKEN] = str(self.broken_judge)
            code = self._train_here(prepare)
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stderr.flush()
            os._exit(code)

    def _train_here(self, prepare: Prepare | None) -> int:
        trainer = build(self.folder, **self.options)
        try:
            for each in (*self.always, *self.also, *([prepare] if prepare else [])):
                each(trainer)
            trainer.train(resume_from_checkpoint=True)
        except StopRunError as stop:
            print(stop, file=sys.stderr)
            return 128 + trainer.stops.requested if trainer.stops.requested else stop.code
        except InputError as error:
            print(error, file=sys.stderr)
            return 2
        finally:
            trainer.close()
        return 0 if trainer.state.global_step >= self.steps else 128 + trainer.stops.requested

    def stop_after(self, steps: int) -> None:
        """Train so many steps and stop in good order."""

        def prepare(trainer: AgonTrainer) -> None:
            at_step(trainer, steps - 1, lambda: setattr(trainer.stops, "requested", 2))

        ended = self.train(prepare)
        assert ended.code == 130, ended

    @property
    def checkpoints(self) -> list[Path]:
        found = (self.folder / "checkpoints").glob("checkpoint-*")
        return sorted(found, key=lambda path: int(path.name.split("-")[1]))


def at_step(trainer: AgonTrainer, step: int, act: Callable[[], object]) -> None:
    """Act when this many steps have been made and the next one begins."""

    class Once(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == step:
                act()

    trainer.add_callback(Once())
