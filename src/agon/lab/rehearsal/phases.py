"""Seconds and memory by phase of a rehearsal.

Phases nest, and each counts only what its inner ones do not. Memory is the most that this process
had allocated on the GPU (or, on a CPU, the most memory it ever had), and what the whole card had in
use when a part of the phase ended, which counts other processes such as vLLM's worker.
"""

import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch

GIB = 1 << 30
# The phases in the order in which they are shown.
ORDER = (
    *("make the model", "load", "engine start", "resume", "sampler check", "sync", "sampling", "scoring"),
    *("training", "longest micro-batch", "optimizer", "other", "checkpoint", "begin and end"),
)


@dataclass
class Measured:
    """What a phase took in all, and how often it was entered."""

    seconds: float = 0.0
    times: int = 0
    peak_bytes: int = 0
    card_bytes: int = 0


class Phases:
    """A clock for nested phases; `cuda` says whether the GPU is waited for and its memory is read."""

    def __init__(self, cuda: bool) -> None:
        self.cuda = cuda
        self.measured: dict[str, Measured] = {}
        self.failed: str | None = None  # the phase in which an error happened first
        self._open: list[str] = []
        self._started = 0.0

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.enter(name)
        try:
            yield
        except BaseException:
            self.failed = self.failed or self._open[-1]
            raise
        finally:
            self.leave()

    def enter(self, name: str) -> None:
        self._add()
        self._open.append(name)
        self.measured.setdefault(name, Measured()).times += 1

    def leave(self) -> None:
        self._add()
        self._open.pop()

    def _add(self) -> None:
        """Count what went by since the last call for the innermost phase."""
        if self.cuda:
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self._open:
            phase = self.measured[self._open[-1]]
            phase.seconds += now - self._started
            peak, card = self._memory()
            phase.peak_bytes = max(phase.peak_bytes, peak)
            phase.card_bytes = max(phase.card_bytes, card)
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        self._started = time.perf_counter()

    def _memory(self) -> tuple[int, int]:
        if not self.cuda:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, 0
        free, total = torch.cuda.mem_get_info()
        return torch.cuda.max_memory_allocated(), total - free

    def as_dicts(self) -> dict[str, dict[str, Any]]:
        """What every phase took, in the order of `ORDER`."""
        return {name: asdict(self.measured[name]) for name in ORDER if name in self.measured}


def phases_table(phases: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Phases as lines of text."""
    rows = [f"{'phase':<22}{'seconds':>9}{'times':>7}{'peak GiB':>10}{'card GiB':>10}"]
    for name, each in phases.items():
        memory = f"{each['peak_bytes'] / GIB:>10.2f}{each['card_bytes'] / GIB:>10.2f}"
        rows.append(f"{name:<22}{each['seconds']:>9.2f}{each['times']:>7}{memory}")
    return rows
