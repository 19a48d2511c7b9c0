"""What happens between the rows of a dataset and its splits, with a count of all that is left out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agon.game.problem import Problem
from agon.tasks.filters import overlapping, repeated
from agon.tasks.splits import SPLITS, divide, scaled_sizes

DUPLICATE = "duplicate"
SPARE = "not needed: the splits are full"


@dataclass
class Sieve:
    """Leaves problems out and remembers how many for which reason."""

    ngram: int
    dropped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def unique(self, problems: Sequence[Problem]) -> list[Problem]:
        """Each statement once."""
        return self._without(problems, repeated(problems), DUPLICATE)

    def apart(self, problems: Sequence[Problem], texts: Iterable[str], what: str) -> list[Problem]:
        """The problems that share no n-gram with the texts."""
        reason = f"shares {self.ngram} tokens in a row with {what}"
        return self._without(problems, overlapping(problems, texts, self.ngram), reason)

    def cut(self, problems: Sequence[Problem], size: int | None) -> list[Problem]:
        """The first `size` problems, or all of them."""
        kept = problems if size is None else problems[:size]
        return self._count(SPARE, len(problems) - len(kept), kept)

    def divided(self, pool: Sequence[Problem], wanted: Mapping[str, int | None]) -> dict[str, list[Problem]]:
        """An ordered pool in splits; what overlaps a split nearer to test leaves its own."""
        sizes = scaled_sizes(len(pool), wanted)
        if any(sizes[split] < (size or 0) for split, size in wanted.items()):
            asked = ", ".join(f"{split} {size}" for split, size in wanted.items() if size is not None)
            self.notes.append(
                f"{len(pool)} problems are too few for {asked}: sizes are shrunk in proportion."
            )
        # Training problems are separated before they are counted off, so that none is missed.
        generous = {split: len(pool) if split == "train" else size for split, size in sizes.items()}
        parts = self.separated(divide(pool, generous))
        if "train" in parts:
            parts["train"] = self.cut(parts["train"], sizes["train"])
        return parts

    def separated(self, parts: Mapping[str, Sequence[Problem]]) -> dict[str, list[Problem]]:
        """Splits without overlap: test is left whole, validation gives way to it, training to both."""
        test = [problem.prompt for problem in parts.get("test", ())]
        validation = self.apart(parts.get("validation", ()), test, "its own test split")
        held_out = [*test, *(problem.prompt for problem in validation)]
        train = self.apart(parts.get("train", ()), held_out, "its own held-out splits")
        clean = {"train": train, "validation": validation, "test": list(parts.get("test", ()))}
        return {split: clean[split] for split in SPLITS if split in parts}

    def _without(self, problems: Sequence[Problem], out: Sequence[Problem], reason: str) -> list[Problem]:
        gone = {id(problem) for problem in out}
        return self._count(reason, len(out), [problem for problem in problems if id(problem) not in gone])

    def _count(self, reason: str, number: int, kept: Sequence[Problem]) -> list[Problem]:
        if number:
            self.dropped[reason] += number
        return list(kept)
