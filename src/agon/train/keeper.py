"""The keeper of a run's records: a Trainer callback that fills the run folder.

It also takes Ctrl-C: the first one saves a checkpoint at the end of the round and stops, a second
one stops at once.
"""

import signal
import subprocess
import sys
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback

from agon import __version__
from agon.errors import InputError
from agon.train.cards import model_card

if TYPE_CHECKING:
    from agon.train.trainer import AgonTrainer

LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "math-verify", "vllm")
# What may differ between a run and its resumption: where and how it is watched, not what it computes.
FREE = frozenset(
    {
        "output_dir",
        "logging_dir",
        "report_to",
        "run_name",
        "project",
        "trackio_space_id",
        "resume_from_checkpoint",
    }
    | {"disable_tqdm", "log_level", "log_completions", "num_completions_to_print", "judge_workers"}
)


class Keeper(TrainerCallback):
    """Writes configuration, environment, metrics, adapters and summary; minds Ctrl-C."""

    def __init__(self, trainer: "AgonTrainer", names: dict[str, str]) -> None:
        self._trainer = trainer
        self._run = trainer.run
        self._names = names
        self._interrupted = False
        self._handler: Any = None
        self._started = 0.0

    def resolved(self) -> dict[str, Any]:
        """The configuration as it is saved and compared: every option, plus model and task."""
        options = self._trainer.args.to_dict()
        plain = {name: value for name, value in options.items() if not name.startswith("_")}
        return {**plain, **self._names}

    # What the Trainer calls

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # TRL counts micro-steps from zero in every process; after a resume the round would be torn.
        self._trainer._step = state.global_step * args.gradient_accumulation_steps
        self._started = time.time()
        if state.is_world_process_zero:
            if state.global_step:
                self._refuse_changes()
                self._run.rewind(state.global_step)
            else:
                self._run.start_over()
                self._run.write_config(self.resolved())
            self._run.write_json(self._run.environment, self._environment())
            self._run.write_json(self._run.task, self._task())
        self._handler = self._take_interrupts()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._interrupted and state.global_step % args.steps_per_round == 0:
            control.should_save = control.should_training_stop = True
        if control.should_save:
            # A checkpoint forgets metrics that were not logged yet; a resumed log would have a gap.
            control.should_log = True

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        if (
            logs
            and state.is_world_process_zero
            and ("loss" in logs or any(key.startswith("eval_") for key in logs))
        ):
            self._run.add_metrics({"step": state.global_step, **logs})

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
        finished = state.global_step >= state.max_steps
        if not state.is_world_process_zero:
            return
        self._save_adapters()
        last = [line for line in self._run.read_metrics() if "loss" in line][-1:]
        self._run.write_json(
            self._run.summary,
            {
                "finished": finished,
                "steps": state.global_step,
                "max_steps": state.max_steps,
                "method": self._trainer.method.name,
                **self._names,
                "fingerprints": {
                    name: self._trainer.pair.fingerprint(name) for name in self._trainer.pair.names
                },
                "base_fingerprint": self._trainer.pair.fingerprint("base"),
                "judge": asdict(self._trainer.judge.counts),
                "seconds": round(time.time() - self._started, 1),
                "last": last[0] if last else {},
            },
        )

    # What it writes

    def _save_adapters(self) -> None:
        pair = self._trainer.pair
        self._run.adapters.mkdir(parents=True, exist_ok=True)
        pair.save(self._run.adapters)
        for name in pair.names:
            card = model_card(
                name, pair.names, self._trainer.method, self._names, self._trainer.state.global_step
            )
            (self._run.adapters / name / "README.md").write_text(card)

    def _refuse_changes(self) -> None:
        before, now = self._run.read_config(), self.resolved()
        changed = {
            key: (before.get(key), now.get(key))
            for key in sorted(before.keys() | now.keys())
            if key not in FREE and _plain(before.get(key)) != _plain(now.get(key))
        }
        if changed:
            listed = "; ".join(f"{key} was {old!r}, now {new!r}" for key, (old, new) in changed.items())
            raise InputError(
                f"The run '{self._run.folder}' cannot be resumed with another configuration: {listed}."
            )

    def _environment(self) -> dict[str, Any]:
        args = self._trainer.args
        return {
            "agon": __version__,
            "python": sys.version.split()[0],
            "libraries": {name: found for name in LIBRARIES if (found := _version(name))},
            "commit": _commit(),
            "device": str(args.device),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            "processes": args.world_size,
            "threads": torch.get_num_threads(),
            "seeds": {"run": args.seed, "task": args.task_seed},
            "sandbox": args.sandbox,
            "engine": self._trainer.engine.capabilities.name,
            "logprob_gap": self._trainer.gaps,
        }

    def _task(self) -> dict[str, Any]:
        task, args = self._trainer.task, self._trainer.args
        return {
            "name": task.name,
            "spec": self._names["task"],
            "judge": task.judge,
            "path": args.task_path,
            "seed": args.task_seed,
            "options": dict(task.options),
            "sizes": {split: len(problems) for split, problems in task.splits.items()},
            "fingerprints": {split: task.fingerprint(split) for split in task.splits},
            "dropped": dict(task.dropped),
            "notes": list(task.notes),
        }

    def _take_interrupts(self) -> Any:
        def interrupt(number: int, frame: FrameType | None) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
            print("\nStopping after this step; press Ctrl-C again to stop at once.", file=sys.stderr)

        try:
            return signal.signal(signal.SIGINT, interrupt)
        except ValueError:  # not in the main thread: leave the caller's handler alone
            return None


def _plain(value: Any) -> Any:
    """A value as YAML would give it back: tuples are lists, enums their names."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return getattr(value, "value", value)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the checkout that this package runs from, if it runs from one."""
    here = Path(__file__).parent
    asked = subprocess.run(
        ["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or None
