"""How much of a card an evaluation on vLLM needs and may take.

A model may read 32,768 tokens or more, and vLLM starts only if its cache holds one sequence of that
length. An evaluation writes far shorter ones, so their length is counted from the problems, and the
cache fits on a card that others use too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agon.engines.chat import Chat
from agon.engines.options import VllmOptions
from agon.errors import InputError
from agon.game.problem import Problem

# What an evaluation takes of a card that it has to itself, unlike an engine beside a trainer.
WHOLE_CARD = 0.85
# A summary is tokenized anew when it is read, with its tags and control tokens defused. It is seldom
# longer than it was written; twice that, and a few lines for short ones, is enough.
REREAD, LINES = 2, 256


@dataclass(frozen=True)
class VllmBudget:
    """What vLLM may take: bytes of cache, tokens of a prompt with its completion.

    None is as much as there is for the cache, and as many as the problems need for the tokens.
    """

    max_tokens: int
    kv_cache_bytes: int | None = None
    max_model_len: int | None = None
    problems: Sequence[Problem] = ()  # that will be played

    def __post_init__(self) -> None:
        if self.kv_cache_bytes is not None and self.kv_cache_bytes < 1:
            raise InputError(
                "--vllm-kv-cache-bytes must be above 0, such as 4000000000 for 4 GB, "
                f"not {self.kv_cache_bytes}."
            )
        if self.max_model_len is not None and self.max_model_len <= self.max_tokens:
            raise InputError(
                f"--max-model-len counts a prompt and its completion, so it must be above --max-tokens "
                f"({self.max_tokens}), not {self.max_model_len}."
            )

    def refuse_without_vllm(self, engine_name: str) -> None:
        """An option that would do nothing is a mistake."""
        given = (("--vllm-kv-cache-bytes", self.kv_cache_bytes), ("--max-model-len", self.max_model_len))
        for option, value in given:
            if value is not None and engine_name != "vllm":
                raise InputError(
                    f"{option} is for --engine vllm; the engine '{engine_name}' has no such limit."
                )

    def length(self, chat: Chat, config: Any) -> int | None:
        """The longest sequence that vLLM has to hold; None is all that the model can read."""
        positions = getattr(config.get_text_config(), "max_position_embeddings", None)
        if self.max_model_len is not None:
            if positions and self.max_model_len > positions and not _is_stretched(config):
                raise InputError(
                    f"--max-model-len is {self.max_model_len}, but the model reads {positions} tokens at most."
                )
            return self.max_model_len
        if not self.problems:
            return None
        longest = max(len(chat.encode(chat.challenge(problem, ""))) for problem in self.problems)
        needed = longest + REREAD * self.max_tokens + LINES + self.max_tokens
        return needed if positions is None or needed < positions else None

    def applied_to(self, options: VllmOptions, cuda: bool) -> VllmOptions:
        """The options with what this evaluation may take of the card."""
        if self.kv_cache_bytes is not None:
            return replace(options, kv_cache_bytes=self.kv_cache_bytes)
        return replace(options, gpu_memory_utilization=WHOLE_CARD) if cuda else options


def _is_stretched(config: Any) -> bool:
    """Whether a model reads further than its positions were trained for, which vLLM works out by itself."""
    rope = getattr(config.get_text_config(), "rope_parameters", None) or {}
    return rope.get("rope_type", "default") != "default"
