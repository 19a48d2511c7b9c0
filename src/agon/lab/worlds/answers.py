"""What the answers of a run in the trap were, told from which locks they opened.

An outcome keeps no texts. But a policy that gives every lock the same answer opens exactly the locks that this key or
tool opens, and none of another kind (the best tool, the other tools, the keys) opens and fails on more than three
quarters of the same locks.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agon.game.problem import Problem
from agon.lab.worlds.copying_trap import BEST, DIGITS, TOOLS, key, opens
from agon.lab.worlds.world import World
from agon.tasks import load_task

FITS = 0.9  # share of the locks from which on an arm's answers count as this one
BEST_TOOL, TOOL, KEY, MIXED = f"tool {BEST}", "another tool", "one key", "mixed"
KINDS = (BEST_TOOL, TOOL, KEY, MIXED)


def things(problems: Sequence[Problem]) -> dict[str, str]:
    """Every key and tool, with the marks of a policy that names nothing else."""
    named = [*(f"tool {tool}" for tool in TOOLS), *(f"key {key(digit)}" for digit in DIGITS)]
    return {thing: "".join("01"[opens(lock, thing)] for lock in problems) for thing in named}


def agreement(one: str, other: str) -> float:
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(one)


def kind(marks: str, known: Mapping[str, str]) -> str:
    """What an arm with these marks nearly always answered."""
    thing = max(known, key=lambda name: agreement(marks, known[name]))
    if agreement(marks, known[thing]) < FITS:
        return MIXED
    if thing == BEST_TOOL:
        return BEST_TOOL
    return TOOL if thing.startswith("tool") else KEY


def answers_table(world: World, outcomes: Sequence[Mapping[str, Any]]) -> str:
    """How many arms of each method ended with which answer, as Markdown."""
    known = things(load_task(world.task).problems("test"))
    lines = [
        "| method | arms | " + " | ".join(KINDS) + " |",
        "| --- | ---: |" + " ---: |" * len(KINDS),
    ]
    for method in world.methods:
        arms = [marks for one in outcomes if one["method"] == method for marks in one["right"]]
        found = Counter(kind(marks, known) for marks in arms)
        lines.append(f"| {method} | {len(arms)} | " + " | ".join(str(found[name]) for name in KINDS) + " |")
    return "\n".join(lines)
