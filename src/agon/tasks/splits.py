"""Splits that are a pure function of the data and a seed.

Order comes from SHA-256 over the seed and the text of a problem, never from a random generator, so
the same rows give the same split on any machine, under any Python, in whatever order they were read.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agon.errors import InputError
from agon.game.problem import Problem

SPLITS = ("train", "validation", "test")


def content_id(prefix: str, *texts: str) -> str:
    """An id for a problem whose dataset gives it none: the hash of what it says."""
    return f"{prefix}-{_hash(*texts)[:12]}"


def shuffled(problems: Iterable[Problem], seed: int) -> list[Problem]:
    """The problems in the order of their hashes."""
    return sorted(problems, key=lambda problem: _hash(str(seed), problem.prompt, problem.answer, problem.id))


def hash_fraction(text: str, seed: int) -> float:
    """A text's hash as a number in [0, 1), always the same for one seed."""
    return int(_hash(str(seed), text)[:13], 16) / 16**13


def check_size(split: str, size: Any) -> int:
    """A size of a split as a number of problems."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise InputError(f"The size of the {split} split is a number of problems, not {size!r}.")
    return size


def scaled_sizes(available: int, wanted: Mapping[str, int | None]) -> dict[str, int]:
    """The sizes wanted, or all of them shrunk in proportion if there are too few problems.

    A size of None takes what the others leave; then each of the others gets a tenth at most.
    Held-out splits are rounded down but keep at least one problem.

    >>> scaled_sizes(400, {"train": 3000, "validation": 300, "test": 300})
    {'train': 334, 'validation': 33, 'test': 33}
    """
    fixed = {split: size for split, size in wanted.items() if size is not None}
    total = sum(fixed.values())
    if len(fixed) < len(wanted):
        sizes = {split: min(size, available // 10) for split, size in fixed.items()}
    elif available >= total:
        return fixed
    else:
        sizes = {split: available * size // total for split, size in fixed.items() if split != "train"}
    sizes = {split: max(1, size) if fixed[split] else 0 for split, size in sizes.items()}
    return {split: sizes.get(split, max(0, available - sum(sizes.values()))) for split in wanted}


def divide(problems: Sequence[Problem], sizes: Mapping[str, int]) -> dict[str, list[Problem]]:
    """Consecutive slices of ordered problems, the held-out splits first.

    The test split comes first, so that its problems stay the same when more training problems are asked for.
    """
    parts: dict[str, list[Problem]] = {}
    start = 0
    for name in sorted(sizes, key=lambda split: SPLITS[::-1].index(split)):
        parts[name] = list(problems[start : start + sizes[name]])
        start += sizes[name]
    return parts


def _hash(*texts: str) -> str:
    # Lone surrogates occur in scraped text; they must not stop a hash.
    return hashlib.sha256("\x1f".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
