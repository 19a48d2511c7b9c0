"""What finals made of the drafts they read, and how differently two policies fail."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from agon.judges.pool import JudgePool
from agon.reports.exchange import cascades, exchange_table
from agon.reports.page.material import Group, Material
from agon.reports.page.model import Beside, Block, Flow, Heading, Section, Text
from agon.reports.tables import Table, number, percent
from agon.reports.transitions import read_directions, transitions_table

PARTS = ("both_right", "corrupted", "converted", "both_wrong")
Arm = tuple[str, dict[str, Any]]


def transitions_section(material: Material) -> Section | None:
    """A flow for each method, and what reading added, direction by direction."""
    blocks: list[Block] = []
    for group in material.groups:
        if group.task is None:
            continue
        flows = tuple(_flows(group, group.task))
        if flows and len(material.groups) > 1:
            blocks.append(Heading(group.label))
        if flows:
            blocks.append(Beside(flows))
        found = [
            cascade
            for record in [*group.plain, *group.runs]
            if not record.note
            for cascade in cascades(record, group.arms(record, group.task))
        ]
        if found:
            blocks.append(exchange_table(group.task, found))
    if not blocks:
        return None
    lead = Text(
        "In percent of drafts, all directions and seeds of a method together. Converted: wrong, then right after "
        "reading; corrupted: right, then wrong."
    )
    return Section("What reading did", "reading", (lead, *blocks))


def _flows(group: Group, task: str) -> Iterator[Flow]:
    arms = list(_arms(group, task))
    for name in dict.fromkeys(name for name, _ in arms):
        own = [figures for label, figures in arms if label == name]
        kept, corrupted, converted, wrong = (fmean(one[part] for one in own) for part in PARTS)
        yield Flow(name, kept, corrupted, converted, wrong)


def _arms(group: Group, task: str) -> Iterator[Arm]:
    """Every arm in which one draft was read, with its method; the untrained model reading itself first."""
    for record in group.plain:
        evaluation = record.evaluations("test").get(task)
        arms = group.results(evaluation)["arms"] if evaluation else {}
        if "self-cascade" in arms:
            yield "untrained, reading itself", arms["self-cascade"]
    for record in group.runs:
        evaluation = record.evaluations("test").get(task)
        if evaluation is None or record.note:
            continue
        for name, figures in group.results(evaluation)["arms"].items():
            if name.count("->") == 1:
                itself = name.split("->")[0] == name.split("->")[1]
                yield f"{record.method}, reading itself" if itself else record.method, figures


def copying_section(material: Material) -> Section | None:
    """How often finals give their draft's answer; wrong answers are compared by the math judge, which takes a while."""
    blocks: list[Block] = []
    with JudgePool("math") as pool:
        for group in material.groups:
            for task in group.tasks:
                records = [*group.plain, *group.runs]
                found = [
                    each for record in records for each in read_directions(record, task, pool, group.results)
                ]
                label = f"{group.label}: " if len(material.groups) > 1 else ""
                if found:
                    blocks.append(transitions_table(f"{label}{task} test, what finals took over", found))
        undecided = pool.counts.timeouts + pool.counts.crashes + pool.counts.errors
    if undecided:
        blocks.append(
            Text(f"{undecided} pairs of wrong answers could not be compared and count as different.")
        )
    return Section("Copying", "copying", tuple(blocks)) if blocks else None


def complementarity_section(material: Material) -> Section | None:
    """How differently the policies of a pair fail, each alone."""
    rows = []
    for group in material.groups:
        for record in group.runs:
            for task, evaluation in record.evaluations("test").items():
                result = group.results(evaluation)
                figures = result.get("complementarity")
                if figures:
                    arms = result["arms"]
                    rows.append(
                        (
                            *(record.name, task, percent(arms["A"]["pass@1"]), percent(arms["B"]["pass@1"])),
                            *(percent(figures["disagreement"]), percent(figures["union"])),
                            number(figures["error_correlation"], 2),
                            percent(arms[result["headline"]]["pass@1"]),
                        )
                    )
    if not rows:
        return None
    head = ("run", "task", "A alone", "B alone", "disagree", "either right", "error correlation", "cascade")
    notes = (
        "In percent. disagree: one right and the other wrong; either right: the ceiling of any way to choose between "
        "the two; error correlation: 1 if they fail on the same samples, 0 if independently. cascade: the headline.",
    )
    return Section(
        "Complementarity",
        "complementarity",
        (Table("The policies of a pair, alone", head, tuple(rows), notes),),
    )
