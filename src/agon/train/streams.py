"""From duels to micro-batches: which rows feed which policy, and with what weight.

A round's rollouts form one or two streams, drafts and challenges, each scored by TRL on its own.
Groups without reward variance are dropped here, in every method alike: their rows leave the batch,
and the denominators count what is left. A micro-batch holds rows of one policy only, and those of
the two streams alternate, so that every accumulation window feeds both policies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from agon.game.advantages import has_signal
from agon.game.duel import Duel, Entry
from agon.game.methods import Method

Batch = dict[str, Any]


@dataclass(frozen=True)
class Stream:
    """One stream of a round: its rows, problem by problem, and the policy that wrote them."""

    name: str
    policy: str
    group: int
    entries: Sequence[Entry]

    def kept(self) -> list[int]:
        """The rows of groups whose rewards differ."""
        rows: list[int] = []
        for start in range(0, len(self.entries), self.group):
            members = range(start, start + self.group)
            if has_signal([self.entries[row].reward for row in members]):
                rows += members
        return rows


def streams_of(duels: Sequence[Sequence[Duel]], method: Method) -> list[Stream]:
    """The streams of a round: drafts, and challenges where the method has them."""
    drafts = [duel.draft for group in duels for duel in group]
    found = [Stream("draft", drafts[0].rollout.policy, len(duels[0]), drafts)]
    if method.challenges:
        challenges = [duel.challenge for group in duels for duel in group if duel.challenge is not None]
        found.append(Stream("challenge", challenges[0].rollout.policy, len(duels[0]), challenges))
    return found


@dataclass(frozen=True)
class Fed:
    """What one policy is fed in a round, over all processes."""

    rows: int = 0
    tokens: int = 0
    micro_batches: int = 0  # those that hold a row at all

    def __add__(self, other: "Fed") -> "Fed":
        return Fed(
            self.rows + other.rows, self.tokens + other.tokens, self.micro_batches + other.micro_batches
        )


def split_rows(rows: Sequence[int], parts: int) -> list[torch.Tensor]:
    """The rows in random order, in so many parts of nearly equal size (some may be empty)."""
    order = torch.tensor(rows, dtype=torch.long)[torch.randperm(len(rows))]
    return list(torch.tensor_split(order, parts))


def count_fed(batch: Batch, parts: Sequence[torch.Tensor]) -> Fed:
    """What this process feeds a policy from one stream."""
    mask = loss_mask(batch)
    rows = torch.cat(list(parts)).to(mask.device)
    return Fed(len(rows), int(mask[rows].sum()), sum(len(part) > 0 for part in parts))


def loss_mask(batch: Mapping[str, Any]) -> torch.Tensor:
    """The tokens that a batch's loss counts."""
    mask: torch.Tensor = batch["completion_mask"]
    return mask * batch["tool_mask"] if "tool_mask" in batch else mask


def micro_batches(
    batch: Batch,
    parts: Sequence[torch.Tensor],
    sizes: Sequence[int],
    stream: Stream,
    fed: Fed,
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
    items = torch.as_tensor(float(fed.tokens), device=batch["completion_mask"].device)
    return [
        {
            **_take(batch, part, max(size, 1)),
            "num_items_in_batch": items,
            "policy": stream.policy,
            "stream": stream.name,
            "weight": _weight(size, fed, micro_batches, loss),
        }
        for part, size in zip(parts, sizes, strict=True)
    ]


def _weight(rows: int, fed: Fed, micro_batches: int, loss: str) -> float:
    if rows == 0:
        return 0.0
    if loss in ("dapo", "cispo", "vespo"):
        return 1.0
    if loss == "bnpo":  # the mean of each micro-batch's token mean
        return micro_batches / fed.micro_batches
    return rows * micro_batches / fed.rows


def _take(batch: Batch, rows: torch.Tensor, size: int) -> Batch:
    """Some rows of a batch, and masked ones up to `size`: every process runs every forward alike."""
    missing = size - len(rows)
    chosen = torch.cat([rows, torch.zeros(missing, dtype=torch.long)])
    taken = {
        key: value[chosen.to(value.device)] if isinstance(value, torch.Tensor) and value.dim() else value
        for key, value in batch.items()
    }
    for name in ("completion_mask", "advantages"):
        taken[name][len(rows) :] = 0
    return taken


def interleave(streams: Sequence[Sequence[Batch]]) -> list[Batch]:
    """D, C, D, C, …: every accumulation window feeds both policies."""
    return [batch for window in zip(*streams, strict=True) for batch in window]
