"""Attention of our own, registered with transformers: that of `sdpa`, with two ways that are quicker where they fit.

- Rows in one line: a forward may bring an arrangement of its tokens (`line`), which then attends by itself; no mask is
  made for it.
- One new token for each row, on a CPU: query heads that share keys ask together. `sdpa` copies keys and values once for
  each of them at every token, and for a small base that is a good part of sampling.

Everything else is `sdpa` to the last bit.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "agon"
# Decoders that hand every keyword on to their attention, and have no other way from one token to the next.
FAMILIES = ("qwen2", "qwen3", "llama")

# Query, key and value, each [rows, heads, tokens, size].
States = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Arrangement(Protocol):
    """Tokens of several rows in one line."""

    def attend(self, module: nn.Module, states: States, rest: dict[str, Any]) -> torch.Tensor:
        """What each token of the line attends to, as [1, tokens, heads, size]."""


class _Forward(threading.local):
    """Whether this thread makes a forward without masks: transformers would make one of the positions of a line."""

    without_masks = False


_forward = _Forward()


def attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    line: Arrangement | None = None,
    **rest: Any,
) -> tuple[torch.Tensor, None]:
    if line is not None:
        return line.attend(module, (query, key, value), rest), None
    groups = int(getattr(module, "num_key_value_groups", 1))
    if query.shape[2] == 1 and groups > 1 and query.device.type == "cpu" and not module.training:
        return _one_token(query, key, value, attention_mask, groups, rest.get("scaling")), None
    return sdpa_attention_forward(module, query, key, value, attention_mask, **rest)


def _one_token(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    groups: int,
    scaling: float | None,
) -> torch.Tensor:
    """The heads of a group as so many tokens of one head; a new token sees everything that its row's mask leaves."""
    rows, heads, _, size = query.shape
    attended = nn.functional.scaled_dot_product_attention(
        query.view(rows, heads // groups, groups, size), key, value, attn_mask=mask, scale=scaling
    )
    return attended.reshape(rows, 1, heads, size)


def _mask(*args: Any, **kwargs: Any) -> torch.Tensor | None:
    return None if _forward.without_masks else sdpa_mask(*args, **kwargs)


AttentionInterface.register(ATTENTION, attention)
AttentionMaskInterface.register(ATTENTION, _mask)


def use_own_attention(model: PreTrainedModel) -> bool:
    """Let a model attend by `attention`, if its kind is one that can; whether it is.

    Only for decoders whose layers all attend to everything before them: a sliding window or a recurrent layer would
    need to know of the rows of a line too.
    """
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    plain = config.model_type in FAMILIES and kinds == {"full_attention"}
    if not plain or config._attn_implementation not in ("sdpa", ATTENTION):
        return False
    if config._attn_implementation != ATTENTION:
        model.set_attn_implementation(ATTENTION)
    return True


@contextmanager
def without_masks() -> Iterator[None]:
    """Within this block this thread makes no attention mask: for a forward with a line."""
    _forward.without_masks = True
    try:
        yield
    finally:
        _forward.without_masks = False
