"""Rows without padding: the tokens of a micro-batch in one line, each row attending to itself alone.

Padded rows cost the arithmetic of their padding, and their attention mask shuts out the fast kernels. Here the
rows are laid one after another, and attention runs within each row with a causal kernel, which needs no mask.
It is registered with transformers as an attention of its own; without row lengths it is the usual one, so
sampling is not touched.

It pays for long rows. On an H200 (benchmarks/packing.py) a pass over pairs of rows of 6,100 tokens took 0.67
of the padded one's time for Qwen3-4B and 0.82 for 0.6B, in 0.91 and 0.83 of its memory; over 16 rows of 200
tokens it took 1.01 to 1.11 of the time. So short rows stay padded, and `padding_free` asks for it.

Only for decoders whose layers all attend to everything before them: a sliding window or a recurrent layer
would need to know of the rows too. Others keep their padding.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

try:
    from torch.nn.attention import varlen
except ImportError:  # before torch 2.10
    varlen = None  # type: ignore[assignment]

ATTENTION = "agon_packed"
# Decoders that hand every keyword on to their attention, and have no other way from one token to the next.
FAMILIES = ("qwen2", "qwen3", "llama")
# Tokens of a row on average from which on packing pays, and the most rows that have a kernel each.
LONG_ROWS, FEW_ROWS = 1024, 4


class _Forward:
    """Whether a packed forward is under way: transformers would make a mask of block-shaped attention for it."""

    packed = False


def attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    row_lengths: Sequence[int] | None = None,
    **rest: Any,
) -> tuple[torch.Tensor, None]:
    """Attention within each row of one packed line; without `row_lengths`, that of `sdpa`."""
    if row_lengths is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **rest)
    dtype = _compute_dtype(query)
    many = len(row_lengths) > FEW_ROWS
    if many and varlen is not None and query.is_cuda and dtype in (torch.bfloat16, torch.float16):
        return _one_kernel(module, (query, key, value), row_lengths, dtype, rest.get("scaling")), None
    queries, keys, values = (states.split(list(row_lengths), dim=2) for states in (query, key, value))
    attended = [
        sdpa_attention_forward(module, *row, attention_mask=None, **rest)[0]
        for row in zip(queries, keys, values, strict=True)
    ]
    return torch.cat(attended, dim=1), None


def _compute_dtype(states: torch.Tensor) -> torch.dtype:
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else states.dtype


def _one_kernel(
    module: nn.Module,
    states: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    row_lengths: Sequence[int],
    dtype: torch.dtype,
    scaling: float | None,
) -> torch.Tensor:
    """All rows at once, by torch's kernel for rows of different lengths.

    A kernel for each of many rows costs more than it saves: 64 of 200 tokens took twice as long on an H200.
    """
    groups = int(getattr(module, "num_key_value_groups", 1))
    query, key, value = states
    line = [
        part[0].transpose(0, 1).to(dtype)
        for part in (query, repeat_kv(key, groups), repeat_kv(value, groups))
    ]
    ends = torch.tensor([0, *accumulate(row_lengths)], dtype=torch.int32, device=query.device)
    longest = max(row_lengths)
    attend: Any = varlen.varlen_attn
    attended: torch.Tensor = attend(*line, ends, ends, longest, longest, scale=scaling, window_size=(-1, 0))
    return attended[None]


def _mask(*args: Any, **kwargs: Any) -> torch.Tensor | None:
    return None if _Forward.packed else sdpa_mask(*args, **kwargs)


AttentionInterface.register(ATTENTION, attention)
AttentionMaskInterface.register(ATTENTION, _mask)


def use_packing(model: PreTrainedModel) -> bool:
    """Let a model take packed rows, if it is of a kind that can; whether it is."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    plain = config.model_type in FAMILIES and kinds == {"full_attention"}
    if not plain or config._attn_implementation not in ("sdpa", ATTENTION):
        return False
    model.set_attn_implementation(ATTENTION)
    return True


def worth_packing(mask: torch.Tensor) -> bool:
    """Whether the rows are long enough."""
    return long_enough(int(mask.sum()), len(mask))


def long_enough(tokens: int, rows: int) -> bool:
    """Whether rows with so many tokens in all are laid one after another where the model can."""
    return tokens >= LONG_ROWS * rows


@contextmanager
def _packed() -> Iterator[None]:
    _Forward.packed = True
    try:
        yield
    finally:
        _Forward.packed = False


def packed_logps(
    model: nn.Module, ids: torch.Tensor, mask: torch.Tensor, completion: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probs and entropies of the last `completion` columns of padded rows, computed without the padding.

    `model` has TRL's fused head, which scores the labelled tokens only. What is padding comes back as zero.
    """
    real = mask.bool()
    labels = ids.clone()
    labels[:, :-completion] = -100
    with _packed():
        outputs = model(
            input_ids=ids[real][None],
            attention_mask=None,
            position_ids=(real.cumsum(1) - 1)[real][None],
            labels=labels[real][None],
            fused_lm_head=True,
            row_lengths=tuple(real.sum(1).tolist()),
        )

    def in_rows(values: torch.Tensor) -> torch.Tensor:
        # The first token of the line, of a prompt like that of every row, has no log-prob.
        values = nn.functional.pad(values, (1, 0))
        return values.new_zeros(ids.shape).masked_scatter(real, values)[:, -completion:]

    entropy = outputs.entropy
    return in_rows(outputs.log_probs), None if entropy is None else in_rows(entropy)
