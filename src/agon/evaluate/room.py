"""How much of a card an evaluation on vLLM needs and may take.

A model may read 32,768 tokens or more, and vLLM starts only if its cache holds one sequence of that
length. An evaluation writes far shorter ones, so their length is counted from the problems, and a
card that others use too has room for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from agon.engines.chat import Chat
from agon.engines.vllm_engine import VllmOptions
from agon.errors import InputError
from agon.game.problem import Problem
from agon.game.prompts import challenger_prompt

GB = 10**9
# What an evaluation takes of a card that it has to itself, unlike an engine beside a trainer.
WHOLE_CARD = 0.85
# A summary is tokenized anew when it is read, with its tags and control tokens defused. It is seldom
# longer than it was written; twice that, and a few lines for short ones, is room enough.
REREAD, LINES = 2, 256


@dataclass(frozen=True)
class Room:
    """What vLLM may take: GB of cache, tokens of a prompt with its completion. None: what there is, what it needs."""

    max_tokens: int
    cache_gb: float | None = None
    max_model_len: int | None = None
    problems: Sequence[Problem] = ()  # that will be played

    def __post_init__(self) -> None:
        if self.cache_gb is not None and not (isfinite(self.cache_gb) and self.cache_gb * GB >= 1):
            raise InputError(f"--vllm-cache-gb must be above 0, such as 4 or 0.5, not {self.cache_gb:g}.")
        if self.max_model_len is not None and self.max_model_len <= self.max_tokens:
            raise InputError(
                f"--max-model-len counts a prompt and its completion, so it must be above --max-tokens "
                f"({self.max_tokens}), not {self.max_model_len}."
            )

    def refuse_without_vllm(self, engine_name: str) -> None:
        """An option that would do nothing is a mistake."""
        for option, value in (("--vllm-cache-gb", self.cache_gb), ("--max-model-len", self.max_model_len)):
            if value is not None and engine_name != "vllm":
                raise InputError(
                    f"{option} is for --engine vllm; the engine '{engine_name}' has no such limit."
                )

    def length(self, chat: Chat, config: Any) -> int | None:
        """The longest sequence that vLLM has to hold; None is all that the model can read."""
        positions = getattr(config.get_text_config(), "max_position_embeddings", None)
        if self.max_model_len is not None:
            if positions and self.max_model_len > positions and not _stretched(config):
                raise InputError(
                    f"--max-model-len is {self.max_model_len}, but the model reads {positions} tokens at most."
                )
            return self.max_model_len
        if not self.problems:
            return None
        longest = max(
            len(chat.encode(challenger_prompt(problem, "", chat.dialect.name, chat.control_tokens)))
            for problem in self.problems
        )
        needed = longest + REREAD * self.max_tokens + LINES + self.max_tokens
        return needed if positions is None or needed < positions else None

    def share(self, options: VllmOptions, cuda: bool) -> VllmOptions:
        """The options with what this evaluation may take of the card."""
        if self.cache_gb is not None:
            return replace(options, kv_cache_memory_bytes=int(self.cache_gb * GB))
        return replace(options, gpu_memory_utilization=WHOLE_CARD) if cuda else options


def _stretched(config: Any) -> bool:
    """Whether a model reads further than its positions were trained for, which vLLM works out by itself."""
    rope = getattr(config.get_text_config(), "rope_parameters", None) or {}
    return rope.get("rope_type", "default") != "default"
