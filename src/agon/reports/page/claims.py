"""The questions of the report, asked of a group of runs: each with its test, or with what is missing for it."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from agon.evaluate.claims import LEVEL, Difference, claim_differences, pair_difference
from agon.evaluate.compare import Entrant, sides
from agon.game.methods import METHODS
from agon.reports.exchange import cascades
from agon.reports.page.material import Group
from agon.reports.page.verdicts import ENOUGH_SEEDS, Verdict, difference_words, tokens_verdict, verdict

EXCHANGE = "Does exchange help?"
COMPETITION = "Does competition help beyond exchange?"
TOKENS = "Is it worth its tokens?"
PAIRS = (("coop", "grpo"), ("agon", "coop"), ("agon", "grpo"))


def verdicts(group: Group) -> list[Verdict]:
    """The answers that a group of runs gives on its own task."""
    task = group.task
    reason = group.unlike or ("" if task else "Nothing was tested: run `agon eval`.")
    if reason or task is None:
        asked = (("exchange", EXCHANGE), ("competition", COMPETITION), ("tokens", TOKENS))
        return [verdict(claim, question, None, reason) for claim, question in asked]
    found = {(one.first, one.second): one for one in _tests(group, task)}
    reading = _reading(group, task)
    exchange = verdict("exchange", EXCHANGE, found.get(PAIRS[0]), _missing(group, PAIRS[0]))
    if exchange.tested is None and reading:
        lead = next((one for one in reading if one.first.startswith("agon")), reading[0])
        exchange = verdict("exchange", f"{EXCHANGE} (reading)", lead)
        reading = [one for one in reading if one is not lead]
    also = [f"Reading: {difference_words(one)}" for one in reading]
    if PAIRS[2] in found:
        also.append(f"Both together: {difference_words(found[PAIRS[2]])}")
    exchange = replace(exchange, sentences=(*exchange.sentences, *also))
    competition = verdict("competition", COMPETITION, found.get(PAIRS[1]), _missing(group, PAIRS[1]))
    return [exchange, competition, _tokens(group, task)]


def open_questions(group: Group, answers: Sequence[Verdict]) -> list[str]:
    """What the data of a group cannot tell."""
    said = [
        f"Whether `{one.tested.first}` and `{one.tested.second}` differ by less than "
        f"{100 * one.tested.visible:.1f} points."
        for one in answers
        if one.outcome == "open" and one.tested and one.tested.p_holm >= LEVEL
    ]
    seeds = {
        method: len({run.seed for run in group.runs if run.method == method}) for method in group.methods
    }
    if seeds and max(seeds.values()) == 1:
        said.append(
            "Seeds were not varied: every method is one training run, and runs of one method differ too."
        )
    elif seeds and min(seeds.values()) < ENOUGH_SEEDS:
        few = ", ".join(f"`{method}` {count}" for method, count in seeds.items() if count < ENOUGH_SEEDS)
        said.append(f"A claim needs {ENOUGH_SEEDS} training seeds; there are fewer of {few}.")
    lacking = [name for name in ("grpo", "coop", "agon") if name not in group.methods]
    if lacking:
        said.append(f"No finished run of {', '.join(f'`{name}`' for name in lacking)}.")
    cut = [entry.name for entry in group.entries if not entry.counts]
    if cut:
        said.append(f"Left out, as they are not finished: {', '.join(f'`{name}`' for name in cut)}.")
    said += [f"`{record.name}`: {record.note}" for record in group.runs if record.note]
    if len(group.tasks) < 2:
        said.append("One task: nothing is known of transfer.")
    return said


def _tests(group: Group, task: str) -> list[Difference]:
    entrants = group.entrants(task)
    there = {side.label for side in sides(entrants)}
    return claim_differences(entrants, [pair for pair in PAIRS if set(pair) <= there])


def _missing(group: Group, pair: tuple[str, str]) -> str:
    task = group.task or ""
    tested = {entrant.method for entrant in group.entrants(task)}
    lacking = [name for name in pair if name not in tested]
    if not lacking:
        return f"Runs of `{pair[0]}` or `{pair[1]}` share a seed, so they are not seeds of one method."
    return f"There is no finished and tested run of {' and '.join(f'`{name}`' for name in lacking)}."


def _reading(group: Group, task: str) -> list[Difference]:
    """Of each method with a cascade: its finals against the same policies alone, all directions and seeds together."""
    found = []
    for method in group.methods:
        played = [
            one
            for record in group.runs
            if record.method == method
            and not record.note
            and METHODS.get(method, METHODS["coop"]).shows_attempt
            for one in cascades(record, group.arms(record, task))
        ]
        if played:
            final, reader = (
                np.concatenate([getattr(one, what) for one in played], axis=1) for what in ("final", "reader")
            )
            seeds = len({one.run for one in played})
            found.append(
                pair_difference(f"{method}, after reading", f"{method}, alone", final, reader, (seeds, seeds))
            )
    return found


def _tokens(group: Group, task: str) -> Verdict:
    """The cascade of `agon`, else of another pair, against a vote of two by `grpo`, else by its own policies."""
    entrants = group.entrants(task)
    pairs = [one for one in entrants if "->" in one.arm]
    chosen = next((name for name in ("agon", "coop") if any(one.method == name for one in pairs)), None)
    chosen = chosen or (pairs[0].method if pairs else None)
    if chosen is None:
        return verdict("tokens", TOKENS, None, "No run with a cascade was tested.")
    cascade = [one for one in pairs if one.method == chosen]
    votes = group.entrants(task, "majority")
    control = [one for one in votes if one.method == "grpo"] or [one for one in votes if one.method == chosen]
    if not control:
        return verdict("tokens", TOKENS, None, "No vote of two attempts was evaluated, which is the control.")
    label = f"{control[0].method}, vote of two"
    sided = [replace(one, method=label) for one in control]
    names = {side.label for side in sides([*cascade, *sided])}
    if not {chosen, label} <= names:
        return verdict(
            "tokens", TOKENS, None, "Runs of one method share a seed, so they are not seeds of it."
        )
    (tested,) = claim_differences([*cascade, *sided], [(chosen, label)])
    return tokens_verdict(TOKENS, tested, tokens_of(cascade), tokens_of(sided))


def tokens_of(entrants: Sequence[Entrant]) -> float:
    """Mean tokens generated for an answer, both stages and every attempt counted."""
    return fmean(float(one.result["arms"][one.arm]["tokens"]["total"]) for one in entrants)
