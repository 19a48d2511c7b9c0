"""Reward functions as TRL's users write them. Their module imports nothing heavy, so workers start at once."""

from typing import Any


def has_the_solution(completions: list[Any], solution: list[str], **kwargs: Any) -> list[float]:
    """A reward function as TRL's users write them, for conversations."""
    return [
        float(f"{{{gold.strip('$')}}}" in message[0]["content"])
        for message, gold in zip(completions, solution, strict=True)
    ]


def is_short(completions: list[Any]) -> list[float]:
    return [1.0 if len(message[0]["content"]) < 100 else 0.5 for message in completions]
