"""What a configuration leaves open and its card decides: gradient checkpointing, and the tokens of a micro-batch."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from agon.errors import InputError
from agon.planning.architectures import from_config
from agon.planning.card_fit import LINES, Fit, fit, sharers
from agon.planning.recipe_plan import workload
from agon.train.config import AgonConfig
from agon.train.option_combinations import pass_refusals
from agon.train.packing import one_kernel

# Tokens of a prompt that the plan assumes where it knows nothing.
PROMPT_TOKENS = 400


def choose_for_card(config: AgonConfig, model: Any) -> Fit | None:
    """Choose what was left open, and return what was chosen and why; None where nothing was.

    A model that the plan cannot describe keeps TRL's default, checkpointing on, and micro-batches of rows.
    """
    said, there = config.gradient_checkpointing, memory_there(config)
    if said is None:
        config.gradient_checkpointing = True
    try:
        shape = from_config(model.to_dict())
        lines = shape.in_lines and one_kernel(config.device, _precision(config))
        sizes = sizes_for(config, config.world_size) if lines else ()
        if said is not None and not sizes:
            return None
        work = workload(config, problems=1, prompt_tokens=PROMPT_TOKENS)
        float32 = _precision(config) == torch.float32
        found = fit(shape, work, there, config.world_size, float32, said, sizes)
    except (KeyError, TypeError, ValueError, ZeroDivisionError, InputError):
        return None
    config.gradient_checkpointing = found.checkpointing
    config.micro_batch_tokens = found.tokens or config.micro_batch_tokens
    return found


def sizes_for(config: AgonConfig, processes: int) -> Sequence[int]:
    """The tokens of a micro-batch to choose from on a GPU; none where they were said, or rows are not so divided."""
    if config.micro_batch_tokens is not None or config.padding_free is False:
        return ()
    refused = any(pass_refusals({**vars(config), "micro_batch_tokens": LINES[-1]}, processes))
    return () if refused else LINES


def _precision(config: AgonConfig) -> torch.dtype:
    return torch.bfloat16 if config.bf16 else torch.float16 if config.fp16 else torch.float32


def memory_there(config: AgonConfig) -> int:
    """Bytes that this process may use: its card or its part of it, or half of what main memory has free."""
    if config.device.type == "cuda":
        free, whole = torch.cuda.mem_get_info(config.device)
        # The base lies there already, and is in what training needs.
        own = int(free) + torch.cuda.memory_reserved(config.device)
        return min(own, int(whole) // sharers())
    free = _available() or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return free // (2 * int(os.environ.get("LOCAL_WORLD_SIZE", 1)))


def _available() -> int:
    """Linux's own estimate of what can be had without swapping; 0 elsewhere."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 0)
