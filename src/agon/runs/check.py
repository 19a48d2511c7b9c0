"""Whether a run folder is what its run wrote: hashes, whole lines, no gap, duels against metrics.

    report = check_run(Path("runs/first"))
    report.findings      # what is wrong, one sentence each; none for a clean run
    report.notes         # what is no fault: parts of an older release, the end of a run that was killed
    report.resume        # what could be gone on from

It reads, and neither loads a model nor runs anything of the folder's.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agon.errors import InputError
from agon.game.methods import METHODS
from agon.runs.check_records import Records, check_duels, check_metrics, check_whole_lines
from agon.runs.checkpoints import ASIDE, WEIGHTS, checkpoints_in, choose, damage, step_of
from agon.runs.folder import Run
from agon.runs.manifest import differences, not_finite, sealed


@dataclass
class Report:
    """What was found in a run folder."""

    run: str
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    resume: str = ""

    @property
    def clean(self) -> bool:
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "clean": self.clean}


def check_run(folder: Path) -> Report:
    """Check everything in a run folder; refuses what is no run."""
    run, report = Run(folder), Report(str(folder))
    config = run.read_config()
    summary = _read(report, run.read_summary)
    environment = _read(report, run.read_environment)
    _read(report, run.read_task)
    finished = bool(summary.get("finished"))
    step = _check_checkpoints(run, report, finished, summary)
    _check_adapters(run, report, summary)
    records = Records(
        config=config,
        processes=environment.get("processes", 1),
        # What is newer than the checkpoint of an unfinished run is cut off when it is resumed.
        certain=int(summary.get("steps", 0)) if finished else step,
        finished=finished,
    )
    losses = check_metrics(folder / "metrics.jsonl", records, report.findings, report.notes)
    if unusable := records.unusable():
        report.findings.append(unusable)
    elif str(config.get("method")) not in METHODS:
        report.notes.append(
            "The duels were not checked: their method is somebody's own, and no code is run here."
        )
    elif config.get("log_duels", True):
        check_duels(run.duels(), records, losses, report.findings, report.notes)
    if finished and summary.get("steps") != summary.get("max_steps"):
        report.findings.append(
            f"summary.json says finished at step {summary.get('steps')} of {summary.get('max_steps')}."
        )
    _check_evaluations(run, report)
    return report


def _read(report: Report, reader: Any) -> dict[str, Any]:
    try:
        found: dict[str, Any] = reader()
    except InputError as error:
        report.findings.append(str(error))
        return {}
    return found


def _check_checkpoints(run: Run, report: Report, finished: bool, summary: dict[str, Any]) -> int:
    """Check every checkpoint and say what could be resumed; returns the step of the newest whole one."""
    folder = run.staging.parent
    found, since, policies = checkpoints_in(folder), run.sealed_since(), run.policies()
    for checkpoint in found:
        wrong = damage(checkpoint, since, policies)
        if wrong:
            report.findings.append(f"{checkpoint.name} is damaged: {wrong}.")
        elif not sealed(checkpoint):
            report.notes.append(f"{checkpoint.name} is not verified: it has no manifest.")
    report.notes += [
        f"checkpoints/{path.name} is left over and not used."
        for path in (run.staging, *folder.glob(f"{ASIDE}*"))
        if path.is_dir() and any(path.iterdir())
    ]
    try:
        chosen = choose(found, since, policies).folder
    except InputError:
        chosen = None
    step = step_of(chosen) if chosen else 0
    if finished:
        report.resume = "The run is finished: there is nothing to resume."
    elif chosen is not None:
        of = f" of {summary['max_steps']}" if summary.get("max_steps") else ""
        report.resume = f"The run could go on from {chosen.name}, after step {step}{of}."
    elif found:
        report.resume = "The run cannot be resumed: none of its checkpoints is whole."
    else:
        report.resume = "The run has no checkpoint: it would start over."
    return step


def _check_adapters(run: Run, report: Report, summary: dict[str, Any]) -> None:
    """The trained policies: as they were sealed, and finite."""
    if not summary:
        return
    for policy in run.policies():
        file = run.adapters / policy / WEIGHTS
        wrong = not_finite(file) if file.is_file() else f"{WEIGHTS} is missing"
        if wrong:
            report.findings.append(f"adapters/{policy}: {wrong}.")
    if sealed(run.adapters, run.adapters_manifest):
        found = differences(run.adapters, run.adapters_manifest)
        report.findings += [f"adapters: {difference}." for difference in found]
    elif run.sealed_since() is not None:
        report.findings.append(f"{run.adapters_manifest.name} is missing.")
    else:
        report.notes.append("adapters are not verified: they have no manifest.")


def _check_evaluations(run: Run, report: Report) -> None:
    for folder in sorted(path for path in run.evaluations.glob("*") if path.is_dir()):
        report.findings += _evaluation_findings(run, folder)


def _evaluation_findings(run: Run, folder: Path) -> Iterator[str]:
    from agon.runs.files import read_json

    for name in ("settings.json", "result.json"):
        try:
            read_json(folder / name)
        except InputError as error:
            yield str(error)
    yield from check_whole_lines(folder / "samples.jsonl", f"evaluations/{folder.name}/samples.jsonl")
