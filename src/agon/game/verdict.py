"""What a judge says of an answer."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Reason = Literal["correct", "wrong", "no-answer", "truncated", "timeout", "error"]
REASONS: tuple[Reason, ...] = get_args(Reason)


@dataclass(frozen=True)
class Verdict:
    """Correct or not, and why. `detail` is a sentence for people; `seconds` is what judging took."""

    correct: bool
    reason: Reason
    detail: str = ""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.reason not in REASONS:
            raise ValueError(f"A verdict's reason is one of {', '.join(REASONS)}, not {self.reason!r}.")
        if self.correct != (self.reason == "correct"):
            raise ValueError(f"A verdict cannot be correct={self.correct} for the reason {self.reason!r}.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> "Verdict":
        return Verdict(**fields)
