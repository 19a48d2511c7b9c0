"""Every command that is needed to make these runs, their evaluations and this page again."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from agon.evaluate.compare import eval_command
from agon.reports.page.material import Group, Material, Results
from agon.reports.page.model import Block, Code, Heading, Section, Text
from agon.runs.records import Record
from agon.runs.sweep_folder import SweepFolder, is_sweep

# Options that follow from others or from the machine, and those that a command names itself.
LEFT_OUT = {
    *("accelerator_config", "ddp_find_unused_parameters", "debug", "hub_token", "pad_to_multiple_of"),
    *("steps_per_generation", "generation_batch_size", "report_to", "output_dir", "method", "seed"),
}
Baseline = Mapping[str, Any]


def repeat_section(material: Material, defaults: Baseline, asked: Sequence[str] = ()) -> Section:
    """`defaults` are the options of `agon train` that nobody set, `asked` more words of `agon report`."""
    blocks: list[Block] = []
    for place in material.given:
        if is_sweep(place):
            recipe = yaml.safe_dump(SweepFolder(place).read_asked(), sort_keys=False).splitlines()
            blocks += [Text("The sweep, as a file for `agon sweep`:"), Code(tuple(recipe))]
    for group in material.groups:
        runs = [record for record in group.begun if record.config]
        if runs:
            if len(material.groups) > 1:
                blocks.append(Heading(group.label))
            blocks += _group(group, runs, defaults)
    words = shlex.join(["agon", "report", *material.given, *asked, "--out", "report.html"])
    blocks += [Text("And this page:"), Code((words,))]
    return Section("How to repeat it", "repeat", tuple(blocks))


def _group(group: Group, runs: Sequence[Record], defaults: Baseline) -> Iterator[Block]:
    """What the runs share as a recipe, and in each command only what is its own."""
    given = {run.name: options(run.config, defaults) for run in runs}
    shared = {
        name: value
        for name, value in given[runs[0].name].items()
        if all(one.get(name, ...) == value for one in given.values())
    }
    yield Text(
        "As recipe.yaml, the options in which these runs differ from the defaults and agree with each other:"
    )
    yield Code(tuple(yaml.safe_dump(shared, sort_keys=False).splitlines()))
    lines = []
    for run in runs:
        own = {name: value for name, value in given[run.name].items() if name not in shared}
        more = [word for name, value in own.items() for word in (f"--{name}", written(value))]
        words = ["agon", "train", "recipe.yaml", "--method", run.method, "--seed", str(run.seed), *more]
        lines.append(shlex.join([*words, "--output_dir", f"runs/{run.name}"]))
        lines += _evaluations(run, f"runs/{run.name}", group.results)
    for record in group.plain:
        lines += _controls(record, group.results)
    yield Code(tuple(lines))


def options(config: Mapping[str, Any], defaults: Baseline) -> dict[str, Any]:
    """The options of a run that are not the defaults; those that were left empty are not named."""
    return {
        name: value
        for name, value in sorted(
            config.items(), key=lambda item: (item[0] not in ("model", "task"), item[0])
        )
        if value is not None and name not in LEFT_OUT and (name not in defaults or defaults[name] != value)
    }


def written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int, float)) else json.dumps(value)


def _evaluations(run: Record, place: str, results: Results) -> Iterator[str]:
    own = str(run.task.get("name", ""))
    for split in ("validation", "test"):
        for task, evaluation in run.evaluations(split).items():
            result = results(evaluation)
            sizes = run.task.get("sizes") or {}
            whole = task != own or sizes.get(split) in (None, result["n"])
            words = eval_command(place, task if task != own else None, split, None if whole else result["n"])
            yield words + _samples(result)


def _controls(record: Record, results: Results) -> Iterator[str]:
    for task, evaluation in record.evaluations("test").items():
        result = results(evaluation)
        decoding = result["decoding"]
        words = [
            "agon",
            "eval",
            str(result["model"]),
            "--task",
            task,
            "--output",
            f"runs/{Path(record.name).name}",
        ]
        words += ["--limit", str(result["n"]), "--max-tokens", str(decoding.get("max_tokens"))]
        yield shlex.join(words) + _samples(result)


def _samples(result: Mapping[str, Any]) -> str:
    samples = f" --samples {result['samples']}" if result["samples"] != 1 else ""
    engine = f" --engine {shlex.quote(str(result['engine']))}" if result["engine"] != "transformers" else ""
    return samples + engine
