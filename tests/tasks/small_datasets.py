"""Small datasets in the layout of the real ones, written where a test asks for them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "juniper", "kelp")


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def statement(number: int) -> str:
    """A sentence of its own for each number, with no long run of words in common with another."""
    words = [
        WORDS[(number * 7 + place * (number % 13 + 1)) % len(WORDS)] + str(number) for place in range(14)
    ]
    return f"Find x{number} given {' '.join(words)}."


def deepmath(count: int, difficulty: float = 8.0, first: int = 0) -> list[dict[str, Any]]:
    return [
        {"question": statement(number), "final_answer": str(number), "difficulty": difficulty}
        for number in range(first, first + count)
    ]


def gsm8k(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {"question": statement(number), "answer": f"Some steps.\n#### 1,{number:03d}"}
        for number in range(first, first + count)
    ]


def math(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "problem": statement(number),
            "solution": rf"So \boxed{{{number}}}.",
            "level": "Level 3",
            "type": "Algebra",
        }
        for number in range(first, first + count)
    ]
