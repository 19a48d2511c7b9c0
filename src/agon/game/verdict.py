"""What a judge says of an answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Reason = Literal["correct", "wrong", "no-answer", "truncated", "timeout", "error"]
REASONS: tuple[Reason, ...] = get_args(Reason)


@dataclass(frozen=True)
class Verdict:
    """Correct or not, and why. `detail` is a sentence for people; `seconds` is what judging took.

    `score` is there where a judge grades: how right the answer is, from 0 to 1.
    """

    correct: bool
    reason: Reason
    detail: str = ""
    seconds: float = 0.0
    score: float | None = None

    def __post_init__(self) -> None:
        if self.reason not in REASONS:
            raise ValueError(f"A verdict's reason is one of {', '.join(REASONS)}, not {self.reason!r}.")
        if self.correct != (self.reason == "correct"):
            raise ValueError(f"A verdict cannot be correct={self.correct} for the reason {self.reason!r}.")

    @property
    def grade(self) -> float:
        """The score; of a judge that does not grade, 1 for a right answer and 0 for any other."""
        return float(self.correct) if self.score is None else self.score

    def to_dict(self) -> dict[str, Any]:
        fields = dict(vars(self))
        if self.score is None:
            del fields["score"]
        return fields

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> "Verdict":
        return Verdict(**fields)
