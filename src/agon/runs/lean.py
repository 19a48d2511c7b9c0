"""Copies of runs that are small enough to commit: outcomes without texts and weights.

Of each run (or folder that `agon eval --output` wrote) a copy has what `agon compare`, `agon report` and `agon view`
read: the configuration, task, summary, environment, times and note, the metrics that they show, the adapters'
configurations without their weights, and of each evaluation its settings, its result and samples.jsonl.gz. In there
only the answer of each text is left, of a program nothing; lengths, verdicts and all else are kept. The
machine's own folders are left out. The same run gives the same bytes.
"""

import gzip
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from agon.embedded import EMBEDDED
from agon.errors import InputError
from agon.game.dialects import dialect
from agon.game.transcript import split
from agon.runs.evaluations import EvaluationFolder
from agon.runs.files import signed
from agon.runs.folder import RECORDS, Run, is_run
from agon.runs.samples import Attempt, Sample

OF_AN_EVALUATION = ("settings.json", "result.json")
METRICS, CONFIG, ADAPTER_CONFIG = "metrics.jsonl", "config.yaml", "adapter_config.json"
# The metrics that reports and the viewer show, and how far the policies of a pair part: a quarter of what a step logs.
SHOWN = re.compile(
    r"step|loss|num_tokens|time/.+|memory/.+|eval_.+|duel/(converted|corrupted)|pair/distance|[AB]/pooled/.+"
    r"|(draft|challenge)/(correct|length|well_formed|dropped_groups|truncated|reward/.+)"
)


def lean_copy(source: Path, out: Path) -> Path:
    """Write what is kept of one run, or of one folder of evaluations, into `out` under its name."""
    target = out / source.resolve().name
    if target.exists():
        raise InputError(f"'{target}' is there already: remove it, or choose another --out.")
    for place, content in outcomes(source).items():
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        (target / place).write_bytes(content)
    return target


def outcomes(source: Path) -> dict[Path, bytes]:
    """What is kept: each file's place below the run, and its content."""
    evaluations = list(evaluations_in(source))
    if not evaluations and not is_run(source):
        raise InputError(
            f"'{source}' is neither a run (no config.yaml) nor a folder that `agon eval --output` wrote."
        )
    kept = [source / name for name in RECORDS] + sorted(source.glob("adapters/*/adapter_config.json"))
    kept += [folder / name for folder in evaluations for name in OF_AN_EVALUATION]
    samples = {folder.relative_to(source) / "samples.jsonl.gz": packed(folder) for folder in evaluations}
    found = {path.relative_to(source): path.read_bytes() for path in kept if path.is_file()} | samples
    if Path(METRICS) in found:
        found[Path(METRICS)] = shown_metrics(source)
    if is_run(source):
        config = Run(source).read_config()
        found |= {
            path: _anywhere(path, content, config)
            for path, content in found.items()
            if path.name in (CONFIG, ADAPTER_CONFIG)
        }
    return found


def _anywhere(path: Path, content: bytes, config: Mapping[str, Any]) -> bytes:
    """A configuration without the folders of the machine that trained: its runs', and that of our own base."""
    model, folder = str(config.get("model")), str(config.get("output_dir"))
    if path.name == CONFIG and os.path.isabs(folder):
        return signed(yaml.safe_dump({**config, "output_dir": Path(folder).name}, sort_keys=True)).encode()
    if path.name == ADAPTER_CONFIG and model == EMBEDDED:
        base = json.loads(content)["base_model_name_or_path"]
        return content.replace(json.dumps(base).encode(), json.dumps(model).encode())
    return content


def shown_metrics(source: Path) -> bytes:
    """The lines of metrics with what is shown of them."""
    shown = (
        {name: value for name, value in line.items() if SHOWN.fullmatch(name)}
        for line in Run(source).read_metrics()
    )
    return "".join(json.dumps(line) + "\n" for line in shown).encode()


def evaluations_in(source: Path) -> Iterator[Path]:
    """The folders with samples: below a run, below an --output, or the folder of one evaluation itself."""
    below = Run(source).evaluations if is_run(source) else source
    for folder in (below, *sorted(path for path in below.glob("*") if path.is_dir())):
        if any(folder.glob("samples.jsonl*")):
            yield folder


def packed(folder: Path) -> bytes:
    """The samples without their texts, compressed, with no time of day in the header."""
    evaluation = EvaluationFolder(folder)
    settings = evaluation.read_settings()
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as lines:
        for sample in evaluation.sample_file().samples.values():
            lean = without_texts(sample, settings["dialect"], settings["judge"])
            lines.write(f"{lean.to_json()}\n".encode())
    return buffer.getvalue()


def without_texts(sample: Sample, dialect_name: str, judge: str) -> Sample:
    """A sample with answers for texts; an attempt that was shown nothing keeps its None."""

    def lean(attempt: Attempt) -> Attempt:
        shown = None if attempt.shown is None else ""
        return replace(attempt, text=answer_only(attempt, dialect_name, judge), shown=shown)

    return replace(sample, drafts=tuple(map(lean, sample.drafts)), finals=tuple(map(lean, sample.finals)))


def answer_only(attempt: Attempt, dialect_name: str, judge: str) -> str:
    r"""What to keep of a completion if the rest is dropped: its answer, so written that it is read as before.

    A program is nearly all of its completion, so nothing is kept of it.
    """
    if judge == "code" or not attempt.answered:
        return ""
    answer = split(attempt.text, dialect_name).answer or ""
    return f"<answer>{answer}</answer>" if answer and dialect(dialect_name).answer == "block" else answer
