"""What an engine returns for one prompt."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class Rollout:
    """One sampled completion and where it came from.

    `policy` is "A", "B" or "base" and `version` the number of updates that policy had received, so
    that a trainer can refuse a sample of the wrong weights. `length` and `prompt_length` count
    tokens and survive in logs that leave the tokens themselves out.
    """

    text: str
    length: int
    finish_reason: FinishReason
    policy: str
    version: int
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    prompt_ids: tuple[int, ...] = ()
    prompt_length: int = 0

    @property
    def truncated(self) -> bool:
        return self.finish_reason == "length"

    def without_tokens(self) -> "Rollout":
        """The same rollout for a log line: text and lengths, no token ids or log-probs."""
        return replace(self, token_ids=(), logprobs=(), prompt_ids=())

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> "Rollout":
        tuples = {name: tuple(fields.get(name, ())) for name in ("token_ids", "logprobs", "prompt_ids")}
        return Rollout(**{**fields, **tuples})
