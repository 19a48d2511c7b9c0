"""Rows without padding: the tokens of a micro-batch in one line, each row attending to itself alone.

Padded rows cost the arithmetic of their padding, and their attention mask shuts out the fast kernels. Here the
rows are laid one after another, and attention runs within each row: by one kernel for rows of different lengths where
torch has it (a GPU in 16 bits), else with rows filled up for attention alone if they are many and short, else by a
causal kernel for each (`agon.policies.attention` is how a model gets there).

Rows of one group begin with the same prompt. What a row has in common with the rows just before it (of the same
policy) is not laid down again: its tokens attend to those of the first row that has it. The gradient through
these tokens is the sum over all rows, which is what separate copies would have added up to. The last token of a
prompt is always a row's own: it is the one that the first token of the completion is scored from.

On a CPU it pays for nearly all rows (benchmarks/packing.py). On an H200 it pays for long ones: a pass over pairs
of rows of 6,100 tokens took 0.67 of the padded one's time for Qwen3-4B and 0.82 for 0.6B, in 0.91 and 0.83 of its
memory; over 16 rows of 200 tokens it took 1.01 to 1.11 of the time. So short rows stay padded there, unless there are
many and one kernel takes all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from itertools import accumulate
from typing import Any

import torch
from torch import nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from agon.policies.attention import States, without_masks

try:
    from torch.nn.attention import varlen
except ImportError:  # before torch 2.10
    varlen = None  # type: ignore[assignment]

# Tokens of a row on average from which on packing pays anywhere.
LONG_ROWS = 1024
# Tokens of a line from which on it pays for short rows too: on a CPU, and on a GPU where one kernel takes them all.
FULL_LINE = {"cpu": 256, "cuda": 8192}
# The most rows that have a kernel each.
FEW_ROWS = 4
# The longest row of many that are filled up to one length for attention, where no kernel takes rows as they are.
SHORT_ROWS = 512
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

    @cached_property
    def square(self) -> "Square":
        return Square.of(self)

    def attend(self, module: nn.Module, states: States, rest: dict[str, Any]) -> torch.Tensor:
        """Attention within each row."""
        dtype = _compute_dtype(states[0])
        many = len(self.queries) > FEW_ROWS
        at_once = one_kernel(states[0].device, dtype)
        if many and not at_once and max(self.keys) <= SHORT_ROWS:
            return _side_by_side(module, states, self.square, rest)
        query, key, value = states
        if self.key_positions is not None:
            key, value = (each.index_select(2, self.key_positions) for each in (key, value))
        if at_once and (many or self.key_positions is not None):
            return _one_kernel(module, (query, key, value), self, dtype, rest.get("scaling"))
        rows = zip(
            query.split(list(self.queries), dim=2),
            key.split(list(self.keys), dim=2),
            value.split(list(self.keys), dim=2),
            strict=True,
        )
        attended = [
            sdpa_attention_forward(module, *row, attention_mask=_causal(*row[:2]), **rest)[0] for row in rows
        ]
        return torch.cat(attended, dim=1)

    def in_rows(self, values: torch.Tensor) -> torch.Tensor:
        """Values of the line's tokens, the first left out, as the last columns of padded rows."""
        # The first token of the line, of a prompt like that of every row, has no log-prob.
        values = nn.functional.pad(values, (1, 0))
        rows = values.new_zeros(self.kept.shape)
        return rows.masked_scatter(self.kept, values)[:, -self.completion :]


@dataclass(frozen=True)
class Square:
    """Where in a line the tokens of rows are that lie one below the other, each filled up with its last token.

    `own` says where the line's tokens are among the queries. A row's tokens begin on the left, so that what fills it
    up is after everything that its own tokens see; a mask is needed only where rows share what comes before them.
    """

    queries: torch.Tensor
    keys: torch.Tensor
    own: torch.Tensor
    mask: torch.Tensor | None

    @staticmethod
    def of(line: Line) -> "Square":
        device = line.ids.device
        queries, keys = (torch.tensor(each, device=device)[:, None] for each in (line.queries, line.keys))
        columns = [torch.arange(int(each.max()), device=device) for each in (queries, keys)]
        asking, asked = (
            each.cumsum(0) - each + torch.minimum(column, each - 1)
            for each, column in zip((queries, keys), columns, strict=True)
        )
        return Square(
            queries=asking,
            keys=asked if line.key_positions is None else line.key_positions[asked],
            own=(columns[0] < queries).flatten().nonzero()[:, 0],
            mask=None
            if line.key_positions is None
            else (columns[1] <= (keys - queries + columns[0])[..., None])[:, None],
        )


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


def _side_by_side(module: nn.Module, states: States, square: Square, rest: dict[str, Any]) -> torch.Tensor:
    """Many short rows, for attention alone one below the other and filled up; without padding everywhere else."""
    query, key, value = (
        each[0].index_select(1, places.flatten()).unflatten(1, places.shape).transpose(0, 1)
        for each, places in zip(states, (square.queries, square.keys, square.keys), strict=True)
    )
    attended, _ = sdpa_attention_forward(module, query, key, value, attention_mask=square.mask, **rest)
    return attended.flatten(0, 1).index_select(0, square.own)[None]


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
    states: States,
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
    if "enable_gqa" in signature(attend).parameters:  # torch 2.11 does it unasked
        options["enable_gqa"] = groups > 1
    queries, keys, values = (part[0].transpose(0, 1).to(dtype) for part in (query, key, value))
    ends = [
        torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=query.device)
        for lengths in (line.queries, line.keys)
    ]
    attended: torch.Tensor = attend(
        queries, keys, values, *ends, max(line.queries), max(line.keys), **options
    )
    return attended[None]


def one_kernel(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether torch has one kernel for rows of different lengths here: a GPU from Ampere on, in 16 bits."""
    if varlen is None or device.type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)


def worth_packing(mask: torch.Tensor) -> bool:
    """Whether rows are long enough, or so many that short ones are worth it too."""
    return long_enough(int(mask.sum()), len(mask), mask.device.type)


def long_enough(tokens: int, rows: int, device: str) -> bool:
    """Whether so many rows with so many tokens in all are laid one after another where the model can."""
    full = device in FULL_LINE and tokens >= FULL_LINE[device] and (device == "cpu" or varlen is not None)
    return full or tokens >= LONG_ROWS * rows


def packed_logps(model: nn.Module, line: Line) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probs and entropies of the completions of padded rows, computed without the padding.

    `model` has TRL's fused head, which scores the labelled tokens only. What is padding comes back as zero.
    """
    with without_masks():
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
