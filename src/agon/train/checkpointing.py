"""Gradient checkpointing that nobody has decided on: the plan's arithmetic does, for the card of this process."""

import os
from pathlib import Path
from typing import Any

import torch

from agon.errors import InputError
from agon.planning.architectures import from_config
from agon.planning.card_fit import Fit, fit
from agon.planning.recipe_plan import workload
from agon.train.config import AgonConfig

# Tokens of a prompt that the plan assumes where it knows nothing.
PROMPT_TOKENS = 400


def choose_checkpointing(config: AgonConfig, model: Any) -> Fit | None:
    """Switch checkpointing on or off if it was left open, and return why; None where it was said.

    A model that the plan cannot describe keeps TRL's default, on.
    """
    if config.gradient_checkpointing is not None:
        return None
    config.gradient_checkpointing = True
    try:
        shape = from_config(model.to_dict())
        work = workload(config, problems=1, prompt_tokens=PROMPT_TOKENS)
        found = fit(shape, work, memory_there(config), config.world_size, float32=not config.bf16)
    except (KeyError, TypeError, ValueError, ZeroDivisionError, InputError):
        return None
    config.gradient_checkpointing = found.checkpointing
    return found


def memory_there(config: AgonConfig) -> int:
    """Bytes that this process may use: its card, or half of what main memory has free."""
    if config.device.type == "cuda":
        # The base lies there already, and is in what training needs.
        return int(torch.cuda.mem_get_info(config.device)[0]) + torch.cuda.memory_reserved(config.device)
    free = _available() or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return free // (2 * int(os.environ.get("LOCAL_WORLD_SIZE", 1)))


def _available() -> int:
    """Linux's own estimate of what can be had without swapping; 0 elsewhere."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 0)
