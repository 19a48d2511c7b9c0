"""The frozen base and its tokenizer: the one place that loads them."""

from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.utils import create_model_from_path

from agon.embedded import EMBEDDED, model_path
from agon.errors import InputError


def load_base(
    model: str,
    dtype: torch.dtype | None = None,
    device_map: str | None = None,
    trust_remote_code: bool = False,
    **model_init_kwargs: Any,
) -> PreTrainedModel:
    """A base by its Hub id or folder, or `embedded` for the one we ship.

    `model_init_kwargs` go to `from_pretrained`, and those that are given win over the arguments
    before them. Without a `device_map` the base stays in main memory.
    """
    options = {
        "dtype": dtype or torch.float32,
        "device_map": device_map,
        "trust_remote_code": trust_remote_code,
        **model_init_kwargs,
    }
    try:
        return create_model_from_path(model_path(model), **options)
    except (OSError, ValueError) as error:
        raise InputError(f"Cannot load the model '{model}': {_first_line(error)} {_EXPECTED}") from error


def load_tokenizer(
    model: str, trust_remote_code: bool = False, revision: str | None = None
) -> PreTrainedTokenizerBase:
    """The base's tokenizer, padding on the left as generation needs it."""
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            model_path(model),
            padding_side="left",
            truncation_side="left",
            trust_remote_code=trust_remote_code,
            revision=revision or "main",
        )
    except (OSError, ValueError) as error:
        raise InputError(
            f"The tokenizer of '{model}' cannot be loaded: {_first_line(error)} {_EXPECTED}"
        ) from error
    return tokenizer


_EXPECTED = f"Give a Hub id, a local folder, or '{EMBEDDED}'."


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
