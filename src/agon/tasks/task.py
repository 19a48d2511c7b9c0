"""A task: where problems come from, how they are split, and which judge decides."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agon.errors import InputError
from agon.game.problem import Problem

Split = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class Task:
    """Problems by split, the judge's name, and what was left out on the way and why."""

    name: str
    judge: str
    splits: Mapping[str, Sequence[Problem]]
    dropped: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    # What a reader of results must know: splits that had to shrink, a comparison that was left out.
    notes: tuple[str, ...] = ()

    def problems(self, split: str) -> Sequence[Problem]:
        """The problems of a split; an absent or empty one is an InputError."""
        found = self.splits.get(split, ())
        if not found:
            have = ", ".join(name for name, rows in self.splits.items() if rows) or "none"
            raise InputError(f"Task '{self.name}' has no {split} problems (splits with problems: {have}).")
        return found

    def fingerprint(self, split: str) -> str:
        """A hash of a split's problems in order; runs are compared only where it is equal."""
        digest = hashlib.sha256()
        for problem in self.splits.get(split, ()):
            digest.update(json.dumps(problem.to_dict(), sort_keys=True).encode())
        return digest.hexdigest()[:16]
