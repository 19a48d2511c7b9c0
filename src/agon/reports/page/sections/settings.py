"""Methods across settings and tasks: ablations, several models or rates side by side, transfer, density."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from agon.evaluate.claims import claim_differences
from agon.evaluate.compare import Entrant, sides
from agon.game.methods import place_of
from agon.reports.page.material import Group, Material
from agon.reports.page.model import Block, Heading, Section
from agon.reports.page.paper import ABLATIONS, MAIN, SCALING, TRANSFER
from agon.reports.page.sections.main import HEAD, contrasts, main_table
from agon.reports.page.verdicts import equals
from agon.reports.tables import Table, interval, number, percent, points


def ablations_section(material: Material) -> Section | None:
    """The variants that the runs hold, each against `agon`."""
    blocks: list[Block] = []
    for group in material.groups:
        if group.task is None or group.unlike:
            continue
        entrants = group.entrants(group.task)
        there = {side.label for side in sides(entrants)}
        rows = [one for one in ABLATIONS if {one.variant, one.against} <= there]
        if not rows:
            continue
        tested = claim_differences(entrants, [(one.against, one.variant) for one in rows])
        cells = tuple(
            (
                row.factor,
                f"{row.variant} {percent(test.second_rate)}",
                f"{row.against} {percent(test.first_rate)}",
                points(test.difference),
                interval(test.interval),
                equals(test.p_holm),
                equals(test.p_seeds) if test.p_seeds is not None else "",
                f"{row.reported:+g}" if row.reported is not None else "not run",
            )
            for row, test in zip(rows, tested, strict=True)
        )
        if len(material.groups) > 1:
            blocks.append(Heading(group.label))
        head = (
            "factor",
            "variant",
            "against",
            "points",
            "95% interval",
            "p Holm",
            "p seeds",
            "paper's points",
        )
        note = (
            "points: what it is held against, less the variant, paired by problem; p Holm is corrected over the rows "
            "of this table. The paper's are differences of tab:ablations."
        )
        blocks.append(Table(f"{group.task} test: one choice changed at a time", head, cells, (note,)))
    return Section("Ablations", "ablations", tuple(blocks)) if blocks else None


def scaling_section(material: Material) -> Section | None:
    """Settings side by side, where there are several: models, rates, budgets, worlds."""
    tested = [group for group in material.groups if group.task and group.runs]
    if len(tested) < 2:
        return None
    methods = list(dict.fromkeys(name for group in tested for name in group.methods))
    methods.sort(key=place_of)
    rows = tuple(_setting(group, methods) for group in tested)
    head = ("setting", "zero-shot", *methods, "agon - grpo", "paper: zero-shot, grpo, agon")
    notes = (
        "pass@1 on each setting's own task, in percent, mean over seeds. The settings are not tested against each "
        "other.",
        "paper: tab:scaling, where it has this model.",
    )
    return Section("Settings side by side", "scaling", (Table("Scaling", head, rows, notes),))


def _setting(group: Group, methods: Sequence[str]) -> tuple[str, ...]:
    task = group.task or ""
    entrants = group.entrants(task)
    means = {name: _mean([one for one in entrants if one.method == name]) for name in methods}
    zero = group.untrained(task)
    grpo, agon = means.get("grpo"), means.get("agon")
    model = Path(str(group.runs[0].config.get("model", ""))).name.lower()
    paper = SCALING.get(model)
    return (
        group.label,
        percent(_mean([zero]) if zero else None),
        *(percent(means[name]) for name in methods),
        points(agon - grpo) if agon is not None and grpo is not None else "",
        ", ".join(f"{value:g}" for value in paper) if paper else "",
    )


def transfer_section(material: Material) -> Section | None:
    """The tasks that the runs were not trained on."""
    blocks: list[Block] = []
    for group in material.groups:
        for task in group.tasks[1:]:
            if group.unlike:
                continue
            if len(material.groups) > 1:
                blocks.append(Heading(f"{group.label}: {task}"))
            blocks += _transfer(group, task)
    return Section("Transfer", "transfer", tuple(blocks)) if blocks else None


def _transfer(group: Group, task: str) -> Iterator[Block]:
    table = main_table(group, task)
    reported = TRANSFER.get(task, {})
    keep = len(HEAD)
    rows = tuple(
        (*row[:keep], f"{reported[name]:g}" if (name := _name(row[0])) in reported else "")
        for row in table.rows
    )
    notes = (table.notes[0], "paper: tab:transfer, Qwen3-0.6B trained on DeepMath.")
    yield Table(table.title, (*table.head[:keep], "paper"), rows, notes)
    yield from list(contrasts(group, task))[1:]


def density_section(material: Material) -> Section | None:
    """The length tiebreak against the plain reward, as in the paper's side study."""
    blocks: list[Block] = []
    for group in material.groups:
        pair = [name for name in ("agon", "agon-density") if name in group.methods]
        if len(pair) < 2 or group.task is None or group.unlike:
            continue
        entrants = group.entrants(group.task)
        rows = []
        for name in pair:
            own = [one for one in entrants if one.method == name]
            if own:
                lengths = [one.result["arms"][one.arm]["final_length"] for one in own]
                paper = f"{MAIN[name].accuracy:g}, {MAIN[name].length:g}k"
                rows.append((name, percent(_mean(own)), number(fmean(lengths), 1), paper))
        head = ("reward", "pass@1", "length", "paper: pass@1, length")
        blocks.append(
            Table(f"{group.label}: the length tiebreak", head, tuple(rows), ("paper: tab:density.",))
        )
    return Section("Density", "density", tuple(blocks)) if blocks else None


def _mean(entrants: Sequence[Entrant]) -> float | None:
    return fmean(float(one.correct.mean()) for one in entrants) if entrants else None


def _name(label: str) -> str:
    return label.strip("*").removesuffix(", untrained")
