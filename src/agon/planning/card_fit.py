"""What a run leaves open and its card decides, by the plan's arithmetic: checkpointing, and tokens of a micro-batch.

Checkpointing computes every layer's forward a second time to save memory: about a quarter of the training phase. So
it is left out where the activations of the largest micro-batch fit besides everything else, with a margin: the plan's
formulas are within a few percent of what is allocated (`tests/planning`), and an allocator's fragments come on top.

Where rows are laid in lines, a micro-batch may have as many tokens as fit: larger ones keep a GPU busier. A smaller one
without checkpointing comes before a larger one with it.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agon.errors import InputError
from agon.planning.architectures import Architecture
from agon.planning.estimate import GIB, Workload, memory

# Of the memory that is there, so much may be planned for.
MARGIN = 0.85
# In the environment: how many trainings share the card, each of which may plan for its part alone.
SHARED_BY = "AGON_CARD_SHARED_BY"
# Tokens of a micro-batch to choose from.
LINES = (32_768, 16_384, 8192, 4096)


@dataclass(frozen=True)
class Fit:
    """The choice, and the bytes behind it: what a process needs with it, and what is there."""

    checkpointing: bool
    needed: int
    there: int
    tokens: int | None = None  # of a micro-batch, where they were to be chosen

    def applied(self, work: Workload) -> Workload:
        """The work as it is done with this choice."""
        work = replace(work, gradient_checkpointing=self.checkpointing)
        return replace(work, micro_batch_tokens=self.tokens, padding_free=True) if self.tokens else work

    def __str__(self) -> str:
        state = "on" if self.checkpointing else "off"
        lines = f", and a micro-batch has up to {self.tokens} tokens" if self.tokens else ""
        names = "gradient_checkpointing" + (" and micro_batch_tokens" if self.tokens else "")
        return (
            f"Gradient checkpointing is {state}{lines}: training needs about {self.needed / GIB:.1f} of the "
            f"{self.there / GIB:.1f} GiB that are there ({names} can say otherwise)."
        )


def fit(
    model: Architecture,
    work: Workload,
    there: int,
    processes: int = 1,
    float32: bool = False,
    checkpointing: bool | None = None,
    sizes: Sequence[int] = (),
) -> Fit:
    """The first choice that fits so many bytes, or the last; activations in float32 take twice as many.

    `checkpointing` is what was said of it, `sizes` are the tokens of a micro-batch to choose from, in lines.
    """
    if sizes:
        work = replace(work, padding_free=True)
    for each in (False, True) if checkpointing is None else (checkpointing,):
        for size in sizes or (work.micro_batch_tokens,):
            tried = replace(work, gradient_checkpointing=each, micro_batch_tokens=size)
            parts = memory(model, tried, processes)
            peak = max(parts.training_peak + (parts.activations if float32 else 0), parts.sampling_peak)
            needed = peak + engine_bytes(model, work, there)
            found = Fit(each, needed, there, size if sizes else None)
            if needed <= MARGIN * there:
                return found
    return found


def sharers() -> int:
    """How many trainings share the card, by what the environment says."""
    said = os.environ.get(SHARED_BY, "1")
    if not said.isdigit() or int(said) < 1:
        raise InputError(f"{SHARED_BY} must be a positive whole number, not '{said}'.")
    return int(said)


def engine_bytes(model: Architecture, work: Workload, there: int) -> int:
    """What a vLLM engine on the same card takes: its share, or its weights and the cache that it was given."""
    if work.engine != "vllm":
        return 0
    if work.vllm_kv_cache_bytes:
        return work.vllm_kv_cache_bytes + model.parameters * work.width
    return int(work.vllm_gpu_memory_utilization * there)
