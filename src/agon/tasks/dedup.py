"""Duplicates and overlap: what is left out between the rows of a dataset and its splits.

Texts are compared as tokens of lower-cased ASCII words, numbers and operators; other bytes stand for
themselves. No Unicode table is consulted, since those differ from one Python to the next.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agon.game.problem import Domain, Problem
from agon.tasks.splits import SPLITS, divide, scaled_sizes

# How many tokens in a row two problems may not share. Thirteen is customary for mathematics; the
# statements of programs repeat longer boilerplate ("the first line contains one integer t, the number
# of test cases"): at 13 it costs a quarter of 131 CodeContests problems, at 30 two of them.
NGRAM: dict[Domain, int] = {"math": 13, "code": 30}
# A text shorter than an n-gram counts as found inside another if it has at least this many tokens.
SHORTEST = 8

# The reasons that more than one module counts under.
DUPLICATE = "duplicate"
NOT_NEEDED = "not needed: the splits are full"

Gram = tuple[bytes, ...]

_TOKEN = re.compile(rb"[a-z]+|[0-9]+|[\x80-\xff]+|[-+*/=<>^]")


@dataclass
class Selection:
    """Leaves problems out and counts how many for which reason."""

    ngram: int
    dropped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def unique(self, problems: Sequence[Problem]) -> list[Problem]:
        """Each statement once."""
        return self._without(problems, duplicates(problems), DUPLICATE)

    def without_overlap(self, problems: Sequence[Problem], texts: Iterable[str], what: str) -> list[Problem]:
        """The problems that share no n-gram with the texts; `what` names the texts in the reason."""
        reason = f"shares {self.ngram} tokens in a row with {what}"
        return self._without(problems, overlapping(problems, texts, self.ngram), reason)

    def first(self, problems: Sequence[Problem], size: int | None) -> list[Problem]:
        """The first `size` problems, or all of them."""
        kept = problems if size is None else problems[:size]
        return self._count(NOT_NEEDED, len(problems) - len(kept), kept)

    def divided(self, pool: Sequence[Problem], wanted: Mapping[str, int | None]) -> dict[str, list[Problem]]:
        """An ordered pool in splits that do not overlap (see `separated`)."""
        sizes = scaled_sizes(len(pool), wanted)
        if any(sizes[split] < (size or 0) for split, size in wanted.items()):
            asked = ", ".join(f"{split} {size}" for split, size in wanted.items() if size is not None)
            self.notes.append(
                f"{len(pool)} problems are too few for {asked}: sizes are shrunk in proportion."
            )
        # All training problems are separated before the first ones are taken, so that overlap does not
        # leave the split short.
        generous = {split: len(pool) if split == "train" else size for split, size in sizes.items()}
        parts = self.separated(divide(pool, generous))
        if "train" in parts:
            parts["train"] = self.first(parts["train"], sizes["train"])
        return parts

    def separated(self, parts: Mapping[str, Sequence[Problem]]) -> dict[str, list[Problem]]:
        """Splits without overlap: test stays whole, validation loses what is in test, training what is in both."""
        test = [problem.prompt for problem in parts.get("test", ())]
        validation = self.without_overlap(parts.get("validation", ()), test, "its own test split")
        held_out = [*test, *(problem.prompt for problem in validation)]
        train = self.without_overlap(parts.get("train", ()), held_out, "its own held-out splits")
        clean = {"train": train, "validation": validation, "test": list(parts.get("test", ()))}
        return {split: clean[split] for split in SPLITS if split in parts}

    def _without(self, problems: Sequence[Problem], out: Sequence[Problem], reason: str) -> list[Problem]:
        gone = {id(problem) for problem in out}
        return self._count(reason, len(out), [problem for problem in problems if id(problem) not in gone])

    def _count(self, reason: str, number: int, kept: Sequence[Problem]) -> list[Problem]:
        if number:
            self.dropped[reason] += number
        return list(kept)


def tokens(text: str) -> Gram:
    """A text as comparable tokens.

    >>> tokens("Find $x^2$ if X = 3.")
    (b'find', b'x', b'^', b'2', b'if', b'x', b'=', b'3')
    """
    return tuple(_TOKEN.findall(text.encode("utf-8", "surrogatepass").lower()))


def duplicates(problems: Iterable[Problem]) -> list[Problem]:
    """The problems whose statement has occurred before; the first of each is not among them."""
    seen: set[Gram | str] = set()
    again = []
    for problem in problems:
        statement = tokens(problem.prompt) or problem.prompt
        if statement in seen:
            again.append(problem)
        seen.add(statement)
    return again


def overlapping(
    problems: Sequence[Problem], texts: Iterable[str], size: int = NGRAM["math"]
) -> list[Problem]:
    """The problems that share an n-gram with one of the texts, contain one, or are contained in one.

    A text too short to hold an n-gram counts as a whole: inside another one if it has at least
    `SHORTEST` tokens, and otherwise only where it is all of it.
    """
    ours = [tokens(problem.prompt) for problem in problems]
    theirs = [tokens(text) for text in texts]
    our_pieces, their_pieces = _pieces(ours, size), _pieces(theirs, size)
    shared = (our_pieces & their_pieces) | _found(ours, their_pieces, size) | _found(theirs, our_pieces, size)
    if not shared:
        return []
    lengths = {len(gram) for gram in shared if len(gram) >= SHORTEST}
    return [
        problem
        for problem, words in zip(problems, ours, strict=True)
        if words in shared or any(gram in shared for length in lengths for gram in _grams(words, length))
    ]


def _pieces(texts: Iterable[Gram], size: int) -> set[Gram]:
    """What is searched for elsewhere: the n-grams of long texts, and short texts whole."""
    return {gram for words in texts for gram in (_grams(words, size) if len(words) >= size else (words,))}


def _found(texts: Iterable[Gram], pieces: set[Gram], size: int) -> set[Gram]:
    """The short texts among the pieces that occur inside one of the texts."""
    by_start: dict[Gram, list[Gram]] = {}
    for piece in pieces:
        if SHORTEST <= len(piece) < size:
            by_start.setdefault(piece[:SHORTEST], []).append(piece)
    return {
        piece
        for words in texts
        for start, gram in enumerate(_grams(words, SHORTEST))
        for piece in by_start.get(gram, ())
        if words[start : start + len(piece)] == piece
    }


def _grams(words: Gram, size: int) -> Iterator[Gram]:
    return (words[start : start + size] for start in range(len(words) - size + 1))
