"""What was run and what it cost: the state of every cell, budgets and whether they match, signal, time, environment."""

from collections.abc import Iterator, Sequence

from agon.errors import InputError
from agon.evaluate.compare import HEADLINE, compare, enter_arms
from agon.game.methods import METHODS
from agon.reports.evaluation_tables import compare_tables
from agon.reports.methods_table import against_zero_shot, methods_table
from agon.reports.page.material import ALIKE, Group, Material, Results, setting_name
from agon.reports.page.model import Block, Heading, Listing, Section, Text
from agon.reports.tables import Table
from agon.reports.training_tables import budget_table, gpu_table, rates_table, signal_table
from agon.runs.records import Record, differing_in_rate
from agon.runs.sweep_folder import DONE

# What must be the same for a comparison at a matched budget.
PARITY = (
    ("problems", lambda run: f"{run.rollouts // int(run.config['num_generations']):,}"),
    ("rollouts", lambda run: f"{run.rollouts:,}"),
    ("token cap", lambda run: str(run.config["max_completion_length"])),
    ("passes", lambda run: f"{float(run.config.get('num_train_epochs') or 1):g}"),
)
TIMED = ("time/step", "time/sampling", "time/tokens_per_second", "num_tokens")


def cells_section(material: Material) -> Section | None:
    """Where every cell is, if any of them is not done."""
    if all(entry.state == DONE for entry in material.entries):
        return None
    rows = tuple(
        (
            entry.name,
            entry.method or "untrained",
            "" if entry.seed is None else str(entry.seed),
            entry.state if entry.state == DONE else f"**{entry.state}**",
            entry.trouble,
        )
        for entry in material.entries
    )
    note = "Only finished runs are compared; what is known of the others is shown under Training and Budget."
    return Section(
        "Cells", "cells", (Table("Cells", ("cell", "method", "seed", "state", "why"), rows, (note,)),)
    )


def arms_section(material: Material) -> Section | None:
    """Every arm of every run, and each run against the untrained model."""
    blocks: list[Block] = []
    for group in material.groups:
        for task in group.tasks:
            found = group.entrants(task)
            if not found or group.unlike:
                continue
            if len(material.groups) > 1:
                blocks.append(Heading(f"{group.label}: {task}"))
            own = [arms["zero-shot"] for one in group.plain if "zero-shot" in (arms := group.arms(one, task))]
            zero = group.untrained(task)
            blocks.append(methods_table(found, own[0] if own else None))
            if zero:
                blocks.append(Listing(tuple(against_zero_shot(one, zero) for one in found)))
    return Section("Every run and every arm", "arms", tuple(blocks)) if blocks else None


def budget_section(material: Material) -> Section | None:
    """What each run was given, whether that is the same within each group, and how much of it taught something."""
    blocks: list[Block] = []
    timed: list[Record] = []
    for group in material.groups:
        runs = [run for run in group.begun if all(name in run.steps[0] for name in TIMED)]
        if not runs:
            continue
        timed += runs
        if len(material.groups) > 1:
            blocks.append(Heading(group.label))
        blocks.append(Text(parity(group)))
        blocks.append(budget_table(runs))
        # A method of one's own is not loaded for a report, and only its roles say who learned from what.
        known = [run for run in runs if run.method in METHODS and "draft/dropped_groups" in run.steps[0]]
        if known:
            blocks.append(signal_table(known))
    if timed:
        plain = [record for record in material.records if not record.trained]
        blocks += [Heading("Time"), gpu_table([*plain, *timed])]
    return Section("Budget and tokens", "budget", tuple(blocks)) if blocks else None


def parity(group: Group) -> str:
    """Whether the finished runs of a group had the same budget, in one sentence."""
    if not group.runs:
        return "No run of this group has finished."
    given = [(name, {run.name: read(run) for run in group.runs}) for name, read in PARITY]
    unequal = [(name, values) for name, values in given if len(set(values.values())) > 1]
    if not unequal:
        same = ", ".join(f"{name} {next(iter(values.values()))}" for name, values in given)
        word = (
            "The run has"
            if len(group.runs) == 1
            else f"All {len(group.runs)} finished runs have the same budget:"
        )
        return f"{word} {same}."
    listed = "; ".join(
        f"{name} " + ", ".join(f"{value} (`{run}`)" for run, value in values.items())
        for name, values in unequal
    )
    return f"The budgets differ: {listed}."


def rates_section(material: Material) -> Section | None:
    """How the learning rate was chosen, where runs of `grpo` differ in it."""
    buckets: dict[tuple[str, ...], list[Record]] = {}
    for run in material.trained:
        alike = tuple(str(run.config.get(name)) for name in ALIKE if name != "learning_rate")
        buckets.setdefault(alike, []).append(run)
    compared = [found for runs in buckets.values() if (found := differing_in_rate(runs))]
    blocks: list[Block] = []
    for found in compared:
        if len(compared) > 1:
            blocks.append(Heading(setting_name(found[0].config)))
        blocks += _rates(found, material.results)
    return Section("Learning rates", "rates", tuple(blocks)) if blocks else None


def _rates(found: Sequence[Record], results: Results) -> Iterator[Block]:
    task = str(found[0].task.get("name", ""))
    entrants = {
        one.name: enter_arms(str(one.folder), task, "validation", results)[HEADLINE]
        for one in found
        if task in one.evaluations("validation")
    }
    yield rates_table([(record, entrants.get(record.name)) for record in found])
    if len(entrants) > 1:
        try:
            yield compare_tables(compare(list(entrants.values())))[1]
        except InputError as error:
            yield Text(f"The rates are not compared. {error}")


def environment_section(material: Material) -> Section | None:
    """Versions and machines, each with the runs that had it where they differ."""
    records = [record for record in material.records if record.trained and record.environment]
    if not records:
        return None
    facts: dict[str, dict[str, list[str]]] = {}
    for record in records:
        for name, value in _facts(record):
            facts.setdefault(name, {}).setdefault(value, []).append(record.name)
    rows = tuple(
        (name, value if len(values) == 1 else f"{value} ({', '.join(runs)})")
        for name, values in facts.items()
        for value, runs in values.items()
    )
    return Section("Environment", "environment", (Table("Environment", ("what", "version or value"), rows),))


def _facts(record: Record) -> Iterator[tuple[str, str]]:
    found = record.environment
    for name in ("agon", "commit", "python", "gpu", "device", "processes", "engine", "sandbox"):
        if found.get(name) is not None:
            yield name, str(found[name])
    libraries = found.get("libraries")
    for name, version in libraries.items() if isinstance(libraries, dict) else ():
        yield name, str(version)


def untold(material: Material, sections: Sequence[Section]) -> list[str]:
    """The parts of a whole report that this data has nothing for."""
    there = {section.name for section in sections}
    wanted = {
        "ablations": "two methods of the paper's ablations",
        "scaling": "a second setting or model",
        "transfer": "a second task",
        "density": "runs of `agon` and of `agon-density`",
        "copying": "`--copying`, which compares wrong answers for a minute or so",
        "duels": "a run with its texts",
    }
    return [f"{name}: needs {what}." for name, what in wanted.items() if name not in there]
