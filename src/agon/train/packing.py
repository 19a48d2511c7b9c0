"""Rows without padding: the tokens of a micro-batch in one line, each row attending to itself alone.

Padded rows cost the arithmetic of their padding, and their attention mask shuts out the fast kernels. Here the
rows are laid one after another, and attention runs within each row with a causal kernel, which needs no mask.
It is registered with transformers as an attention of its own; without a line it is the usual one, so sampling
is not touched.

Rows of one group begin with the same prompt. What a row has in common with the rows just before it (of the same
policy) is not laid down again: its tokens attend to those of the first row that has it. The gradient through
these tokens is the sum over all rows, which is what separate copies would have added up to. The last token of a
prompt is always a row's own: it is the one that the first token of the completion is scored from.

It pays for long rows. On an H200 (benchmarks/packing.py) a pass over pairs of rows of 6,100 tokens took 0.67
of the padded one's time for Qwen3-4B and 0.82 for 0.6B, in 0.91 and 0.83 of its memory; over 16 rows of 200
tokens it took 1.01 to 1.11 of the time. So short rows stay padded, unless there are many on a GPU that has one
kernel for all of them; and `padding_free` asks for it.

Only for decoders whose layers all attend to everything before them: a sliding window or a recurrent layer
would need to know of the rows too. Others keep their padding.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
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
# Tokens of a row on average from which on packing pays, the tokens of a line from which on it pays for short rows
# too where one kernel takes them all, and the most rows that have a kernel each.
LONG_ROWS, FULL_LINE, FEW_ROWS = 1024, 8192, 4
# The shortest common beginning that is worth sharing.
WORTH_SHARING = 8


@dataclass(frozen=True)
class Line:
    """Padded rows as one line of tokens.

    `kept` marks the tokens of the padded rows that are in the line, row by row; `queries` counts them for each row.
    `keys` counts the tokens that a row attends to, its own and those that it shares, and `key_positions` says where
    in the line they are, row by row (None where nothing is shared: each row attends to its own).
    """

    ids: torch.Tensor
    positions: torch.Tensor
    labels: torch.Tensor
    kept: torch.Tensor
    completion: int
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    key_positions: torch.Tensor | None

    @staticmethod
    def of(
        ids: torch.Tensor, mask: torch.Tensor, completion: int, policies: torch.Tensor | None = None
    ) -> "Line":
        """Rows with their prompts padded on the left and completions on the right; `policies`: the number of each
        row's, if there are several."""
        real = mask.bool()
        positions = real.cumsum(1) - 1
        sources = _sources(common_prompts(ids[:, :-completion], mask[:, :-completion]), policies)
        shared = torch.tensor([count for _, count in sources], device=ids.device)
        kept = real & (positions >= shared[:, None])
        labels = ids.clone()
        labels[:, :-completion] = -100
        queries, keys = (tuple(each.sum(1).tolist()) for each in (kept, real))
        return Line(
            ids=ids[kept][None],
            positions=positions[kept][None],
            labels=labels[kept][None],
            kept=kept,
            completion=completion,
            queries=queries,
            keys=keys,
            key_positions=_key_positions(sources, queries).to(ids.device) if queries != keys else None,
        )

    def in_rows(self, values: torch.Tensor) -> torch.Tensor:
        """Values of the line's tokens, the first left out, as the last columns of padded rows."""
        # The first token of the line, of a prompt like that of every row, has no log-prob.
        values = nn.functional.pad(values, (1, 0))
        rows = values.new_zeros(self.kept.shape)
        return rows.masked_scatter(self.kept, values)[:, -self.completion :]


def common_prompts(ids: torch.Tensor, mask: torch.Tensor) -> list[int]:
    """How many tokens each prompt, padded on the left, begins with that the one before it begins with too.

    The last token of either is not counted.
    """
    width, lengths = ids.shape[1], mask.sum(1)
    columns = torch.arange(width, device=ids.device)
    prompts = ids.gather(1, (columns + (width - lengths)[:, None]).clamp(max=width - 1))
    most = torch.minimum(lengths[1:], lengths[:-1]) - 1
    same = (prompts[1:] == prompts[:-1]) & (columns < most[:, None])
    found: list[int] = same.cumprod(1).sum(1).tolist()
    return [0, *found]


