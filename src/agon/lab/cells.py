"""The cells of a comparison: runs that differ in method, seed and learning rate, several at a time on one machine.

The stages of a cell are `agon train` with the comparison's recipe and `agon eval` on validation and test problems, each
in a process of its own. Below the folder of runs a cell leaves

    NAME/             its run, or the evaluations of the untrained model
    NAME.state        the stage it is in, `done`, or the stage it failed in
    NAME.log          what its stages wrote to standard error
    NAME.STAGE.out    what one of them wrote to standard output

A finished stage has its seconds in the run's times and is not repeated, so a comparison can be continued after an
interruption, or on another machine from packed cells.
"""

import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import Process
from pathlib import Path

import yaml

from agon.errors import InputError
from agon.runs.folder import STAGES, Run, is_run

CONTROLS = "controls"
PATTERN = re.compile(rf"{CONTROLS}|[a-z-]+:\d+:[\d.]+(?:e-?\d+)?(?::\w+=[^:]+)*")
WAITING, DONE, FAILED = "waiting", "done", "failed"


@dataclass(frozen=True)
class Comparison:
    """What all cells share: the recipe of the trainings, and how runs and the untrained model are evaluated.

    Every cell is tested on the recipe's task with `samples` per problem, and on `transfer` with one.
    """

    recipe: str
    model: str
    task: str
    task_path: str
    max_tokens: int
    transfer: str
    samples: int = 4
    eval_options: tuple[str, ...] = ()


def read_comparison(
    recipe: str, transfer: str, samples: int = 4, eval_options: Sequence[str] = ()
) -> Comparison:
    """The comparison of a recipe, which names the model, the task, where its data is, and the longest completion."""
    options = yaml.safe_load(Path(recipe).read_text())
    for name in ("model", "task", "task_path", "max_completion_length"):
        if name not in options:
            raise InputError(f"The recipe '{recipe}' of a comparison must have the option {name}.")
    return Comparison(
        recipe=recipe,
        model=options["model"],
        task=options["task"],
        task_path=options["task_path"],
        max_tokens=options["max_completion_length"],
        transfer=transfer,
        samples=samples,
        eval_options=tuple(eval_options),
    )


@dataclass(frozen=True)
class Cell:
    """One cell, written METHOD:SEED:RATE, or `controls` for the untrained model.

    `key=value` after another colon changes an option of the training, as in agon:0:3e-4:num_train_epochs=2.
    """

    text: str

    def __post_init__(self) -> None:
        if not PATTERN.fullmatch(self.text):
            raise InputError(
                f"A cell is METHOD:SEED:RATE, such as grpo:0:3e-4, or {CONTROLS}; not '{self.text}'."
            )

    @property
    def name(self) -> str:
        """The name of its run: agon:0:3e-4:lora_r=8 is agon-s0-lr3e-4-lora_r8."""
        if self.text == CONTROLS:
            return CONTROLS
        method, seed, rate, *changes = self.text.split(":")
        name = f"{method}-s{seed}-lr{float(rate):.0e}".replace("e-0", "e-")
        return "-".join([name, *(re.sub(r"[^\w.+-]", "", change) for change in changes)])

    def commands(self, comparison: Comparison, folder: Path) -> Iterator[tuple[str, list[str]]]:
        """The arguments of `agon` for each stage."""
        both_tasks = [
            *("--task", f"{comparison.task},{comparison.transfer}", "--path", comparison.task_path),
            *("--samples", f"{comparison.samples},1"),
        ]
        if self.text == CONTROLS:
            evaluate = ["eval", comparison.model, "--output", str(folder), *comparison.eval_options]
            yield "test", [*evaluate, *both_tasks, "--max-tokens", str(comparison.max_tokens)]
            return
        method, seed, rate, *changes = self.text.split(":")
        own = {"method": method, "seed": seed, "learning_rate": rate, "output_dir": str(folder)}
        own |= dict(change.split("=", 1) for change in changes)
        options = [word for name, value in own.items() for word in (f"--{name}", value)]
        yield "train", ["train", comparison.recipe, *options]
        evaluate = ["eval", str(folder), *comparison.eval_options, "--no-controls"]
        yield "validation", [*evaluate, "--split", "validation", "--samples", str(comparison.samples)]
        yield "test", [*evaluate, *both_tasks]

    def finished(self, runs: Path, stages: Collection[str]) -> bool:
        """Whether the cell has finished those of its stages that are named."""
        own = {"test"} if self.text == CONTROLS else set(STAGES)
        return own & set(stages) <= Run(runs / self.name).read_times().keys()


