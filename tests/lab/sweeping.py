"""A sweep of a tiny model in a process of its own, whose stages are forked: torch is loaded once, not six times."""

import contextlib
import ctypes
import gc
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from agon.cli import main
from agon.lab.sweep import processes
from agon.lab.sweep.processes import Order
from agon.runs.sweep_folder import Cell, SweepFolder
from tests.evaluate.tiny import save_base, save_problems, zero_or_one

torch.set_num_threads(1)
STEPS = 3
DEADLINE_S = 240.0


class Forked:
    """As much of a process as a sweep needs of one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def send_signal(self, sig: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)


def fork(work: Callable[[], int], output: Path, log: Path) -> Forked:
    """Do some work in a child, which dies with its parent, and is in a session of its own."""
    parent, child = os.getpid(), os.fork()
    if child:
        return Forked(child)
    code = 1
    try:
        gc.freeze()
        os.setsid()
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if os.getppid() != parent:
            os._exit(143)
        # Not only the descriptors: pytest has put its own objects in the place of these.
        sys.stdout, sys.stderr = output.open("w", buffering=1), log.open("a", buffering=1)
        os.dup2(sys.stdout.fileno(), 1)
        os.dup2(sys.stderr.fileno(), 2)
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def start_forked(order: Order) -> Forked:
    """What `start_process` does, without loading everything again."""

    def work() -> int:
        os.chdir(order.here)
        os.environ.update(order.environment)
        return main(list(order.words))

    return fork(work, order.output, order.log)


@dataclass
class Sweeping:
    """A sweep of a tiny model: its file, its folder, and the processes that carry it out."""

    place: Path

    @property
    def folder(self) -> SweepFolder:
        return SweepFolder(self.place / "out")

    def write(self, **content: Any) -> None:
        """The sweep file over the tiny model."""
        base, problems = self.place / "base", self.place / "bits.jsonl"
        if not base.exists():
            save_base(base)
            save_problems(problems)
            with problems.open("a") as file:
                for problem in zero_or_one(64)[48:]:
                    row = {
                        "id": problem.id,
                        "problem": problem.prompt,
                        "answer": problem.answer,
                        "split": "train",
                    }
                    file.write(json.dumps(row) + "\n")
        recipe = {
            "model": str(base),
            "task": str(problems),
            "judge": "exact",
            "judge_workers": 1,
            "num_generations": 4,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 2,
            "max_completion_length": 3,
            "max_steps": STEPS,
            "save_steps": 1,
            "save_total_limit": 2,
            "lora_r": 4,
            "dialect": "think",
            "use_cpu": True,
            "gradient_checkpointing": False,
        }
        (self.place / "recipe.yaml").write_text(yaml.safe_dump(recipe))
        content = {"name": "tiny", "recipes": str(self.place / "recipe.yaml"), **content}
        (self.place / "sweep.yaml").write_text(yaml.safe_dump(content))

    @property
    def words(self) -> list[str]:
        return ["sweep", str(self.place / "sweep.yaml"), "--output", str(self.folder.folder)]

    def start(self, *more: str) -> Forked:
        """`agon sweep`, in a process whose stages are forked."""

        def work() -> int:
            os.chdir(self.place)
            processes.starting[0] = start_forked
            return main([*self.words, *more])

        return fork(work, self.place / "said.out", self.place / "said.err")

    def run(self, *more: str) -> int:
        """The same, until it has ended; its exit code."""
        child = self.start(*more)
        self.until(lambda: child.poll() is not None, "the sweep to end")
        code = child.poll()
        assert code is not None
        return code

    def until(self, happened: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not happened():
            assert time.monotonic() < deadline, f"waited for {what} in vain: {self.said()}"
            time.sleep(0.03)

    def said(self) -> str:
        logs = [path.read_text() for path in sorted(self.place.glob("said.*"))]
        return "\n".join([*logs, *(path.read_text() for path in self.folder.folder.glob("*.log"))])

    def cell(self, name: str) -> Cell:
        (found,) = (cell for cell in self.folder.cells() if cell.name == name)
        return found
