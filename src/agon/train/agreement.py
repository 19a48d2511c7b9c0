"""What all processes of a run decide together; with one process, what it decides itself."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import distributed


def any_process(flag: bool, device: torch.device) -> bool:
    """Whether the flag is set in any process: all of them get the same answer."""
    return _over_all([float(flag)], device, distributed.ReduceOp.MAX)[0] > 0


def mean_of_processes(values: Sequence[float], device: torch.device) -> list[float]:
    """Each value's mean over the processes."""
    total = _over_all([*values, 1.0], device, distributed.ReduceOp.SUM)
    return [value / total[-1] for value in total[:-1]]


def _over_all(values: Sequence[float], device: torch.device, reduction: Any) -> list[float]:
    if not distributed.is_available() or not distributed.is_initialized():
        return list(values)
    shared = torch.tensor(values, dtype=torch.float32, device=device)
    distributed.all_reduce(shared, reduction)
    reduced: list[float] = shared.tolist()
    return reduced
