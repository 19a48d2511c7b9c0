"""Training as `agon train` does it: a new run or a saved one, with the live view."""

from dataclasses import dataclass
from pathlib import Path

from transformers import PrinterCallback

from agon.errors import InputError
from agon.runs.folder import Run, is_run
from agon.train.config import AgonConfig
from agon.train.live import LiveView
from agon.train.recipes import RunArguments, rebuild
from agon.train.trainer import AgonTrainer


@dataclass(frozen=True)
class Ended:
    """Where a training stopped; `main_process` is the one that prints."""

    run: Run
    step: int
    max_steps: int
    main_process: bool

    @property
    def finished(self) -> bool:
        return self.step >= self.max_steps


def train(what: RunArguments, config: AgonConfig, resume: bool = False) -> Ended:
    """Train until the run is finished or interrupted."""
    view = LiveView()
    trainer = AgonTrainer(model=what.model, task=what.task, args=config, callbacks=[view])
    trainer.remove_callback(PrinterCallback)
    trainer.on_sampling = view.sampling
    try:
        trainer.train(resume_from_checkpoint=resume)
    finally:
        trainer.close()
    state = trainer.state
    return Ended(trainer.run, state.global_step, state.max_steps, trainer.is_world_process_zero())


def saved_run(folder: Path) -> tuple[RunArguments, AgonConfig]:
    """What a run folder was started with, as it lies there now."""
    return rebuild({**Run(folder).read_config(), "output_dir": str(folder)})


def choose_folder(what: RunArguments, config: AgonConfig) -> None:
    """Name the run after what it is, unless it was named; never write into another run."""
    if config.output_dir and config.output_dir != "trainer_output":
        if is_run(config.output_dir):
            raise InputError(
                f"'{config.output_dir}' already holds a run: go on with `agon train --resume {config.output_dir}`, "
                "or choose another --output_dir."
            )
        return
    parts = [Path(what.model).name, what.task.split(",")[0], config.method, f"s{config.seed}"]
    name = "-".join(parts).replace("/", "-").replace(":", "-").lower()
    taken, number = Path("runs") / name, 1
    while taken.exists():
        number += 1
        taken = Path("runs") / f"{name}-{number}"
    config.output_dir = str(taken)
