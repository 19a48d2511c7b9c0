"""The rows that the Trainer's data loader hands out: which problems a round has.

TRL hands out the rows of the whole round in every micro-step, and uses them in the first. So a round of 512 rows in 64
micro-steps is fetched 64 times: rows must cost nothing.
"""

from collections.abc import Iterator, Sequence

from torch.utils.data import Dataset

Row = dict[str, int]


class RoundRows:
    """The rows of a round as one thing: accelerate and torch look into every element of a list."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __getitem__(self, which: slice) -> Sequence[Row]:
        return self._rows[which]


Rows = RoundRows | Sequence[Row]


class ProblemRows(Dataset[Row]):
    """A row for every problem, with its index."""

    def __init__(self, problems: int) -> None:
        self._rows = [{"index": index} for index in range(problems)]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Row:
        return self._rows[index]

    def __getitems__(self, indices: Sequence[int]) -> list[Row]:
        return [self._rows[index] for index in indices]
