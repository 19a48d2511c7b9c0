"""Copies of runs that are small enough to commit: outcomes without texts and weights.

    python scripts/lean_outcomes.py runs/agon runs/coop --out outcomes
    agon compare outcomes/agon outcomes/coop

Of each run (or folder that `agon eval --output` wrote) DIR gets what `agon compare` reads: the configuration, task,
summary, metrics, environment, times and note, the adapters' configurations without their weights, and of each
evaluation its settings, its result and samples.jsonl.gz. In there only the answer of each text is left, of a program
nothing; lengths, verdicts and all else are kept. The same run gives the same bytes.
"""

import argparse
import gzip
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from agon.errors import InputError
from agon.evaluate.samples import Attempt, Sample, SampleFile
from agon.evaluate.transitions import answer_only

RECORDS = ("config.yaml", "task.json", "summary.json", "metrics.jsonl", "environment.json", "times.json")
OF_A_RUN = (*RECORDS, "note.txt")
OF_AN_EVALUATION = ("settings.json", "result.json")


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
    if not evaluations and not (source / "config.yaml").is_file():
        raise InputError(
            f"'{source}' is neither a run (no config.yaml) nor a folder that `agon eval --output` wrote."
        )
    kept = [source / name for name in OF_A_RUN] + sorted(source.glob("adapters/*/adapter_config.json"))
    kept += [folder / name for folder in evaluations for name in OF_AN_EVALUATION]
    samples = {folder.relative_to(source) / "samples.jsonl.gz": packed(folder) for folder in evaluations}
    return {path.relative_to(source): path.read_bytes() for path in kept if path.is_file()} | samples


def evaluations_in(source: Path) -> Iterator[Path]:
    """The folders with samples: below a run, below an --output, or the folder of one evaluation itself."""
    below = source / "evaluations" if (source / "config.yaml").is_file() else source
    for folder in (below, *sorted(path for path in below.glob("*") if path.is_dir())):
        if any(folder.glob("samples.jsonl*")):
            yield folder


def packed(folder: Path) -> bytes:
    """The samples without their texts, compressed, with no time of day in the header."""
    settings = json.loads((folder / "settings.json").read_text())
    writing = settings["dialect"], settings["judge"]
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as lines:
        for sample in SampleFile(folder / "samples.jsonl").samples.values():
            lines.write(f"{textless(sample, *writing).to_json()}\n".encode())
    return buffer.getvalue()


def textless(sample: Sample, dialect: str, judge: str) -> Sample:
    """A sample with answers for texts; an attempt that was shown nothing keeps its None."""

    def bare(attempt: Attempt) -> Attempt:
        shown = None if attempt.shown is None else ""
        return replace(attempt, text=answer_only(attempt, dialect, judge), shown=shown)

    return replace(sample, drafts=tuple(map(bare, sample.drafts)), finals=tuple(map(bare, sample.finals)))


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path)
    parser.add_argument("--out", metavar="DIR", type=Path, required=True)
    arguments = parser.parse_args(words)
    try:
        for run in arguments.runs:
            made = lean_copy(run, arguments.out)
            size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file())
            print(f"{made} {size / 1000:.0f} kB")
    except InputError as error:
        print(f"lean_outcomes: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