def _sources(common: Sequence[int], policies: torch.Tensor | None) -> list[tuple[int, int]]:
    """For each row the row whose beginning it shares, and how many tokens of it; itself and 0 where none."""
    of_row = policies.flatten().tolist() if policies is not None else [0] * len(common)
    found: list[tuple[int, int]] = []
    first, least = 0, 0
    for row, own in enumerate(common):
        least = min(least, own) if row > first + 1 else own
        if row and least >= WORTH_SHARING and of_row[row] == of_row[first]:
            found.append((first, least))
        else:
            first = row
            found.append((row, 0))
    return found


def _key_positions(sources: Sequence[tuple[int, int]], queries: Sequence[int]) -> torch.Tensor:
    starts = [0, *accumulate(queries)]
    parts = []
    for row, (source, shared) in enumerate(sources):
        parts += [torch.arange(starts[source], starts[source] + shared)] if shared else []
        parts.append(torch.arange(starts[row], starts[row + 1]))
    return torch.cat(parts)


class _Forward:
    """Whether a packed forward is under way: transformers would make a mask of block-shaped attention for it."""

    packed = False


def attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    line: Line | None = None,
    **rest: Any,
) -> tuple[torch.Tensor, None]:
    """Attention within each row of one packed line; without a line, that of `sdpa`."""
    if line is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **rest)
    dtype = _compute_dtype(query)
    if line.key_positions is not None:
        key, value = (states.index_select(2, line.key_positions) for states in (key, value))
    many = len(line.queries) > FEW_ROWS or line.key_positions is not None
    if many and varlen is not None and query.is_cuda and dtype in (torch.bfloat16, torch.float16):
        return _one_kernel(module, (query, key, value), line, dtype, rest.get("scaling")), None
    attended = [
        sdpa_attention_forward(module, *row, attention_mask=_causal(*row[:2]), **rest)[0]
        for row in zip(
            query.split(list(line.queries), dim=2),
            key.split(list(line.keys), dim=2),
            value.split(list(line.keys), dim=2),
            strict=True,
        )
    ]
    return torch.cat(attended, dim=1), None


def _causal(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor | None:
    """The mask of a row whose first tokens are not its own; a whole row needs none."""
    queries, keys = query.shape[2], key.shape[2]
    if queries == keys:
        return None
    seen = torch.ones(queries, keys, dtype=torch.bool, device=query.device).tril(keys - queries)
    return seen[None, None]


def _compute_dtype(states: torch.Tensor) -> torch.dtype:
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else states.dtype


def _one_kernel(
    module: nn.Module,
    states: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    line: Line,
    dtype: torch.dtype,
    scaling: float | None,
) -> torch.Tensor:
    """All rows at once, by torch's kernel for rows of different lengths, which aligns queries with the last keys.

    A kernel for each of many rows costs more than it saves: 64 of 200 tokens took twice as long on an H200.
    """
    attend: Any = varlen.varlen_attn
    groups = int(getattr(module, "num_key_value_groups", 1))
    query, key, value = states
    options: dict[str, Any] = {"scale": scaling, "window_size": (-1, 0)}
    if "enable_gqa" in signature(attend).parameters:
        options["enable_gqa"] = groups > 1
    else:  # older torch
        key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    queries, keys, values = (part[0].transpose(0, 1).to(dtype) for part in (query, key, value))
    ends = [
        torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=query.device)
        for lengths in (line.queries, line.keys)
    ]
    attended: torch.Tensor = attend(
        queries, keys, values, *ends, max(line.queries), max(line.keys), **options
    )
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
    """Whether rows are long enough, or many enough on a GPU."""
    return long_enough(int(mask.sum()), len(mask), mask.device.type)


def long_enough(tokens: int, rows: int, device: str) -> bool:
    """Whether so many rows with so many tokens in all are laid one after another where the model can."""
    full = device == "cuda" and varlen is not None and tokens >= FULL_LINE
    return full or tokens >= LONG_ROWS * rows


@contextmanager
def _packed() -> Iterator[None]:
    _Forward.packed = True
    try:
        yield
    finally:
        _Forward.packed = False


def packed_logps(model: nn.Module, line: Line) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probs and entropies of the completions of padded rows, computed without the padding.

    `model` has TRL's fused head, which scores the labelled tokens only. What is padding comes back as zero.
    """
    with _packed():
        outputs = model(
            input_ids=line.ids,
            attention_mask=None,
            position_ids=line.positions,
            labels=line.labels,
            fused_lm_head=True,
            line=line,
        )
    entropy = outputs.entropy
    return line.in_rows(outputs.log_probs), None if entropy is None else line.in_rows(entropy)
