"""Which checkpoint of a run can be gone on from: the newest whole one.

A checkpoint is whole if it holds what its manifest says and its weights are finite. One of an older release has no
manifest; it is whole as far as can be told if nothing is missing and every file can be read.
"""

import json
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agon.errors import InputError
from agon.runs.manifest import MANIFEST, differences, not_finite, sealed

NAME = re.compile(r"checkpoint-(\d+)")
STATE = "trainer_state.json"
# Without these a resumed run would go on with other moments, another rate or other random numbers.
NEEDED = (STATE, "optimizer.pt", "scheduler.pt")
WEIGHTS = "adapter_model.safetensors"
ASIDE = "set-aside-"  # before the name of a checkpoint that was passed over; kept until the next one is whole


@dataclass(frozen=True)
class Choice:
    """The checkpoint that a run goes on from, and a sentence about those that were passed over."""

    folder: Path | None
    passed_over: str = ""


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints of a run, the oldest first; nothing else that lies there."""
    found = [path for path in folder.glob("checkpoint-*") if NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=step_of)


def step_of(checkpoint: Path) -> int:
    found = NAME.fullmatch(checkpoint.name)
    if not found:
        raise InputError(f"'{checkpoint}' is not a checkpoint: its name should be checkpoint-N.")
    return int(found.group(1))


def choose(found: Sequence[Path], sealed_since: int | None, policies: Sequence[str] = ("A",)) -> Choice:
    """The newest whole checkpoint; refuses if there are some and none is whole."""
    damaged: list[str] = []
    for checkpoint in reversed(found):
        wrong = damage(checkpoint, sealed_since, policies)
        if wrong is None:
            passed = f"{'; '.join(damaged)}: going on from {checkpoint.name}." if damaged else ""
            return Choice(checkpoint, passed)
        damaged.append(f"{checkpoint.name} is damaged ({wrong})")
    if damaged:
        raise InputError(
            f"No checkpoint in '{found[0].parent}' is whole: {'; '.join(damaged)}. "
            "Restore one, or start another run."
        )
    return Choice(None)


def damage(checkpoint: Path, sealed_since: int | None, policies: Sequence[str] = ("A",)) -> str | None:
    """What is wrong with a checkpoint, None if nothing is.

    From step `sealed_since` on the run's checkpoints have manifests; None if it never wrote any.
    """
    step = step_of(checkpoint)
    if sealed(checkpoint):
        for difference in differences(checkpoint):
            return difference
    elif sealed_since is not None and step >= sealed_since:
        return f"{MANIFEST} is missing"
    for name in NEEDED:
        if not (checkpoint / name).is_file():
            return f"{name} is missing"
    random_states = sorted(checkpoint.glob("rng_state*.pth"))
    if not random_states:
        return "rng_state.pth is missing"
    try:
        state = json.loads((checkpoint / STATE).read_text("utf-8"))
        if state["global_step"] != step:
            return f"{STATE} is that of step {state['global_step']}"
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return f"{STATE} cannot be read"
    for policy in policies:
        if not (checkpoint / policy / WEIGHTS).is_file():
            return f"{policy}/{WEIGHTS} is missing"
        if wrong := not_finite(checkpoint / policy / WEIGHTS):
            return f"policy {policy}: {wrong}"
    if not sealed(checkpoint):
        for file in (checkpoint / "optimizer.pt", checkpoint / "scheduler.pt", *random_states):
            if not _readable(file):
                return f"{file.name} cannot be read"
    return None


def damage_of_weights(checkpoint: Path, policies: Sequence[str]) -> str | None:
    """What is wrong with the policies of a checkpoint that is looked at and not gone on from."""
    if sealed(checkpoint):
        for difference in differences(checkpoint):
            return difference
    wrong = (not_finite(checkpoint / policy / WEIGHTS) for policy in policies)
    return next((each for each in wrong if each), None)


def _readable(file: Path) -> bool:
    """Whether a file of torch's is whole: it is a zip archive with a checksum for each part."""
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError):
        return False
