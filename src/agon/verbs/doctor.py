"""Say what this machine has, what is missing and the command that mends it.

Exit code 0 means that a training run is possible here, 1 that something it needs is missing. Optional
things (a GPU, vLLM, the sandbox that code tasks run in) are reported and never fail the check.
"""

import argparse
import json
import platform
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from importlib.util import find_spec
from typing import Literal

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

State = Literal["ok", "optional", "missing"]
DISTRIBUTION = "agon-rl"
LEAST_DISK_GB = 5  # a 0.6B base with its tokenizer, two adapters and a few checkpoints


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `mend` is the command (or the sentence) that puts it right."""

    area: str
    name: str
    state: State
    found: str
    wanted: str = ""
    mend: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    findings = list(examine())
    ready = all(finding.state != "missing" for finding in findings)
    if arguments.json:
        print(json.dumps({"ready": ready, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _print_findings(findings, ready)
    return 0 if ready else 1


def examine() -> Iterator[Finding]:
    """Look at everything, in the order in which a user would mend it."""
    yield _python()
    for line in requires(DISTRIBUTION) or ():
        yield from _library(Requirement(line))
    yield from _devices()
    yield from _engines()
    yield _sandbox()
    yield _disk()


def _python() -> Finding:
    found, wanted = platform.python_version(), metadata(DISTRIBUTION)["Requires-Python"]
    if SpecifierSet(wanted).contains(found, prereleases=True):
        return Finding("python", "Python", "ok", found, wanted)
    mend = f"python3.11 -m venv .venv  (any Python {wanted})"
    return Finding("python", "Python", "missing", found, wanted, mend)


def _library(wanted: Requirement) -> Iterator[Finding]:
    """A required library must be there and in its range; one of an extra, in range if it is there."""
    required = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
    try:
        found = version(wanted.name)
    except PackageNotFoundError:
        found = ""
    fits = bool(found) and wanted.specifier.contains(found, prereleases=True)
    specifier = str(wanted.specifier)
    if required:
        state: State = "ok" if fits else "missing"
        mend = "" if fits else _pip(wanted)
        yield Finding("library", wanted.name, state, found or "not installed", specifier, mend)
    elif found and not fits:
        yield Finding("library", wanted.name, "optional", found, specifier, _pip(wanted))


def _pip(wanted: Requirement) -> str:
    extras = f"[{','.join(sorted(wanted.extras))}]" if wanted.extras else ""
    return f"python -m pip install '{wanted.name}{extras}{wanted.specifier}'"


def _devices() -> Iterator[Finding]:
    if find_spec("torch") is None:
        return  # already missing among the libraries
    import torch

    for index in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(index)
        yield Finding("device", f"cuda:{index}", "ok", f"{card.name}, {card.total_memory / 2**30:.0f} GiB")
    if torch.backends.mps.is_available():
        yield Finding("device", "mps", "ok", "Apple GPU")
    yield Finding("device", "cpu", "ok", f"{torch.get_num_threads()} threads")
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        return
    if shutil.which("nvidia-smi"):
        mend = f"python -m pip install --force-reinstall 'torch=={torch.__version__.split('+')[0]}'"
        yield Finding("device", "gpu", "optional", "there is one, but this torch cannot use it", mend=mend)
    else:
        yield Finding(
            "device",
            "gpu",
            "optional",
            "none",
            mend="train the embedded default here, larger models on a GPU",
        )


def _engines() -> Iterator[Finding]:
    wanted = {line.name: line for line in map(Requirement, requires(DISTRIBUTION) or ())}
    absent: State
    for name, absent in (("transformers", "missing"), ("vllm", "optional")):
        if find_spec(name) is not None:
            yield Finding("engine", name, "ok", "importable")
        else:
            yield Finding("engine", name, absent, "not installed", mend=_pip(wanted[name]))


def _sandbox() -> Finding:
    """Run a program that prints: that bubblewrap is installed does not mean that the kernel lets it work."""
    from agon.judges.languages import language
    from agon.judges.sandbox import SandboxLimits, run_program

    if shutil.which("bwrap") is None:
        return Finding(
            "sandbox",
            "bubblewrap",
            "optional",
            "not installed",
            "for code tasks",
            "apt-get install bubblewrap",
        )
    outcome = run_program("print(6 * 7)", b"", language("python"), SandboxLimits())
    if outcome.ok and outcome.stdout.strip() == b"42":
        return Finding("sandbox", "bubblewrap", "ok", f"ran a program in {outcome.seconds:.2f} s")
    said = outcome.stderr.decode(errors="replace").strip().splitlines()
    reason = said[-1] if said else f"{outcome.ending}, exit code {outcome.code}"
    mend = (
        "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1 (in a container: --privileged)"
    )
    return Finding(
        "sandbox", "bubblewrap", "optional", f"cannot run a program: {reason}", "for code tasks", mend
    )


def _disk() -> Finding:
    free = shutil.disk_usage(".").free / 1e9
    state: State = "ok" if free >= LEAST_DISK_GB else "optional"
    mend = "" if state == "ok" else "free some space, or run from a folder on a larger disk"
    return Finding("disk", "free here", state, f"{free:.0f} GB", f"{LEAST_DISK_GB} GB for a 0.6B base", mend)


def _print_findings(findings: list[Finding], ready: bool) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "what", "found", "wanted"):
        table.add_column(heading, overflow="fold")
    marks = {"ok": ("ok", "green"), "optional": ("–", "yellow"), "missing": ("missing", "bold red")}
    for finding in findings:
        mark, style = marks[finding.state]
        name = f"{finding.area}: {finding.name}"
        table.add_row(Text(mark, style), *(Text(cell) for cell in (name, finding.found, finding.wanted)))
    console.print(table)
    for finding in findings:
        if finding.mend:
            console.print(Text(f"{finding.name}: {finding.mend}"), soft_wrap=True)
    verdict = "A training run is possible here." if ready else "A training run is not possible here yet."
    console.print(Text(verdict, "bold green" if ready else "bold red"))
