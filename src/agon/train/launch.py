"""Training as `agon train` does it: a new run or a saved one, with the live view.

`name_folder` and `saved_run` need no torch, so that a command can answer before it is loaded.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.errors import InputError
from agon.faults import machine_fault
from agon.runs.folder import Run, is_run
from agon.runs.lock import owned
from agon.runs.parts import pointing_to_parts
from agon.runs.trust import MAY_CHANGE, NOTHING, Trust, folder_wishes, part_wishes, resume_wishes
from agon.tasks.load import split_path
from agon.tasks.stored import STORED
from agon.train.option_table import defaults
from agon.train.processes import Launched, refuse_other_number
from agon.train.recipes import Request, RunArguments, read_saved

if TYPE_CHECKING:
    from agon.evaluate.load import Load
    from agon.train.config import AgonConfig
    from agon.train.stopping import StopRunError


@dataclass(frozen=True)
class Ended:
    """Where a training stopped; `main_process` is the one that prints."""

    run: Run
    step: int
    max_steps: int
    main_process: bool
    at_once: bool = False  # by a second Ctrl-C, without a checkpoint
    reason: str = ""  # why the run stopped itself or gave up a round
    code: int = 130  # for the shell, where the run did not finish

    @property
    def finished(self) -> bool:
        return self.step >= self.max_steps and not self.at_once and not self.reason


def train(
    what: RunArguments,
    config: "AgonConfig",
    resume: bool = False,
    at_end: "Callable[[Ended, Load | None], None]" = lambda ended, load: None,
) -> Ended:
    """Train until the run is finished or interrupted.

    `at_end` is called in the main process of a run that is finished. Its second argument stands for `load_target` in
    an evaluation: where vLLM runs in this process, it is not started again for it.
    """
    from transformers import PrinterCallback

    from agon.train.live import LiveView
    from agon.train.preflight import nothing_left, refuse_too_few_problems, refuse_unusable
    from agon.train.trainer import AgonTrainer

    refuse_unusable(what.model, config)
    # One owner before the model is loaded; the other processes of the same training have the main one's.
    alone = owned(Path(config.output_dir)) if config.process_index == 0 else nullcontext()
    with nothing_left(Path(config.output_dir)), alone, ExitStack() as open_parts:
        with LiveView() as view:
            trainer = AgonTrainer(model=what.model, task=what.task, args=config, callbacks=[view])
            open_parts.callback(trainer.close)
            refuse_too_few_problems(trainer.task.name, trainer.problems, config)
            trainer.remove_callback(PrinterCallback)
            trainer.on_sampling = view.sampling
            trainer.on_warning = view.warn
            at_once, stop = _train(trainer, resume)
        ended = _ended(trainer, at_once, stop)
        load = _on_its_engine(trainer) if ended.finished else None
        if load is not None:
            at_end(ended, load)
    leave_group()
    if load is None and ended.finished and ended.main_process:
        at_end(ended, None)
    return ended


def _ended(trainer: Any, at_once: bool, stop: "StopRunError | None") -> Ended:
    code = 130 if stop is None else stop.code
    if trainer.stops.requested and not at_once:
        code = 128 + trainer.stops.requested
    return Ended(
        run=trainer.run,
        step=trainer.state.global_step,
        max_steps=trainer.state.max_steps,
        main_process=trainer.is_world_process_zero(),
        at_once=at_once,
        reason=str(stop) if stop else "",
        code=code,
    )


def _on_its_engine(trainer: Any) -> "Load | None":
    """How to evaluate on the engine of a training; None where there is none, or others train beside it."""
    from agon.evaluate.load import playing_on

    if trainer.engine.capabilities.name != "vllm" or trainer.accelerator.num_processes > 1:
        return None
    trainer.engine.wake()
    return playing_on(trainer.engine, trainer.pair, trainer.chat)


def leave_group() -> None:
    """Part with the other training processes: what follows, one of them does alone."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def _train(trainer: Any, resume: bool) -> "tuple[bool, StopRunError | None]":
    """Train; whether a second Ctrl-C ended it at once, and why it stopped itself, if it did.

    An error inside carries a note of what was lost.
    """
    from agon.train.stopping import StopRunError

    try:
        trainer.train(resume_from_checkpoint=resume, trust_run_code=True)  # `saved_run` has asked
    except KeyboardInterrupt:
        return True, None
    except StopRunError as stop:
        return False, stop
    except InputError:
        raise
    except Exception as error:
        step = trainer.state.global_step
        fault = machine_fault(error)
        if fault:
            raise InputError(f"{fault}. {lost(trainer.run, step)}") from error
        error.add_note(f"The training stopped at step {step} by an error inside. {lost(trainer.run, step)}")
        raise
    return False, None


