"""The stages of a cell: the commands of `agon` that make its run, and what they may trust.

A cell's run is opened again when it goes on and when it is evaluated, and a run folder is data. What the person who
typed the sweep has named (a judge, a model) is named again in those commands; `--trust-run-code` is passed on.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from agon.evaluate.request import OWN_TASK
from agon.lab.sweep.asked import Sweep
from agon.lab.sweep.cells import options_of
from agon.runs.folder import Run, is_run
from agon.runs.sweep_folder import Cell, SweepFolder
from agon.runs.trust import EVALUATED_PARTS, GRANTED_PARTS, task_wishes

TRAIN = "train"


@dataclass(frozen=True)
class CellJob:
    """All that whoever runs a cell needs, on whichever machine: it travels to Slurm and Ray."""

    folder: str
    cell: Cell
    stages: tuple[tuple[str, tuple[str, ...]], ...]
    typed: Mapping[str, Any] = field(default_factory=dict)  # options that the sweep's user has named
    trust_run_code: bool = False
    here: str = "."  # where relative paths of recipes start

    @property
    def sweep(self) -> SweepFolder:
        return SweepFolder(self.folder)

    @property
    def run(self) -> Run:
        return self.sweep.run(self.cell)


def job_for(sweep: Sweep, folder: SweepFolder, cell: Cell, trust_run_code: bool = False) -> CellJob:
    """What a cell does, stage by stage."""
    place = SweepFolder(folder.folder.absolute())
    options = options_of(sweep, cell)
    return CellJob(
        folder=str(place.folder),
        cell=cell,
        stages=tuple((stage, tuple(words)) for stage, words in _stages(sweep, place, cell, options)),
        typed={name: value for name, value in options.items() if name in GRANTED_PARTS and value is not None},
        trust_run_code=trust_run_code,
        here=str(Path.cwd()),
    )


def option_words(options: Mapping[str, Any]) -> Iterator[str]:
    """Options as they are typed."""
    for name, value in options.items():
        yield f"--{name}"
        yield from (_word(item) for item in (value if isinstance(value, list | tuple) else [value]))


def words_for(job: CellJob, stage: str, words: tuple[str, ...]) -> list[str]:
    """The words of a stage now: a run that has begun goes on, and what was typed is granted to its folder."""
    if job.cell.method is None:
        return list(words)
    if stage == TRAIN:
        if not is_run(job.run.folder):
            return [*words, *_on_its_engine(job)]
        resumed = ["train", "--resume", str(job.run.folder), *_grants(job, GRANTED_PARTS)]
        return [*resumed, *_on_its_engine(job)]
    return [*words, *_grants(job, EVALUATED_PARTS - {"task", "vllm_servers"})]


def _on_its_engine(job: CellJob) -> Iterator[str]:
    """What a training on vLLM may evaluate itself at its end, before the engine is gone."""
    stages = [
        (stage, words)
        for stage, words in job.stages
        if stage != TRAIN and ("--engine", "vllm") in pairwise(words)
    ]
    if stages:
        yield from ("--stages", json.dumps(stages))


def _grants(job: CellJob, parts: frozenset[str]) -> Iterator[str]:
    """What was typed and stands in the run's own configuration; anything else there remains ungranted."""
    if job.trust_run_code:
        yield "--trust-run-code"
        return
    saved = job.run.read_config()
    named = {name: value for name, value in job.typed.items() if name in parts and saved.get(name) == value}
    for word in option_words(named):
        yield word.replace("_", "-") if word.startswith("--") else word


def _stages(
    sweep: Sweep, folder: SweepFolder, cell: Cell, options: Mapping[str, Any]
) -> Iterator[tuple[str, list[str]]]:
    evaluation, run = sweep.evaluation, folder.run(cell).folder
    given = list(evaluation.words())
    path = (
        []
        if "path" in evaluation.options or not options.get("task_path")
        else ["--path", options["task_path"]]
    )
    if cell.method is None:
        tasks = [options["task"] if name == OWN_TASK else name for name in evaluation.tasks]
        decoding = {
            "temperature": "eval_temperature",
            "top-p": "eval_top_p",
            "max-tokens": "max_completion_length",
        }
        for name, option in decoding.items():
            if option in options and name.replace("-", "_") not in evaluation.options:
                given += [f"--{name}", str(options[option])]
        model = str(options.get("model", "embedded"))
        command = ["eval", model, "--output", str(run), "--task", ",".join([*tasks, *evaluation.transfer])]
        yield "test", [*command, "--samples", _samples(evaluation.samples, len(tasks), sweep), *path, *given]
        return
    yield (
        TRAIN,
        ["train", str(folder.recipe(cell.group)), *option_words(cell.options), "--output_dir", str(run)],
    )
    for split in evaluation.splits:
        command = ["eval", str(run), "--no-controls", "--split", split]
        transfer = evaluation.transfer if split == "test" else ()
        if evaluation.tasks == (OWN_TASK,) and not transfer and not any(task_wishes(options["task"])):
            yield split, [*command, "--samples", str(evaluation.samples), *given]
            continue
        # Code that is a run's own task is granted by its name.
        own = options["task"] if any(task_wishes(options["task"])) else OWN_TASK
        tasks = [own if name == OWN_TASK else name for name in evaluation.tasks]
        counts = [str(evaluation.samples)] * len(tasks) + ["1"] * len(transfer)
        named = path if {*tasks, *transfer} - {own} else []
        tasks = [*tasks, *transfer]
        yield split, [*command, "--task", ",".join(tasks), "--samples", ",".join(counts), *named, *given]


def _samples(samples: int, tasks: int, sweep: Sweep) -> str:
    return ",".join([str(samples)] * tasks + ["1"] * len(sweep.evaluation.transfer))


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, dict) else str(value)
