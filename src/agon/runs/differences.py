"""What differs between two records, in words: settings, budgets, configurations."""

from collections.abc import Mapping
from typing import Any


def differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Each difference between two nested records as a few words.

    >>> differences({"task": "gsm8k", "decoding": {"top_p": 1.0}}, {"task": "gsm8k", "decoding": {"top_p": 0.9}})
    ['decoding top_p is 1.0 there and 0.9 here']
    """
    found = []
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, f"{prefix}{key} ")
        elif old != new:
            found.append(f"{prefix}{key} is {old!r} there and {new!r} here")
    return found
