"""From duels to micro-batches: which rows feed which policy, and with what weight.

A round's rollouts form one or two streams, drafts and challenges, each scored by TRL on its own.
Groups without reward variance are dropped here, in every method alike: their rows leave the batch,
and the denominators count what is left. A micro-batch holds rows of one policy only, and those of
the two streams alternate, so that every accumulation window feeds both policies.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from agon.game.advantages import Scale, has_signal
from agon.game.duel import Duel, Entry
from agon.game.methods import Method
from agon.game.paired import challenge_values, paired_advantages

Batch = dict[str, Any]
# These losses divide by the tokens of the generation batch; all others by accumulation steps.
PER_TOKEN_LOSSES = ("dapo", "cispo", "vespo")


@dataclass(frozen=True)
class Stream:
    """One stream of a round: its rows, problem by problem, and the policy that they feed.

    `values` are what tells the rows of a group apart where that is not what they earned.
    """

    name: str
    policy: str
    group: int
    entries: Sequence[Entry]
    values: Sequence[float] | None = None

    def kept(self) -> list[int]:
        """The rows of groups whose rewards (or values) differ."""
        rows: list[int] = []
        for members in self.groups():
            if has_signal([self.values[row] if self.values else self.entries[row].reward for row in members]):
                rows += members
        return rows

    def groups(self) -> list[range]:
        """The rows of each group."""
        return [range(start, start + self.group) for start in range(0, len(self.entries), self.group)]


def streams_of(duels: Sequence[Sequence[Duel]], method: Method) -> list[Stream]:
    """The streams of a round: drafts, and challenges where the method has them."""
    drafts = [duel.draft for group in duels for duel in group]
    found = [Stream("draft", drafts[0].rollout.policy, len(duels[0]), drafts)]
    if method.challenges:
        challenges = [duel.challenge for group in duels for duel in group if duel.challenge is not None]
        values = [value for group in duels for value in challenge_values(group, method)]
        found.append(
            Stream(
                "challenge",
                challenges[0].rollout.policy,
                len(duels[0]),
                challenges,
                values if method.advantage == "paired" else None,
            )
        )
    return found


def with_values(stream: Stream, batch: Batch, scale: str) -> Batch:
    """The batch with the advantages of its stream's values, where it has any; TRL's otherwise."""
    if stream.values is None:
        return batch
    unit: Scale = "none" if scale == "none" else "group"
    found = [
        advantage
        for rows in stream.groups()
        for advantage in paired_advantages([stream.values[row] for row in rows], unit)
    ]
    return {**batch, "advantages": batch["advantages"].new_tensor(found)}


@dataclass(frozen=True)
class RowCounts:
    """How much one policy is trained on in a round, over all processes."""

    rows: int = 0
    tokens: int = 0
    micro_batches: int = 0  # those that hold a row at all

    def __add__(self, other: "RowCounts") -> "RowCounts":
        return RowCounts(
            self.rows + other.rows, self.tokens + other.tokens, self.micro_batches + other.micro_batches
        )


def split_rows(
    rows: Sequence[int], lengths: torch.Tensor, parts: int, windows: int, in_lines: bool = False
) -> list[torch.Tensor]:
    """The rows in so many parts of nearly equal size (some may be empty), like lengths together.

    Chance decides which of the round's `windows` (optimizer steps) a row falls into, so that none has
    only short ones; within a window the rows are sorted, so that little of a micro-batch is padding.
    In lines nothing is padding, and rows of one group come together, which share their prompt.
    """
    order = torch.tensor(rows, dtype=torch.long)[torch.randperm(len(rows))]
    by = torch.arange(len(lengths)) if in_lines else lengths
    return [
        part
        for window in torch.tensor_split(order, windows)
        for part in torch.tensor_split(window[by[window].argsort(stable=True)], parts // windows)
    ]


def lengths_of(batch: Batch) -> torch.Tensor:
    """The tokens of each row, prompt and completion."""
    total: torch.Tensor = batch["prompt_mask"].sum(1) + batch["completion_mask"].sum(1)
    return total.cpu()


def count_rows(batch: Batch, parts: Sequence[torch.Tensor]) -> RowCounts:
    """How much this process trains a policy on from one stream."""
    mask = loss_mask(batch)
    rows = torch.cat(list(parts)).to(mask.device)
    return RowCounts(len(rows), int(mask[rows].sum()), sum(len(part) > 0 for part in parts))


def loss_mask(batch: Mapping[str, Any]) -> torch.Tensor:
    """The tokens that a batch's loss counts."""
    mask: torch.Tensor = batch["completion_mask"]
    return mask * batch["tool_mask"] if "tool_mask" in batch else mask


