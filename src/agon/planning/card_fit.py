"""Whether a run can do without gradient checkpointing on the card it starts on, by the plan's arithmetic.

Checkpointing computes every layer's forward a second time to save memory: about a quarter of the training phase. So
it is left out where the activations of the largest micro-batch fit besides everything else, with a margin: the plan's
formulas are within a few percent of what is allocated (`tests/planning`), and an allocator's fragments come on top.
"""

from dataclasses import dataclass, replace

from agon.planning.architectures import Architecture
from agon.planning.estimate import GIB, Workload, memory

# Of the memory that is there, so much may be planned for.
MARGIN = 0.85


@dataclass(frozen=True)
class Fit:
    """The choice, and the bytes behind it: what a process needs without checkpointing, and what is there."""

    checkpointing: bool
    needed: int
    there: int

    def __str__(self) -> str:
        state = "on" if self.checkpointing else "off"
        return (
            f"Gradient checkpointing is {state}: without it training needs about {self.needed / GIB:.1f} GiB, and "
            f"{self.there / GIB:.1f} GiB are there (gradient_checkpointing decides otherwise)."
        )


def fit(model: Architecture, work: Workload, there: int, processes: int = 1, float32: bool = False) -> Fit:
    """Whether checkpointing is needed with so many bytes; activations in float32 take twice those of bfloat16."""
    parts = memory(model, replace(work, gradient_checkpointing=False), processes)
    peak = max(parts.training_peak + (parts.activations if float32 else 0), parts.sampling_peak)
    needed = peak + engine_bytes(model, work, there)
    return Fit(needed > MARGIN * there, needed, there)


def engine_bytes(model: Architecture, work: Workload, there: int) -> int:
    """What a vLLM engine on the same card takes: its share, or its weights and the cache that it was given."""
    if work.engine != "vllm":
        return 0
    if work.vllm_kv_cache_bytes:
        return work.vllm_kv_cache_bytes + model.parameters * work.width
    return int(work.vllm_gpu_memory_utilization * there)
