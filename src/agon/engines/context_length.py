"""Prompts that a model cannot read: found before the first is sampled."""

from collections.abc import Iterable
from typing import Any

from agon.engines.chat import Chat
from agon.errors import InputError
from agon.game.problem import Problem
from agon.game.prompts import plain_prompt

TEMPLATE = 4096  # bytes that instructions and a chat template may add


def refuse_long_prompts(chat: Chat, problems: Iterable[Problem], config: Any) -> None:
    """Refuse problems whose prompt alone is as long as everything that the model reads.

    Few are tokenized for it: no tokenizer makes more tokens than bytes, and a template adds some lines.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    positions = getattr(text, "max_position_embeddings", None)
    stretched = (getattr(text, "rope_parameters", None) or {}).get("rope_type", "default") != "default"
    if not positions or stretched:
        return
    for problem in problems:
        if len(problem.prompt.encode()) + TEMPLATE < positions:
            continue
        tokens = len(chat.encode(plain_prompt(problem, chat.dialect.name)))
        if tokens >= positions:
            raise InputError(
                f"The prompt of problem '{problem.id}' has {tokens:,} tokens, and the model reads {positions:,} with "
                "the answer: leave the problem out, or use a model that reads more."
            )
