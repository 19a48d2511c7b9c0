"""Prompts that a model cannot read.

A problem's own prompt is found too long before the first one is sampled. How long a challenge's prompt gets is known
only when its draft has been written: its summary is then shown as far as it fits.
"""

from collections.abc import Iterable
from typing import Any

from agon.engines.chat import Chat
from agon.engines.protocol import Engine, Sampling
from agon.errors import InputError
from agon.game.problem import Problem
from agon.game.prompts import plain_prompt

TEMPLATE = 4096  # bytes that instructions and a chat template may add


def refuse_long_prompts(chat: Chat, problems: Iterable[Problem], config: Any) -> None:
    """Refuse problems whose prompt alone is as long as everything that the model reads.

    Few are tokenized for it: no tokenizer makes more tokens than bytes, and a template adds some lines.
    """
    positions = positions_of(config)
    if not positions:
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


def positions_of(config: Any) -> int | None:
    """The tokens that a model reads; None if it does not say, or reads further than it says."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    positions = getattr(text, "max_position_embeddings", None)
    stretched = (getattr(text, "rope_parameters", None) or {}).get("rope_type", "default") != "default"
    return positions if isinstance(positions, int) and not stretched else None


def longest_prompt(engine: Engine, sampling: Sampling) -> int | None:
    """The tokens that a prompt may have; None without a limit.

    vLLM refuses a prompt that leaves less room than the completion may take. The transformers engine takes any, but
    nothing can be answered beyond what the model reads.
    """
    together = getattr(engine, "max_model_len", None)
    if together:
        return int(together) - sampling.max_tokens
    positions = getattr(engine, "positions", None)
    return int(positions) - 1 if positions else None


def as_far_as_it_fits(chat: Chat, problem: Problem, shown: str, limit: int) -> str:
    """The longest beginning of a summary whose challenge prompt has at most `limit` tokens; none may fit.

    It is marked as `summary_limit` marks what it cuts off.
    """

    def begun(characters: int) -> str:
        return f"{shown[:characters].rstrip()} […]".lstrip()

    fits, too_many = 0, len(shown)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if len(chat.encode(chat.challenge(problem, begun(middle)))) <= limit:
            fits = middle
        else:
            too_many = middle
    return begun(fits)
