"""Run folders with duels for tests: the real writers, no model."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agon.game.duel import Duel, Entry
from agon.game.problem import Problem
from agon.game.rollout import Rollout
from agon.game.transcript import split
from agon.game.verdict import Verdict
from agon.runs.folder import Run

CONFIG = {
    "method": "agon",
    "model": "embedded",
    "task": "sums",
    "dialect": "think",
    "seed": 1,
    "num_generations": 8,
    "learning_rate": 1e-3,
}
N = 4


def entry(policy: str, answer: str, gold: str, summary: str = "Adding them up.", **given: Any) -> Entry:
    """One side; `given` may hold its text, length, reason, advantage or whether it was cut off."""
    text = given.get("text", f"<think>\nlet me see, {answer}\n</think>{summary}<answer>{answer}</answer>")
    right = answer == gold
    cut = given.get("cut", False)
    well = split(text, "think").well_formed
    terms = {"correctness": 2.0 * right, "form": 0.5 * well} | given.get("terms", {})
    return Entry(
        Rollout(
            text,
            given.get("length", len(text) // 4),
            "length" if cut else "stop",
            policy,
            given.get("version", 0),
        ),
        Verdict(right, "correct" if right else given.get("reason", "wrong"), given.get("detail", "")),
        well,
        sum(terms.values()),
        given.get("advantage", 0.0),
        terms,
    )


def duels(steps: Sequence[int], problems: int = 2, seed: int = 0) -> list[Duel]:
    """Some duels of each step, all outcomes among them, always the same for one seed."""
    played = []
    for step in steps:
        rng = random.Random(f"{seed} {step}")
        drafter, challenger = ("A", "B") if step % 2 == 0 else ("B", "A")
        for number in range(problems):
            a, b = rng.randrange(10, 99), rng.randrange(10, 99)
            gold = str(a + b)
            problem = Problem(f"sum-{step}-{number}", f"What is {a} + {b}?", "sums", gold)
            for index in range(N):
                wrong = str(a + b + rng.randrange(1, 9))
                first = gold if index % 2 == 0 else wrong
                second = [gold, gold, wrong, wrong][index]
                draft = entry(drafter, first, gold, version=step, advantage=0.5 - index)
                bonus = {"conversion": float(second == gold != first)}
                challenge = entry(challenger, second, gold, version=step, terms=bonus, cut=rng.random() < 0.2)
                shown = split(draft.rollout.text, "think").shown()
                played.append(Duel(problem, draft, step, index, shown, challenge, index))
    return played


def run(folder: Path, steps: Sequence[int] = range(3), method: str = "agon", **more: Any) -> Run:
    """A run with the duels and metrics of some steps."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Run(folder)
    made.write_config({**CONFIG, "method": method})
    add(made, steps, **more)
    return made


def add(made: Run, steps: Sequence[int], **more: Any) -> None:
    for step in steps:
        played = duels([step], **more)
        made.duels().write(played)
        both = [duel for duel in played if duel.challenge]
        made.add_metrics(
            {
                "step": step + 1,
                "loss": 0.1,
                "draft/correct": sum(duel.draft.correct for duel in played) / len(played),
                "challenge/correct": sum(bool(duel.challenge and duel.challenge.correct) for duel in both)
                / len(both),
                "duel/converted": sum(duel.converted for duel in both) / len(both),
                "duel/corrupted": sum(duel.corrupted for duel in both) / len(both),
                "draft/length": 20.0,
                "challenge/length": 22.0 + step,
                "draft/dropped_groups": 0.0,
                "challenge/reward/conversion": 0.2,
            }
        )
