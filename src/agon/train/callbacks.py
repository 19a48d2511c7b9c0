"""What a training run records and how it is interrupted, as callbacks of the Trainer.

They are handed what they record and know nothing of the trainer itself.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback

from agon.errors import InputError
from agon.game.methods import Method
from agon.judges.limits import PoolCounts
from agon.judges.pool import JudgePool
from agon.own_parts import loaded_parts, parts_in
from agon.policies import BASE, Pair
from agon.printing import say
from agon.runs.folder import Run
from agon.tasks import Task
from agon.tasks.stored import store
from agon.train.agreement import any_process
from agon.train.config import AgonConfig
from agon.train.model_card import model_card
from agon.train.option_table import defaults
from agon.train.stopping import PATIENCE_SECONDS, SIGNALS, Abandonment, StopRunError, exit_code
from agon.version import __version__

LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "math-verify", "vllm")
SAME_SIGNAL_S = 1.0
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
    | {"engine_rows", "gradient_checkpointing", "vllm_kv_cache_bytes"}  # less memory, the same results
    | {"vllm_gpu_memory_utilization", "vllm_max_model_length"}  # likewise, or more room for prompts
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
        # Checkpoints of an older release have no manifest; from here on a missing one is damage.
        since = self._run.sealed_since() if state.global_step else 0
        sealed = {"sealed_since": state.global_step + 1 if since is None else since}
        parts = {"own_parts": _own_parts(config, self._recorded.task)}
        self._run.write_environment(
            {**_environment(args), **parts, **self._recorded.engine_facts(), **sealed}
        )
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
        recorded, pair = self._recorded, self._recorded.pair
        # In every process: together they gather a sharded base, and count all verdicts.
        base, counts = pair.fingerprint(BASE), sum(gather_object([recorded.judge.counts]), PoolCounts())
        if not state.is_world_process_zero:
            return
        pair.save(self._run.adapters)
        for name in pair.names:
            card = model_card(name, pair.names, recorded.method, recorded.names, state.global_step)
            self._run.write_model_card(name, card)
        self._run.seal_adapters()
        last = [line for line in self._run.read_metrics() if "loss" in line][-1:]
        self._run.write_summary(
            {
                "finished": state.global_step >= state.max_steps,
                "steps": state.global_step,
                "max_steps": state.max_steps,
                "method": recorded.method.name,
                **recorded.names,
                "fingerprints": {name: pair.fingerprint(name) for name in pair.names},
                "base_fingerprint": base,
                "judge": asdict(counts),
                "seconds": round(time.time() - self._started, 1),
                "last": last[0] if last else {},
            }
        )


class StopOnInterrupt(TrainerCallback):
    """The first signal saves a checkpoint at the end of the round and stops all processes.

    A second Ctrl-C stops at once. A second SIGTERM or SIGUSR1, or the end of the patience after the first, gives up the
    round that is under way, so that what was learned before it can be saved in time. With several processes the round
    is finished: one of them must not leave the others waiting.
    """

    def __init__(self, abandonment: Abandonment | None = None) -> None:
        self.requested = 0  # the number of the signal that asked for a stop
        self._requested_at = 0.0  # when, by the monotonic clock
        self._abandonment = abandonment
        self._handlers: dict[int, Any] = {}
        self._timer: threading.Timer | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        alone = getattr(args, "world_size", 1) == 1
        self.requested = 0
        if self._abandonment is not None:
            self._abandonment.forget()

        def interrupt(number: int, frame: FrameType | None) -> None:
            # A launcher passes on what the terminal has sent to everyone already.
            same = 0.0 if alone else SAME_SIGNAL_S
            if self.requested:
                if time.monotonic() - self._requested_at > same:
                    raise KeyboardInterrupt
                return
            self.requested, self._requested_at = number, time.monotonic()
            if state.is_world_process_zero:
                _say_from_a_handler("\nStopping after this step; press Ctrl-C again to stop at once.")

        def stop(number: int, frame: FrameType | None) -> None:
            name = SIGNALS[signal.Signals(number)]
            if not self.requested:
                self.requested, self._requested_at = number, time.monotonic()
                if state.is_world_process_zero:
                    _say_from_a_handler(f"\nStopping after this step, because of {name}.")
                if alone:
                    self._ask_again_later(number)
            elif alone and self._abandonment is not None:
                self._abandonment.ask(StopRunError(f"Stopped by {name}.", exit_code(number)))

        try:
            self._handlers[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
            for number in SIGNALS:
                self._handlers[number] = signal.signal(number, stop)
        except ValueError:  # not in the main thread: leave the caller's handlers alone
            self._handlers = {}

    def _ask_again_later(self, number: int) -> None:
        thread = threading.get_ident()  # handlers run in the main thread
        self._timer = threading.Timer(PATIENCE_SECONDS, lambda: signal.pthread_kill(thread, number))
        self._timer.daemon = True
        self._timer.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # A signal may reach one process before this step's end and another one after it.
        stop = any_process(bool(self.requested), args.device)
        if stop and state.global_step % args.steps_per_round == 0:
            control.should_save = control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.restore()

    def restore(self) -> None:
        """Give the signals back to whoever had them."""
        if self._timer is not None:
            self._timer.cancel()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}


def _say_from_a_handler(sentence: str) -> None:
    """Print although the signal may have come while the same stream was being written, which Python refuses."""
    try:
        say(sentence, file=sys.stderr, flush=True)
    except RuntimeError:
        os.write(2, f"{sentence}\n".encode())


def resolved_config(args: AgonConfig, names: Mapping[str, str]) -> dict[str, Any]:
    """The configuration as it is saved and compared: every option, plus model and task."""
    options = args.to_dict()
    return {**{name: value for name, value in options.items() if not name.startswith("_")}, **names}


def refuse_changes(run: Run, now: Mapping[str, Any]) -> None:
    """A resumed run keeps the configuration it was started with."""
    known = defaults()  # what an option is that the run's release did not have
    before = {**{key: known[key] for key in now if key in known}, **run.read_config()}
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
