"""Accuracy against what it costs: the length of the final stage, as the paper draws it, and all tokens of an answer."""

from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np

from agon.evaluate.compare import Entrant
from agon.evaluate.intervals import accuracy_interval
from agon.reports.page.colours import colour_of
from agon.reports.page.material import Group, Material
from agon.reports.page.model import Beside, Chart, Mark, Section, Series, Text
from agon.reports.page.paper import MAIN, SETTING

NOTE = "Vertical lines: 95% intervals over problems."
SHORT = ("zero-shot", "grpo", "moa", "coop", "agon")  # what the paper's figure shows


def length_section(material: Material) -> Section | None:
    """The paper's first figure, and ours beside it."""
    charts = [
        Chart(_title("Ours", group, material), "tokens of a final-stage completion", "% right", marks, NOTE)
        for group in material.groups
        if (marks := tuple(_lengths(group)))
    ]
    return Section("Accuracy and length", "length", (Beside((*charts, paper_chart())),)) if charts else None


def tokens_section(material: Material) -> Section | None:
    """Every way to answer on the same axes: what it scores and what it spends."""
    charts = [
        Chart(_title(f"{group.task} test", group, material), "tokens for an answer", "% right", marks)
        for group in material.groups
        if (marks := tuple(_tokens(group)))
    ]
    if not charts:
        return None
    lead = Text(
        "Tokens generated for an answer, both stages and every attempt counted, mean over seeds. Above and to the left "
        "is better. Dots: the headline of a method; triangles: its policies alone, one pass; squares: two attempts and "
        "a vote, which cost about what a cascade does; diamonds: untrained. The paper counts the tokens of the final "
        "stage only, so there is no figure of its to put beside."
    )
    return Section("Accuracy and tokens", "tokens", (lead, Beside(tuple(charts))))


def _title(title: str, group: Group, material: Material) -> str:
    return f"{title}, {group.label}" if len(material.groups) > 1 else title


def _lengths(group: Group) -> Iterator[Series]:
    task = group.task
    if task is None or group.unlike:
        return
    for name in ("zero-shot", "self-cascade", "moa"):
        control = group.untrained(task, name)
        if control:
            yield _mark(name, "base", "diamond", [control], "final_length")
    for method in group.methods:
        own = [one for one in group.entrants(task) if one.method == method]
        if own:
            yield _mark(method, colour_of(method), "dot", own, "final_length")


def _tokens(group: Group) -> Iterator[Series]:
    task = group.task
    if task is None or group.unlike:
        return
    for name in ("zero-shot", "self-cascade", "moa", "majority"):
        control = group.untrained(task, name)
        if control:
            label = "vote, untrained" if name == "majority" else name
            yield _mark(label, "base", "diamond", [control], "total")
    for method in group.methods:
        colour = colour_of(method)
        headline = [one for one in group.entrants(task) if one.method == method]
        if headline:
            yield _mark(method, colour, "dot", headline, "total")
        alone = [
            one
            for policy in ("A", "B")
            for one in group.entrants(task, policy)
            if one.method == method and "->" in _headline(one)
        ]
        if alone:
            yield _mark(f"{method} alone", colour, "triangle", alone, "total")
        vote = [one for one in group.entrants(task, "majority") if one.method == method]
        if vote:
            yield _mark(f"{method} vote", colour, "square", vote, "total")


def _headline(entrant: Entrant) -> str:
    return str(entrant.result["headline"])


def _mark(label: str, colour: str, mark: Mark, entrants: Sequence[Entrant], cost: str) -> Series:
    correct = np.concatenate([one.correct for one in entrants], axis=1)
    figures = [one.result["arms"][one.arm] for one in entrants]
    spent = fmean(one["tokens"]["total"] if cost == "total" else one[cost] for one in figures)
    low, high = accuracy_interval(correct)
    rate = 100 * float(correct.mean())
    spans = ((spent, 100 * low, 100 * high),) if cost != "total" else ()
    return Series(label, colour, ((spent, rate),), mark, spans=spans, named=True)


def paper_chart() -> Chart:
    marks = []
    for name in SHORT:
        reported = MAIN[name]
        assert reported.length is not None
        assert reported.interval is not None
        at = 1000 * reported.length
        untrained = name in ("zero-shot", "moa")
        colour = "base" if untrained else colour_of(name)
        mark: Mark = "diamond" if untrained else "dot"
        spans = ((at, *reported.interval),)
        marks.append(Series(name, colour, ((at, reported.accuracy),), mark, spans=spans, named=True))
    note = f"fig:results (a), with the intervals of tab:ci: {SETTING}."
    return Chart("The paper's", "tokens of a final-stage completion", "% right", tuple(marks), note)