def lost(run: Run, step: int) -> str:
    """What a run that was stopped between two checkpoints has lost, and how to go on."""
    kept = run.newest_step()
    missing = step - kept
    if not is_run(run.folder):
        return "Nothing had been recorded yet."
    what = f"The {missing} steps after checkpoint {kept} are lost." if missing else "No step is lost."
    if not kept:
        what = f"There was no checkpoint yet: all {step} steps are lost." if step else "No step was made yet."
    return f"{what} Go on with: agon train --resume {run.folder}"


def saved_run(folder: Path, trust: Trust = NOTHING) -> Request:
    """What a run folder was started with, as it lies there now; a broken one is refused.

    So is one that asks for code, the network or a life without a sandbox, but for what `trust` grants.
    """
    run = Run(folder)
    saved = {**run.read_config(), "output_dir": str(folder)}
    saved |= {name: value for name, value in trust.named.items() if name in MAY_CHANGE}
    trust.refuse([*folder_wishes(folder), *part_wishes(saved)])
    with pointing_to_parts(run):
        asked = read_saved(saved, f"'{folder}/config.yaml'")
    options = {**asked.options, "model": asked.what.model, "task": asked.what.task}
    for name, value in trust.named.items():
        if options.get(name) != value:
            raise InputError(
                f"A resumed run keeps its own configuration: {name} of '{folder}' is {options.get(name)!r}, "
                f"not {value!r}."
            )
    stored = bool(run.read_task().get("stored"))
    trust.refuse(resume_wishes({**options, "task": ""} if stored else options))
    run.check_resumable()
    before = run.read_environment().get("processes")
    if isinstance(before, int):
        refuse_other_number(before, Launched.read())
    if stored:
        asked = replace(asked, what=replace(asked.what, task=f"{STORED}{run.problems.absolute()}"))
    return asked


def extend_run(folder: Path, max_steps: int) -> None:
    """Let a finished run go on to `max_steps`, and record from where to where it was extended.

    Optimizer, roles and data go on where they ended. The learning rate follows the schedule of the longer run.
    """
    run = Run(folder)
    config, summary = run.read_config(), run.read_summary()
    if not summary.get("finished"):
        raise InputError(
            f"The run '{folder}' is not finished: go on with `agon train --resume {folder}` first."
        )
    done = int(summary.get("steps", 0))
    if max_steps <= done:
        raise InputError(
            f"--max_steps must be above the {done} steps that '{folder}' has made, not {max_steps}."
        )
    if run.newest_step() != done:
        raise InputError(
            f"The run '{folder}' has no checkpoint of its last step {done}: start another one from its adapters "
            f"with `agon train … --adapters_from {folder}`."
        )
    run.check_resumable()
    run.write_extensions([*run.read_extensions(), {"from": done, "to": max_steps}])
    run.write_config({**config, "max_steps": max_steps})
    run.write_summary({**summary, "finished": False, "max_steps": max_steps})


def name_folder(what: RunArguments, options: Mapping[str, Any]) -> str:
    """A folder named after what the run is, unless it was named; never another run's."""
    named = options.get("output_dir")
    if named and named != "trainer_output":
        if is_run(named):
            raise InputError(
                f"'{named}' already holds a run: go on with `agon train --resume {named}`, "
                "or choose another --output_dir."
            )
        return str(named)
    chosen = {**defaults(), **options}
    task = Path(split_path(what.task)[0]).name.split(",")[0]
    parts = [Path(what.model).name, task, chosen["method"], f"s{chosen['seed']}"]
    name = "-".join(parts).replace("/", "-").replace(":", "-").lower()
    taken, number = Path("runs") / name, 1
    while taken.exists():
        number += 1
        taken = Path("runs") / f"{name}-{number}"
    return str(taken)