def run_cells(
    comparison: Comparison,
    cells: Sequence[Cell],
    runs: Path,
    stages: Collection[str],
    parallel: int = 4,
    stagger: float = 5,
) -> None:
    """Run the cells that are not finished, at most `parallel` at a time and `stagger` seconds between two starts."""
    runs.mkdir(parents=True, exist_ok=True)
    waiting = [cell for cell in cells if not cell.finished(runs, stages)]
    running: list[Process] = []
    while waiting or running:
        running = [process for process in running if process.is_alive()]
        if waiting and len(running) < parallel:
            process = Process(target=run_cell, args=(comparison, waiting.pop(0), runs, stages))
            process.start()
            running.append(process)
            time.sleep(stagger)
        time.sleep(1)


def run_cell(comparison: Comparison, cell: Cell, runs: Path, stages: Collection[str]) -> int:
    """Run one cell, stage by stage, from the first that is not finished; the exit code of one that failed."""
    folder = runs / cell.name
    run, state = Run(folder), _state_file(cell, runs)
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"}
    for stage, command in cell.commands(comparison, folder):
        times = run.read_times()
        if stage in times or stage not in stages:
            continue
        if stage == "train" and is_run(folder):
            command = ["train", "--resume", str(folder)]
        state.write_text(stage)
        started = time.time()
        with (
            (runs / f"{cell.name}.log").open("ab") as log,
            (runs / f"{cell.name}.{stage}.out").open("w") as out,
        ):
            ended = subprocess.run(
                [sys.executable, "-m", "agon.cli", *command],
                env=environment,
                check=False,
                stdout=out,
                stderr=log,
            )
        if ended.returncode:
            state.write_text(f"{FAILED} in {stage}")
            return ended.returncode
        run.write_times({**times, stage: round(time.time() - started, 1)})
    state.write_text(DONE)
    return 0


def read_state(cell: Cell, runs: Path) -> str:
    """The stage a cell is in; `waiting`, `done`, or `failed in STAGE`."""
    path = _state_file(cell, runs)
    return path.read_text() if path.exists() else WAITING


def progress(cell: Cell, runs: Path) -> str:
    """The state of a cell and, once it trains, its last step and the accuracy of the last four."""
    state = read_state(cell, runs)
    steps = [line for line in Run(runs / cell.name).read_metrics() if "loss" in line][-4:]
    if not steps:
        return state
    last = steps[-1]
    right = [line.get("challenge/correct", line["draft/correct"]) for line in steps]
    return (
        f"{state}; step {last['step']}, {sum(right) / len(right):.1%} right, {last['time/step']:.1f} s a step, "
        f"{last['time/sampling']:.1f} s of it sampling; {last.get('memory/training', 0.0):.0f} GB"
    )


def pack(cell: Cell, runs: Path, out: Path) -> Path:
    """Write a cell's run without its weights, and the files beside it, into one archive."""

    def without_weights(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if member.name.endswith(".safetensors") else member

    out.mkdir(parents=True, exist_ok=True)
    packed = out / f"{cell.name}.tgz"
    with tarfile.open(packed, "w:gz") as archive:
        for path in sorted(runs.glob(f"{cell.name}*")):
            if path.name == cell.name or path.name.startswith(f"{cell.name}."):
                archive.add(path, arcname=path.name, filter=without_weights)
    return packed


def _state_file(cell: Cell, runs: Path) -> Path:
    return runs / f"{cell.name}.state"
