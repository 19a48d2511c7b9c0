"""The main table: every method with its interval, the untrained controls above, the paper's figures beside."""

from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np

from agon.evaluate.compare import Entrant, compare, sides
from agon.evaluate.intervals import accuracy_interval, spread
from agon.reports.evaluation_tables import compare_tables
from agon.reports.page.material import Group, Material
from agon.reports.page.model import Block, Heading, Section, Text
from agon.reports.page.paper import CITED, CODE, MAIN, MAIN_SOURCE, SETTING, Reported
from agon.reports.tables import Table, interval, number, percent

HEAD = ("method", "answered by", "seeds", "pass@1", "95% interval", "over seeds", "length", "tokens")
PAPER = ("paper", "paper's interval", "paper's length")
CONTROLS = ("zero-shot", "self-cascade", "moa", "majority")


def main_section(material: Material) -> Section:
    blocks = [block for group in material.groups for block in _group(material, group)]
    return Section("Main table", "main", tuple(blocks) or (Text("Nothing was tested: run `agon eval`."),))


def _group(material: Material, group: Group) -> Iterator[Block]:
    if group.task is None:
        return
    if len(material.groups) > 1:
        yield Heading(group.label)
    if group.unlike:
        yield Text(f"The runs are not compared. {group.unlike}")
        return
    yield main_table(group, group.task)
    yield from code_note(group.task)
    yield from contrasts(group, group.task)


def code_note(task: str) -> Iterator[Text]:
    """The paper's second domain, for runs on programs."""
    if "code" in task.lower():
        said = ", ".join(f"`{name}` {one.accuracy:g}" for name, one in CODE.items())
        yield Text(f"The paper's second domain (tab:code, Qwen3-1.7B on CodeContests EASY): {said}.")


def main_table(group: Group, task: str) -> Table:
    """A row for each untrained control and each method, its seeds together."""
    entrants = group.entrants(task)
    rows = [
        _row(f"{name}, untrained", "", [control], MAIN.get(name))
        for name in CONTROLS
        if (control := group.untrained(task, name))
    ]
    for side in sides(entrants):
        rows.append(_row(f"**{side.label}**", _arms(side.entrants), side.entrants, MAIN.get(side.label)))
        if side.label == "grpo":
            noted = {record.name for record in group.runs if record.note}
            again = [
                one for one in group.entrants(task, "A->A") if one.method == "grpo" and one.name not in noted
            ]
            if again:
                rows.append(_row("grpo, two passes", "A->A", again, MAIN["grpo, two passes"]))
    first = (entrants or [one for one in [group.untrained(task)] if one])[0].result
    return Table(
        f"{task} test: {first['n']} problems, samples per problem: {first['samples']}",
        (*HEAD, *PAPER),
        tuple(rows),
        (
            "In percent, except lengths and tokens. answered by: the direction or policy of each seed, chosen on "
            "validation. 95% interval: over problems, for these training runs. over seeds: Student's interval over the "
            "runs' accuracies. length: mean of one final-stage completion; tokens: mean generated per answer, both "
            "stages and every attempt counted.",
            f"paper: {SETTING}, one training run each, the better direction chosen on the test problems, length in "
            f"thousands of tokens ({MAIN_SOURCE} of {CITED}). Another model and other problems: compare the order and "
            "the differences, not the levels.",
            *_rates(group),
        ),
    )


def _rates(group: Group) -> Iterator[str]:
    """Which method was trained at which learning rate, where they differ."""
    if len(group.rates) > 1:
        said = (f"{rate:g} for {', '.join(methods)}" for rate, methods in group.rates.items())
        yield f"Learning rates: {'; '.join(said)}."


def _arms(entrants: Sequence[Entrant]) -> str:
    return ", ".join(dict.fromkeys(one.arm for one in entrants))


def _row(label: str, arms: str, entrants: Sequence[Entrant], paper: Reported | None) -> tuple[str, ...]:
    correct = np.concatenate([one.correct for one in entrants], axis=1)
    figures = [one.result["arms"][one.arm] for one in entrants]
    seeds = spread([one.correct for one in entrants])
    reported = ("", "", "")
    if paper:
        ends = f"[{paper.interval[0]:.1f}, {paper.interval[1]:.1f}]" if paper.interval else ""
        reported = (f"{paper.accuracy:g}", ends, f"{paper.length:.1f}k" if paper.length else "")
    return (
        *(label, arms, str(len(entrants)) if arms else ""),
        *(percent(float(correct.mean())), interval(accuracy_interval(correct))),
        interval(seeds.interval) if seeds and seeds.training else "",
        number(fmean(one["final_length"] for one in figures)),
        number(fmean(one["tokens"]["total"] for one in figures)),
        *reported,
    )


def contrasts(group: Group, task: str) -> Iterator[Block]:
    """Later rows of the table of methods against earlier ones: coop:grpo, agon:grpo, agon:coop."""
    entrants = group.entrants(task)
    labels = [side.label for side in sides(entrants)]
    asked = [(one, other) for place, one in enumerate(labels) for other in labels[:place]]
    if asked:
        yield from compare_tables(compare(entrants, asked))
    elif labels:
        yield Text(f"{task}: there are no two methods to contrast, only `{labels[0]}`.")
