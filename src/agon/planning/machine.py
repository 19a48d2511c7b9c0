"""What this machine has for a training run: Python, libraries, devices, engines, sandbox, disk."""

import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from importlib.util import find_spec
from typing import Literal

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from agon.engines.build import ENGINES

State = Literal["ok", "optional", "missing"]
DISTRIBUTION = "agon-rl"
LEAST_DISK_GB = 5  # a 0.6B base with its tokenizer, two adapters and a few checkpoints


@dataclass(frozen=True)
class Finding:
    """One thing that was checked; `fix` is the command (or the sentence) that puts it right."""

    area: str
    name: str
    state: State
    found: str
    wanted: str = ""
    fix: str = ""


def examine() -> Iterator[Finding]:
    """Check everything, in the order in which a user would fix it."""
    requirements = [Requirement(line) for line in requires(DISTRIBUTION) or ()]
    yield _python()
    for requirement in requirements:
        yield from check_library(requirement)
    yield from _devices()
    yield from _engines({requirement.name: requirement for requirement in requirements})
    sandbox = check_sandbox()
    yield sandbox
    if sandbox.state == "ok":
        yield from check_sandbox_layers()
    yield _disk()


def check_library(wanted: Requirement) -> Iterator[Finding]:
    """A required library must be installed and in its range; one of an extra, in its range if it is installed."""
    try:
        found = version(wanted.name)
    except PackageNotFoundError:
        found = ""
    fits = bool(found) and wanted.specifier.contains(found, prereleases=True)
    specifier = str(wanted.specifier)
    if _required(wanted):
        state: State = "ok" if fits else "missing"
        fix = "" if fits else _pip(wanted)
        yield Finding("library", wanted.name, state, found or "not installed", specifier, fix)
    elif found and not fits:
        yield Finding("library", wanted.name, "optional", found, specifier, _pip(wanted))


def check_sandbox() -> Finding:
    """Run a program that prints: bubblewrap may be installed and still not be allowed to work by the kernel."""
    from agon.judges.code.languages import language
    from agon.judges.code.sandbox import SandboxLimits, run_program

    if shutil.which("bwrap") is None:
        fix = "apt-get install bubblewrap"
        return Finding("sandbox", "bubblewrap", "optional", "not installed", "for code tasks", fix)
    outcome = run_program("print(6 * 7)", b"", language("python"), SandboxLimits())
    if outcome.ok and outcome.stdout.strip() == b"42":
        return Finding("sandbox", "bubblewrap", "ok", f"ran a program in {outcome.seconds:.2f} s")
    messages = outcome.stderr.decode(errors="replace").strip().splitlines()
    reason = messages[-1] if messages else f"{outcome.ending}, exit code {outcome.code}"
    return Finding(
        "sandbox",
        "bubblewrap",
        "optional",
        f"cannot run a program: {reason}",
        "for code tasks",
        "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1 (in a container: --privileged)",
    )


def check_sandbox_layers() -> Iterator[Finding]:
    """What stands between a program and this machine besides bubblewrap itself; what is missing is named."""
    from agon.judges.code.layers import sandbox_layers

    for layer in sandbox_layers():
        state: State = "ok" if layer.active else "optional"
        yield Finding("sandbox", layer.name, state, layer.found, "", "" if layer.active else layer.fix)


def _python() -> Finding:
    found, wanted = platform.python_version(), metadata(DISTRIBUTION)["Requires-Python"]
    if SpecifierSet(wanted).contains(found, prereleases=True):
        return Finding("python", "Python", "ok", found, wanted)
    fix = f"python3.11 -m venv .venv  (any Python {wanted})"
    return Finding("python", "Python", "missing", found, wanted, fix)


def _required(wanted: Requirement) -> bool:
    return wanted.marker is None or wanted.marker.evaluate({"extra": ""})


def _pip(wanted: Requirement) -> str:
    extras = f"[{','.join(sorted(wanted.extras))}]" if wanted.extras else ""
    return f"python -m pip install '{wanted.name}{extras}{wanted.specifier}'"


def _devices() -> Iterator[Finding]:
    if find_spec("torch") is None:
        return  # reported among the libraries
    import torch

    for index in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(index)
        yield Finding("device", f"cuda:{index}", "ok", f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB")
    if torch.backends.mps.is_available():
        yield Finding("device", "mps", "ok", "Apple GPU")
    yield Finding("device", "cpu", "ok", f"{torch.get_num_threads()} threads")
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        return
    if shutil.which("nvidia-smi"):
        found = "there is one, but this torch cannot use it"
        fix = f"python -m pip install --force-reinstall 'torch=={torch.__version__.split('+')[0]}'"
    else:
        found, fix = "none", "train the embedded default here, larger models on a GPU"
    yield Finding("device", "gpu", "optional", found, fix=fix)


def _engines(requirements: dict[str, Requirement]) -> Iterator[Finding]:
    for name, engine in ENGINES.items():
        if engine.package is None:
            yield Finding("engine", name, "ok", "needs no package here")
        elif find_spec(engine.package) is not None:
            yield Finding("engine", name, "ok", "importable")
        else:
            wanted = requirements[engine.package]
            state: State = "missing" if _required(wanted) else "optional"
            yield Finding("engine", name, state, "not installed", fix=_pip(wanted))


def _disk() -> Finding:
    free = shutil.disk_usage(".").free / 1e9
    state: State = "ok" if free >= LEAST_DISK_GB else "optional"
    fix = "" if state == "ok" else "free some space, or run from a folder on a larger disk"
    return Finding("disk", "free here", state, f"{free:.0f} GB", f"{LEAST_DISK_GB} GB for a 0.6B base", fix)
