"""How the rows of a round go through the model: by a budget of tokens, and of both policies at once.

TRL's micro-batches have so many rows, and ours hold one policy each (`agon.train.streams`). Where the options ask for
it, the rows of an optimizer step are divided otherwise, into passes:

- `micro_batch_tokens`: rows of like length together, as many as a budget of tokens (padding counted) takes, instead of
  a number of rows; where rows are laid in one line, those of one group together, which share the prompt;
- `both_policies_at_once`: rows of both policies in one pass, each under its own adapter.

The Trainer still counts micro-steps; each makes its share of the step's passes, some none. Weights are those of
`streams`, so gradients are the same however rows are divided; a loss that averages over micro-batches is refused.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch

from agon.train.packing import common_prompts
from agon.train.streams import Batch, RowCounts, Stream, count_rows, micro_batches

# A pass: one micro-batch, or one of each stream, which the model then takes together.
Pass = list[Batch]


@dataclass(frozen=True)
class Division:
    """How a round's rows are divided: `micro_steps` of the Trainer in `windows`, which are optimizer steps."""

    micro_steps: int
    windows: int
    loss: str
    tokens: int | None = None  # of a pass, padding counted
    rows: int = 1  # of a pass, where there is no budget of tokens
    together: bool = False
    # Whether so many tokens of so many rows are laid in one line, without padding; None: never.
    packs: Callable[[int, int], bool] | None = None


@dataclass(frozen=True)
class _Row:
    stream: int
    number: int
    prompt: int
    completion: int
    # What the prompts of the rows of a stream have in common, each with the one before it.
    common: Sequence[int] = field(repr=False, compare=False)

    @property
    def length(self) -> int:
        return self.prompt + self.completion


def lay_out(streams: Sequence[Stream], batches: Sequence[Batch], division: Division) -> list[Batch]:
    """The passes of each micro-step, under the key `passes`."""
    windows: list[list[list[_Row]]] = [[] for _ in range(division.windows)]
    drawn = [_by_window(index, stream, batches[index], division) for index, stream in enumerate(streams)]
    for number, passes in enumerate(windows):
        rows = [stream[number] for stream in drawn]
        if division.together:
            passes += _cut([row for each in rows for row in each], division)
        else:
            passes += _alternate([_cut(each, division) for each in rows])
    filled = _fill(streams, batches, [each for passes in windows for each in passes], division)
    steps = division.micro_steps // division.windows
    found: list[Batch] = []
    for passes in windows:
        own = [next(filled) for _ in passes]
        # Those without a pass come first, so that the last micro-step of a window has one if any has.
        starts = [len(own) * step // steps for step in range(steps + 1)]
        found += [{"passes": own[start:end]} for start, end in pairwise(starts)]
    return found


def _by_window(index: int, stream: Stream, batch: Batch, division: Division) -> list[list[_Row]]:
    """The rows of a stream that are kept, by the optimizer step into which chance puts them."""
    prompts, completions = (batch[f"{part}_mask"].sum(1).tolist() for part in ("prompt", "completion"))
    kept = stream.kept()
    common = common_prompts(batch["prompt_ids"], batch["prompt_mask"])
    order = torch.tensor(kept, dtype=torch.long)[torch.randperm(len(kept))]
    return [
        [_Row(index, row, prompts[row], completions[row], common) for row in window.tolist()]
        for window in torch.tensor_split(order, division.windows)
    ]


def _cut(rows: list[_Row], division: Division) -> list[list[_Row]]:
    """As many rows as fit: those of like length together, or in a line those of one group."""
    total = sum(row.length for row in rows)
    if division.packs is not None and division.packs(total, len(rows)):
        rows = sorted(rows, key=lambda row: (row.stream, row.number))
    else:
        rows = sorted(rows, key=lambda row: (row.length, row.stream, row.number))
    found: list[list[_Row]] = []
    for row in rows:
        if found and _fits([*found[-1], row], division):
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _fits(rows: Sequence[_Row], division: Division) -> bool:
    if division.tokens is None:
        return len(rows) <= division.rows
    total = sum(row.length for row in rows) - sum(_shared(*pair) for pair in pairwise(rows))
    if division.packs is not None and division.packs(total, len(rows)):
        return total <= division.tokens
    width = max(row.prompt for row in rows) + max(row.completion for row in rows)
    return len(rows) * width <= division.tokens


def _shared(before: _Row, row: _Row) -> int:
    """The tokens that a row need not lay down again after the one before it."""
    if before.stream != row.stream or before.number >= row.number:
        return 0
    return min(row.common[before.number + 1 : row.number + 1])


def _alternate(streams: Sequence[Sequence[list[_Row]]]) -> list[list[_Row]]:
    longest = max(map(len, streams), default=0)
    return [each[index] for index in range(longest) for each in streams if index < len(each)]


def _fill(
    streams: Sequence[Stream], batches: Sequence[Batch], passes: Sequence[Sequence[_Row]], division: Division
) -> Iterator[Pass]:
    """Passes with their tensors and weights, in order."""
    parts = [
        [_numbers(each, index) for each in passes if any(row.stream == index for row in each)]
        for index in range(len(streams))
    ]
    counts: dict[str, RowCounts] = defaultdict(RowCounts)
    for stream, batch, own in zip(streams, batches, parts, strict=True):
        if own:
            counts[stream.policy] += count_rows(batch, own)
    made = [
        iter(
            micro_batches(
                batch,
                own,
                [len(part) for part in own],
                stream,
                counts[stream.policy],
                division.micro_steps,
                division.loss,
            )
        )
        for stream, batch, own in zip(streams, batches, parts, strict=True)
    ]
    return iter([[next(made[index]) for index in sorted({row.stream for row in each})] for each in passes])


def _numbers(rows: Sequence[_Row], stream: int) -> torch.Tensor:
    return torch.tensor([row.number for row in rows if row.stream == stream], dtype=torch.long)


def join(batches: Sequence[Batch]) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Ids, mask and width of completions of several micro-batches as one, prompts aligned at their end."""
    prompt = max(batch["prompt_ids"].shape[1] for batch in batches)
    completion = max(batch["completion_ids"].shape[1] for batch in batches)

    def rows(name: str) -> torch.Tensor:
        return torch.cat(
            [
                torch.nn.functional.pad(
                    torch.cat([batch[f"prompt_{name}"], batch[f"completion_{name}"]], 1),
                    (
                        prompt - batch["prompt_ids"].shape[1],
                        completion - batch["completion_ids"].shape[1],
                    ),
                )
                for batch in batches
            ]
        )

    return rows("ids"), rows("mask"), completion
