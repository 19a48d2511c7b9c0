"""What a verdict may cost, and the count of those that cost too much."""

import math
from dataclasses import astuple, dataclass

from agon.errors import InputError
from agon.judges.judge import Judge


@dataclass(frozen=True)
class Limits:
    """Limits of one verdict. A judge may have its own as an attribute `limits`.

    - `deadline`: seconds of its own that a verdict may take until the worker is killed. Time in which it
      had to wait for a CPU, or in which the pool had paused it, does not count.
    - `wall_factor`: how many times the deadline may pass on the clock while the verdict is not paused; a
      verdict that ends there was starved, and is tried once more alone.
    - `memory_bytes`: address space of a worker.
    - `patience`: seconds after which a verdict is overdue and no longer delays the next answer; less
      where verdicts are usually quick.
    - `max_overdue`: how many overdue verdicts may be running at once.
    - `verdicts_per_worker`: how many verdicts a worker gives before a fresh one replaces it.
    """

    deadline: float = 5.0
    wall_factor: float = 10.0
    memory_bytes: int = 2 << 30
    patience: float = 1.0
    max_overdue: int = 128
    verdicts_per_worker: int = 1000

    def __post_init__(self) -> None:
        if not (self.deadline > 0 and math.isfinite(self.deadline)):
            raise InputError(f"A verdict's deadline is a positive number of seconds, not {self.deadline}.")
        if self.memory_bytes < 64 << 20:
            raise InputError(f"A worker needs at least 64 MiB of memory, not {self.memory_bytes} bytes.")


@dataclass(frozen=True)
class PoolCounts:
    """What happened so far: verdicts given, and among them missed deadlines, workers that died and
    judges that raised; `replaced` counts every worker that was replaced by a fresh one, `retries` the
    verdicts that were tried a second time because the machine was too busy for the first, `lost` the
    answers that were judged again because their worker died."""

    verdicts: int = 0
    timeouts: int = 0
    crashes: int = 0
    errors: int = 0
    replaced: int = 0
    retries: int = 0
    lost: int = 0

    def __add__(self, other: "PoolCounts") -> "PoolCounts":
        """Of two pools together, as several training processes have them."""
        return PoolCounts(
            *(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True))
        )

    @property
    def timeout_share(self) -> float:
        """The share of all verdicts that were timeouts."""
        return self.timeouts / self.verdicts if self.verdicts else 0.0


def limits_of(judge: Judge) -> Limits:
    """The judge's own limits, or the defaults."""
    own = getattr(judge, "limits", None)
    return own if isinstance(own, Limits) else Limits()
