"""What a training run records and how it is interrupted, as callbacks of the Trainer.

They are handed what they record and know nothing of the trainer itself.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from transformers import TrainerCallback

from agon.errors import InputError
from agon.game.methods import Method
from agon.judges.pool import JudgePool
from agon.own_parts import loaded_parts, parts_in
from agon.policies import BASE, Pair
from agon.runs.folder import Run
from agon.tasks import Task
from agon.tasks.stored import store
from agon.train.config import AgonConfig
from agon.train.model_card import model_card
from agon.version import __version__

LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "math-verify", "vllm")
# What may differ between a run and its resumption: where and how it is watched, not what it computes.
MAY_CHANGE = frozenset(
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


@dataclass(frozen=True)
class Recorded:
    """Everything about a run that its folder records besides metrics and duels.

    `model` and `task_spec` are the names as they were given; `engine_facts` is asked when training
    begins, after the sampler has been measured.
    """

    model: str
    task_spec: str
    method: Method
    task: Task
    pair: Pair
    judge: JudgePool
    engine_facts: Callable[[], Mapping[str, Any]]
    stored: bool = False  # the task has no name that would bring its problems back

    @property
    def names(self) -> dict[str, str]:
        return {"model": self.model, "task": self.task_spec}


class RunRecorder(TrainerCallback):
    """Writes configuration, environment, task, metrics, adapters and summary into the run folder."""

    def __init__(self, run: Run, recorded: Recorded) -> None:
        self._run = run
        self._recorded = recorded
        self._started = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._started = time.time()
        if not state.is_world_process_zero:
            return
        config = resolved_config(args, self._recorded.names)
        if state.global_step:
            refuse_changes(self._run, config)
            self._run.rewind(state.global_step)
        else:
            self._run.start_over()
            self._run.write_config(config)
        parts = {"own_parts": _own_parts(config, self._recorded.task)}
        self._run.write_environment({**_environment(args), **parts, **self._recorded.engine_facts()})
        self._run.write_task(
            {
                **_task_record(self._recorded.task, self._recorded.task_spec, args),
                "stored": self._recorded.stored,
            }
        )
        if self._recorded.stored:
            store(self._recorded.task, self._run.problems)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
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
        if not state.is_world_process_zero:
            return
        recorded, pair = self._recorded, self._recorded.pair
        pair.save(self._run.adapters)
        for name in pair.names:
            card = model_card(name, pair.names, recorded.method, recorded.names, state.global_step)
            self._run.write_model_card(name, card)
        last = [line for line in self._run.read_metrics() if "loss" in line][-1:]
        self._run.write_summary(
            {
                "finished": state.global_step >= state.max_steps,
                "steps": state.global_step,
                "max_steps": state.max_steps,
                "method": recorded.method.name,
                **recorded.names,
                "fingerprints": {name: pair.fingerprint(name) for name in pair.names},
                "base_fingerprint": pair.fingerprint(BASE),
                "judge": asdict(recorded.judge.counts),
                "seconds": round(time.time() - self._started, 1),
                "last": last[0] if last else {},
            }
        )


class StopOnInterrupt(TrainerCallback):
    """The first Ctrl-C saves a checkpoint at the end of the round and stops, a second one stops at once."""

    def __init__(self) -> None:
        self._interrupted = False
        self._handler: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        def interrupt(number: int, frame: FrameType | None) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
            print("\nStopping after this step; press Ctrl-C again to stop at once.", file=sys.stderr)

        try:
            self._handler = signal.signal(signal.SIGINT, interrupt)
        except ValueError:  # not in the main thread: leave the caller's handler alone
            self._handler = None

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._interrupted and state.global_step % args.steps_per_round == 0:
            control.should_save = control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)


def resolved_config(args: AgonConfig, names: Mapping[str, str]) -> dict[str, Any]:
    """The configuration as it is saved and compared: every option, plus model and task."""
    options = args.to_dict()
    return {**{name: value for name, value in options.items() if not name.startswith("_")}, **names}


def refuse_changes(run: Run, now: Mapping[str, Any]) -> None:
    """A resumed run keeps the configuration it was started with."""
    before = run.read_config()
    changed = {
        key: (before.get(key), now.get(key))
        for key in sorted(before.keys() | now.keys())
        if key not in MAY_CHANGE and _as_yaml(before.get(key)) != _as_yaml(now.get(key))
    }
    if changed:
        listed = "; ".join(f"{key} was {old!r}, now {new!r}" for key, (old, new) in changed.items())
        raise InputError(f"The run '{run.folder}' cannot be resumed with another configuration: {listed}.")


def _environment(args: AgonConfig) -> dict[str, Any]:
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
    }


def _own_parts(config: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """The user's own parts that this run names, and the files that they came from."""
    named = {task.judge, *(spec for _, spec in parts_in(config))}
    return {spec: record for spec, record in loaded_parts().items() if spec in named}


def _task_record(task: Task, spec: str, args: AgonConfig) -> dict[str, Any]:
    return {
        "name": task.name,
        "spec": spec,
        "judge": task.judge,
        "path": args.task_path,
        "seed": args.task_seed,
        "options": dict(task.options),
        "sizes": {split: len(problems) for split, problems in task.splits.items()},
        "fingerprints": {split: task.fingerprint(split) for split in task.splits},
        "dropped": dict(task.dropped),
        "notes": list(task.notes),
    }


def _as_yaml(value: Any) -> Any:
    """A value as YAML would give it back: tuples are lists, enums their names."""
    if isinstance(value, (list, tuple)):
        return [_as_yaml(item) for item in value]
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
