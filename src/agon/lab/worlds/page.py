"""The page of what came out of the worlds: every table from the outcomes of its runs, in one file beside it.

Only complete seeds are in it, those of which every method of every world has a run: tables of one page then speak of
the same seeds, and a page of half of the runs leaves none of them out by how long it took. A world of which there is no
run at all, as after it was changed, holds nothing up: the page says that it has none.
"""

import json
from collections.abc import Sequence

from agon.errors import InputError
from agon.lab.worlds.answers import FITS, answers_table
from agon.lab.worlds.catalogue import WORLDS
from agon.lab.worlds.play import Outcome, named_habits
from agon.lab.worlds.verdict import Verdict, claims_table, methods_table, verdicts

PLANNED = 10  # seeds of every method
NO_RUNS = "not run yet"
COMMAND = "python scripts/worlds.py --out worlds --page docs/results/worlds"
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def complete(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes of the complete seeds, by world, method and seed, with their habits by name."""
    found = {(one["world"], one["method"], _number(one)): one for one in outcomes}
    run = {world for world, *_ in found}
    cells = [
        (world.name, method) for world in WORLDS.values() if world.name in run for method in world.methods
    ]
    seeds = sorted({number for *_, number in found})
    whole = [seed for seed in seeds if all((*cell, seed) in found for cell in cells)]
    if not whole:
        raise InputError(
            "No seed is complete: a page needs a run of every method in every world that it shows."
        )
    chosen = [found[(*cell, seed)] for cell in cells for seed in whole]
    return [{**one, "habits": named_habits(one["habits"], WORLDS[one["world"]].habits)} for one in chosen]


def _number(outcome: Outcome) -> int:
    """A seed counted from where the method's seeds begin."""
    first: int = WORLDS[outcome["world"]].first_seeds.get(outcome["method"], 0)
    return int(outcome["seed"]) - first


def lines(outcomes: Sequence[Outcome]) -> str:
    """The file beside the page: one line of JSON for each run."""
    return "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in outcomes)


def page(outcomes: Sequence[Outcome]) -> str:
    """The page of complete outcomes."""
    by_world = {name: [one for one in outcomes if one["world"] == name] for name in WORLDS}
    found = {name: verdicts(WORLDS[name], own) if own else [] for name, own in by_world.items()}
    parts = [_top(outcomes, found)]
    for name, own in by_world.items():
        if not own:
            continue
        world = WORLDS[name]
        parts += [f"## {name}", world.why, methods_table(world, own), claims_table(found[name])]
        if world.base == "trap":
            parts += [_ANSWERS, answers_table(world, own)]
    return "\n\n".join(parts) + "\n"


def _top(outcomes: Sequence[Outcome], found: dict[str, list[Verdict]]) -> str:
    seeds = len({_number(one) for one in outcomes})
    rows = [
        f"| {f'[{name}](#{name})' if own else name} | {_expected(name)} | {_said(own)} |"
        for name, own in found.items()
    ]
    return "\n\n".join(
        [
            "# What came out of the worlds",
            f"[Worlds](../../worlds.md) are small tasks of which it is known by construction what a comparison must "
            f"say. Here is what it said, over {len(outcomes)} runs: {_seeds_said(seeds)}. This page is written from "
            f"[outcomes.jsonl](outcomes.jsonl), one line for each run, by `{COMMAND}`; "
            "[what to make of it](../../worlds.md#what-came-out) is said there.",
            "\n".join(["| world | by construction | the lab says |", "| --- | --- | --- |", *rows]),
            _READING,
        ]
    )


def _seeds_said(seeds: int) -> str:
    def word(number: int) -> str:
        return NUMBERS[number] if number < len(NUMBERS) else str(number)

    so_far = f"{word(seeds)} {'seed' if seeds == 1 else 'seeds'} of every method"
    return so_far if seeds >= PLANNED else f"{so_far} so far, {word(PLANNED)} are planned"


def _expected(name: str) -> str:
    """The first words of a world's reason."""
    return WORLDS[name].why.split(":")[0].lower()


def _said(found: Sequence[Verdict]) -> str:
    if not found:
        return NO_RUNS
    wrong = [one for one in found if not one.agrees]
    if not wrong:
        return f"all {len(found)} claims agree" if len(found) > 1 else "the claim agrees"
    listed = "; ".join(f"not {one.claim}, it found {one.found}" for one in wrong)
    return f"{len(found) - len(wrong)} of {len(found)} claims agree; {listed}"


_READING = (
    "Accuracies are in percent, the mean over runs; a run with two directions counts both. *95% over runs* is "
    "Student's interval for a method and Welch's for a difference, so it speaks of new trainings. *Finals* are the "
    "first words of the answers that had read a draft, also where a method is evaluated without one. A claim with *>* "
    "agrees if the interval lies above zero, one with *=* if it holds zero, one with *≤* if it does not lie above. "
    "Every claim has its own 95%: of twenty with *=*, one is expected to fail by chance."
)
_ANSWERS = (
    f"What the answers were, told from which of the test locks they opened: an arm (a direction, or a policy alone) "
    f"counts where {100 * FITS:.0f}% of its marks are those of one tool or key. Mixed is anything else, copies of "
    "varied drafts among it."
)