def micro_batches(
    batch: Batch,
    parts: Sequence[torch.Tensor],
    sizes: Sequence[int],
    stream: Stream,
    counts: RowCounts,
    micro_batches: int,
    loss: str,
) -> list[Batch]:
    """A stream's micro-batches, each with the weight its loss is multiplied by.

    TRL averages a micro-batch over its rows and divides by the window's micro-batches, or divides by
    the tokens of the generation batch. `micro_batches` counts those of all processes in one round.
    With the weights below, a policy's gradient is the mean over all the rows (or tokens) that feed
    it, whatever was dropped and however many micro-batches belong to the other policy. `sizes` are
    the rows of the largest process: the others fill up with masked rows, as TRL gathers row by row.
    """
    items = torch.as_tensor(float(counts.tokens), device=batch["completion_mask"].device)
    return [
        {
            **take_rows(batch, part, max(size, 1)),
            "num_items_in_batch": items,
            "policy": stream.policy,
            "stream": stream.name,
            "weight": _weight(size, counts, micro_batches, loss),
        }
        for part, size in zip(parts, sizes, strict=True)
    ]


def _weight(rows: int, counts: RowCounts, micro_batches: int, loss: str) -> float:
    if rows == 0:
        return 0.0
    if loss in PER_TOKEN_LOSSES:
        return 1.0
    if loss == "bnpo":  # the mean of each micro-batch's token mean
        return micro_batches / counts.micro_batches
    return rows * micro_batches / counts.rows


def take_rows(batch: Batch, rows: torch.Tensor, size: int) -> Batch:
    """Some rows of a batch, and masked ones up to `size`: every process runs every forward alike."""
    missing = size - len(rows)
    chosen = torch.cat([rows, torch.zeros(missing, dtype=torch.long)])
    taken = {
        key: value[chosen.to(value.device)] if isinstance(value, torch.Tensor) and value.dim() else value
        for key, value in batch.items()
    }
    for name in ("completion_mask", "advantages"):
        taken[name][len(rows) :] = 0
    return _without_padding(taken)


def _without_padding(batch: Batch) -> Batch:
    """The batch without columns that are padding in every row: prompts' first ones, completions' last ones."""
    whole = batch["completion_mask"].shape[1]
    prompt, completion = _widths(batch["prompt_mask"], batch["completion_mask"])
    cut = {}
    for key, value in batch.items():
        if key in ("prompt_ids", "prompt_mask"):
            cut[key] = value[:, value.shape[1] - prompt :]
        elif isinstance(value, torch.Tensor) and value.dim() == 2 and value.shape[1] == whole:
            cut[key] = value[:, :completion]
        else:
            cut[key] = value
    return cut


def _widths(prompt_mask: torch.Tensor, completion_mask: torch.Tensor) -> tuple[int, int]:
    """The longest prompt and the longest completion, and at least one token of each."""
    longest = torch.stack([prompt_mask.sum(1).max(), completion_mask.sum(1).max()]).clamp(min=1)
    prompt, completion = longest.tolist()
    return int(prompt), int(completion)


def score_in_parts(
    score: Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor],
    ids: torch.Tensor,
    mask: torch.Tensor,
    completion: int,
    parts: Sequence[torch.Tensor],
) -> torch.Tensor:
    """Log-probs of the last `completion` columns, computed part by part without columns of padding.

    `score(ids, mask, completion)` does it for one part; what it leaves out comes back as zero.
    """
    prompt = ids.shape[1] - completion
    found = torch.zeros(len(ids), completion, device=ids.device)
    for part in parts:
        longest, wanted = _widths(mask[part, :prompt], mask[part, prompt:])
        columns = slice(prompt - longest, prompt + wanted)
        logps = score(ids[part, columns], mask[part, columns], wanted)
        found[part, :wanted] = logps.to(found.dtype)
    return found


def parts_by_length(mask: torch.Tensor, rows: int) -> list[torch.Tensor]:
    """So many rows at a time, those of like length together."""
    return list(mask.sum(1).argsort(stable=True).split(rows)) if len(mask) else []


def parts_in_order(mask: torch.Tensor, tokens: int) -> list[torch.Tensor]:
    """Rows as they come, as many at a time as so many tokens take, and at least one."""
    parts: list[list[int]] = []
    room = 0
    for row, length in enumerate(mask.sum(1).tolist()):
        if not parts or length > room:
            parts.append([])
            room = tokens
        parts[-1].append(row)
        room -= length
    return [torch.tensor(part, device=mask.device) for part in parts]


def interleave(streams: Sequence[Sequence[Batch]]) -> list[Batch]:
    """D, C, D, C, …: every accumulation window feeds both policies."""
    return [batch for window in zip(*streams, strict=True) for batch in window]
