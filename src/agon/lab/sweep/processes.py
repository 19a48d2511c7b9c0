"""The processes in which the stages of cells run: they save and leave when whoever started them is gone.

A sweep that is killed can do nothing for its children any more, so the kernel sends them SIGTERM, at which a training
saves and ends. They are in a session of their own: a Ctrl-C reaches the sweep alone, which then asks each of them.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

# In front of the command, in its own process. What sends it is the end of the thread that started it. SIGUSR2 is how
# Slurm tells submitit, and every process of the job, that the time is up; the sweep then asks the cell to stop.
PRELUDE = """
import ctypes, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
try:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
except AttributeError:
    pass  # not Linux
if os.getppid() != int(sys.argv[1]):
    sys.exit(143)
os.execv(sys.executable, [sys.executable, "-m", "agon.cli", *sys.argv[2:]])
"""


class Child(Protocol):
    """A process of a stage: as much of `subprocess.Popen` as is needed of it."""

    pid: int

    def poll(self) -> int | None: ...

    def send_signal(self, sig: int, /) -> None: ...


@dataclass(frozen=True)
class Order:
    """A command of `agon`, where its words go, and around what it runs."""

    words: Sequence[str]
    output: Path
    log: Path
    environment: Mapping[str, str]
    here: str


Start = Callable[[Order], Child]


def start_process(order: Order) -> Child:
    """Run `agon` in a process of its own."""
    with order.log.open("ab") as log, order.output.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-c", PRELUDE, str(os.getpid()), *order.words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=log,
            env={**order.environment, "TOKENIZERS_PARALLELISM": "false"},
            cwd=order.here,
            start_new_session=True,
        )


# How a cell's stages are started; tests, where torch is loaded already, fork instead.
starting: list[Start] = [start_process]


def ended_by(code: int) -> str:
    """What an exit code says where a process has left no sentence."""
    if code < 0:
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it left with exit code {code}"


def last_sentence(log: Path, start: int, code: int) -> str:
    """Why a process failed: its last sentence, or the last line of its traceback, in what it logged after `start`."""
    try:
        with log.open("rb") as file:
            file.seek(start)
            lines = file.read().decode("utf-8", "replace").replace("\r", "\n").splitlines()
    except OSError:
        lines = []
    found = ""
    for number, line in enumerate(lines):
        if line.startswith("agon: "):
            found = line.removeprefix("agon: ")
        elif line.startswith("Traceback (most recent call last)"):
            after = [
                each for each in lines[number + 1 :] if each.strip() and not each.startswith((" ", "\t"))
            ]
            found = after[0] if after else found
    if code < 0 or not found:
        return f"{ended_by(code)[0].upper()}{ended_by(code)[1:]}{': ' + found if found else '.'}"
    return " ".join(found.split())[:1000]
