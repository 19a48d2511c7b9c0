"""A policy as a model of its own: its adapter merged into the base, for what cannot load adapters."""

from pathlib import Path
from typing import Any

from peft import PeftModel
from torch import nn

from agon.errors import InputError


def save_merged(base: nn.Module, adapter: Path, tokenizer: Any, folder: Path) -> None:
    """Write a base with one adapter merged into it, and its tokenizer. The base given is used up.

    Merging rounds to the base's precision once; in bfloat16 that moves weights by up to half of their last
    digit, so a merged policy answers almost, not exactly, as its adapter does.
    """
    try:
        model = PeftModel.from_pretrained(base, str(adapter)).merge_and_unload()
    except (ValueError, RuntimeError, OSError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"The adapter '{adapter}' does not fit its base: {said}") from error
    model.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
