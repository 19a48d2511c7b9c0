"""What the copying trap's model predicts for a real setting: accuracy over steps, `coop` and `agon`.

    python scripts/copying_calibrated.py                            Qwen2.5-Coder-0.5B on GSM8K, as measured
    python scripts/copying_calibrated.py DRAFTS ALONE READING       from evaluations, each RUN@ARM

As `agon.lab.worlds.copying_model`, with problems of several kinds: drafts right and working it out as often as measured
on each kind, and skill that grows on all kinds at once. DRAFTS is who drafts, ALONE the challenger before it is
trained, READING a challenger that reads drafts, for the share that it copies: for a pair RUN@A RUN@B 'RUN@A->B'.
Every problem is a kind then. With --alone-tokens the challenger gets fewer tokens than it was evaluated with: longer
answers count as wrong. What was measured comes first: p (how often drafts are right), q (how often the
challenger is right alone), and whether q lies in the band in which competition should help. How fast the choice moves
is not known of a real model, so several rates are shown then. A source of predictions, not of evidence.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from agon.errors import InputError
from agon.evaluate.arms import arms_for
from agon.evaluate.compare import Entrant, enter_all, evaluation_of, refuse_unlike
from agon.evaluate.draft_effects import DraftEffects, draft_effects, exchanges
from agon.evaluate.metrics import grid
from agon.judges.pool import JudgePool
from agon.lab.worlds.copying_model import AGON, COOP, advantages, logit, share, threshold
from agon.reports.tables import Table, markdown, percent, points

GROUPS, SIZE = 32, 8
SHOWN = (16, 32, 64, 128, 256)
CHOICE_RATES, SKILL_RATES = (0.4, 1.0, 2.0, 4.0), (0.0, 0.05, 0.1, 0.2, 0.4)
LEAST, MOST = 0.02, 0.98  # a share of 0 or 1 has no logit


@dataclass(frozen=True)
class Setting:
    """Kinds of problems: how common each is, how often its drafts are right, and working it out; and how often
    the challenger works it out."""

    weights: tuple[float, ...]
    drafts: tuple[float, ...]
    skill: tuple[float, ...]
    work: float


MEASURED = Setting(weights=(0.35, 0.65), drafts=(0.70, 0.09), skill=(0.66, 0.08), work=0.6)  # easy and hard


def accuracies(
    setting: Setting, bonus: float, choice_rate: float, skill_rate: float, seed: int
) -> list[float]:
    """Accuracy after each of the steps that are shown."""
    rng, shape = np.random.default_rng(seed), (GROUPS, SIZE)
    weights, drafts = np.array(setting.weights), np.array(setting.drafts)
    choice, skill = logit(setting.work), np.array([logit(each) for each in setting.skill])
    found = []
    for step in range(1, max(SHOWN) + 1):
        w, alone = share(choice), 1 / (1 + np.exp(-skill))
        kind = np.searchsorted(weights.cumsum()[:-1], rng.random((GROUPS, 1)), side="right")
        able = alone[kind]
        draft = rng.random(shape) < drafts[kind]
        work, solved = rng.random(shape) < w, rng.random(shape) < able
        right = np.where(work, solved, draft)
        advantage = advantages(2.0 * right + bonus * (right & ~draft))
        choice += choice_rate * float((advantage * (work - w)).mean())
        skill += skill_rate * float((advantage * work * (solved - able)).mean())
        if step in SHOWN:
            alone = 1 / (1 + np.exp(-skill))
            found.append(float(weights @ (w * alone + (1 - w) * drafts)))
    return found


def predictions(setting: Setting, choice_rates: Sequence[float], seeds: int = 12) -> Table:
    rows = []
    for choice_rate, skill_rate in product(choice_rates, SKILL_RATES):
        coop, agon = (
            np.mean(
                [accuracies(setting, bonus, choice_rate, skill_rate, seed) for seed in range(seeds)], axis=0
            )
            for bonus in (COOP, AGON)
        )
        cells = (f"{percent(one)} ({points(two - one)})" for one, two in zip(coop, agon, strict=True))
        rows.append((f"{choice_rate:g}", f"{skill_rate:g}", *cells))
    head = ("choice rate", "skill rate", *map(str, SHOWN))
    return Table("`coop` after so many steps (`agon` - `coop`)", head, tuple(rows))


def measured(
    places: Sequence[str], task: str, split: str, alone_tokens: int | None = None
) -> tuple[Setting, Table]:
    """The setting that evaluations describe, and what was measured."""
    drafts, alone, reading = entrants = enter_all(places, task, split)
    refuse_unlike(entrants)
    right = within(alone, split, alone_tokens) if alone_tokens is not None else alone.correct
    p, q, copies = float(drafts.correct.mean()), float(right.mean()), copied(effects(reading, split))
    setting = Setting(
        weights=tuple([1 / len(drafts.correct)] * len(drafts.correct)),
        drafts=rates(drafts.correct),
        skill=rates(right),
        work=clipped(1 - copies),
    )
    lowest = threshold(p)
    row = (*map(percent, (p, q, lowest, copies)), "yes" if lowest < q < p else "no")
    name = f"{drafts.method} drafts for {alone.method}"
    if alone_tokens is not None:
        name += f" with {alone_tokens} tokens"
    return setting, Table(name, ("p", "q", "band from", "copies", "in the band"), (row,))


def within(entrant: Entrant, split: str, tokens: int) -> np.ndarray:
    """What is right within so many tokens. Sampling goes from left to right, so a lower cap changes nothing else."""
    result, samples = entrant.result, evaluation_of(entrant, split).read_samples()
    (arm,) = (one for one in arms_for(result["policies"], result["directions"]) if one.name == entrant.arm)
    answers = grid(arm, result["problems"], result["samples"], samples)
    return entrant.correct & np.array([[each.chosen.length <= tokens for each in row] for row in answers])


def effects(reading: Entrant, split: str) -> DraftEffects:
    """What became of the drafts that this arm read."""
    folder = evaluation_of(reading, split)
    read = exchanges(reading.result, folder.read_samples())
    if reading.arm not in read:
        raise InputError(f"{reading.where}@{reading.arm} reads no drafts; these do: {', '.join(read)}.")
    with JudgePool("math") as pool:
        return draft_effects(read[reading.arm], folder.read_settings()["dialect"], pool)


def rates(correct: np.ndarray) -> tuple[float, ...]:
    """How often each problem is right, drawn to the mean as if by one sample more: few samples are often all right
    or all wrong. The mean stays what it is."""
    samples, whole = correct.shape[1], float(correct.mean())
    return tuple(clipped(float(each)) for each in (correct.sum(axis=1) + whole) / (samples + 1))


def clipped(each: float) -> float:
    return min(max(each, LEAST), MOST)


def copied(effects: DraftEffects) -> float:
    """The share of finals that take the draft's answer and would not have found it, of those that could."""
    taken = possible = 0.0
    for drafts, after, alone in (
        (effects.both_right + effects.corrupted, effects.copied_right, effects.alone_after_right),
        (effects.answered_wrong, effects.copied_wrong, effects.alone_after_wrong),
    ):
        if after is not None and alone is not None:
            taken += drafts * (after - alone)
            possible += drafts * (1 - alone)
    return max(taken / possible, 0.0) if possible else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("places", metavar="RUN@ARM", nargs="*", help="DRAFTS, ALONE and READING, or none")
    parser.add_argument("--task", default="gsm8k")
    parser.add_argument("--split", default="test", choices=("validation", "test"))
    parser.add_argument("--alone-tokens", type=int, help="the challenger's cap, where it is lower")
    arguments = parser.parse_args()
    if len(arguments.places) not in (0, 3):
        parser.error("give three arms, DRAFTS ALONE READING, or none")
    if arguments.alone_tokens is not None and not arguments.places:
        parser.error("--alone-tokens is about ALONE: give three arms")
    if arguments.alone_tokens is not None and arguments.alone_tokens < 1:
        parser.error("--alone-tokens must be at least 1")
    if not arguments.places:
        print(markdown(predictions(MEASURED, CHOICE_RATES[:1])), end="")
        return 0
    try:
        setting, table = measured(arguments.places, arguments.task, arguments.split, arguments.alone_tokens)
    except InputError as error:
        print(f"copying_calibrated: {error}", file=sys.stderr)
        return 2
    print(markdown(table))
    print(markdown(predictions(setting, CHOICE_RATES)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
