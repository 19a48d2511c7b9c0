"""The report of what was given: its sections in their order, its verdicts for a program, its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.errors import InputError
from agon.reports.page.html import html
from agon.reports.page.latex import latex
from agon.reports.page.markdown import markdown
from agon.reports.page.material import Material, read_material
from agon.reports.page.model import Listing, Page, Section, Text
from agon.reports.page.sections import account, costs, duels, main, reading, repeat, settings, training, words
from agon.reports.page.verdicts import Verdict
from agon.runs.files import write_text

SUFFIXES = (".html", ".md", ".tex")


@dataclass(frozen=True)
class Asked:
    """What a report may be asked for besides its runs."""

    title: str | None = None
    copying: bool = False
    duels: int = 1
    duels_of: str = "training"
    path: str | None = None

    def words(self) -> list[str]:
        """The options of `agon report` that ask for the same."""
        found = ["--copying"] if self.copying else []
        for name in ("title", "duels", "duels_of", "path"):
            value = getattr(self, name)
            if value != getattr(PLAIN, name):
                found += [f"--{name.replace('_', '-')}", str(value)]
        return found


PLAIN = Asked()


@dataclass(frozen=True)
class Report:
    """A page and the verdicts on it."""

    page: Page
    verdicts: dict[str, list[Verdict]]
    material: Material

    def record(self) -> dict[str, Any]:
        """The verdicts and the state of every cell, for a program."""
        entries = self.material.entries
        return {
            "groups": [
                {
                    "label": group.label,
                    "task": group.task,
                    "runs": [run.name for run in group.runs],
                    "verdicts": [one.record() for one in self.verdicts.get(group.label, [])],
                }
                for group in self.material.groups
            ],
            "cells": [
                {name: getattr(one, name) for name in ("name", "group", "method", "seed", "state", "trouble")}
                for one in entries
            ],
        }


def build_report(places: Sequence[str], defaults: Mapping[str, Any], asked: Asked = PLAIN) -> Report:
    """Read what was given and make its page; `defaults` are the options of `agon train` that nobody set."""
    material = read_material(places)
    verdicts = words.answers(material)
    made: list[Section | None] = [
        words.words_section(material, verdicts),
        account.cells_section(material),
        main.main_section(material),
        settings.ablations_section(material),
        settings.scaling_section(material),
        settings.transfer_section(material),
        settings.density_section(material),
        costs.length_section(material),
        training.held_out_section(material),
        costs.tokens_section(material),
        training.training_section(material),
        reading.transitions_section(material),
        reading.copying_section(material) if asked.copying else None,
        reading.complementarity_section(material),
        account.budget_section(material),
        account.rates_section(material),
        account.arms_section(material),
        duels.duels_section(material, asked.duels, asked.duels_of, asked.path) if asked.duels else None,
        account.environment_section(material),
        repeat.repeat_section(material, defaults, asked.words()),
    ]
    sections = [section for section in made if section]
    missing = account.untold(material, sections)
    if missing:
        note = Section(
            "Not in this report", "missing", (Text("This data has nothing for:"), Listing(tuple(missing)))
        )
        sections.append(note)
    return Report(Page(asked.title or _title(material), _lead(material), tuple(sections)), verdicts, material)


def refuse_forms(targets: Sequence[Path]) -> None:
    """Refuse files whose names ask for a form that a report does not have."""
    for target in targets:
        if target.suffix not in SUFFIXES:
            raise InputError(f"A report is written as {', '.join(SUFFIXES)}, not as '{target.name}'.")


def write_report(report: Report, targets: Sequence[Path]) -> None:
    """Write the page in the form that each file's name asks for, the pictures of Markdown in a folder beside it."""
    refuse_forms(targets)
    for target in targets:
        pictures: dict[str, str] = {}
        folder = f"{target.stem}-figures"
        if target.suffix == ".md":
            text, pictures = markdown(report.page, folder)
        else:
            text = html(report.page) if target.suffix == ".html" else latex(report.page)
        write_text(target, text)
        for name, picture in pictures.items():
            write_text(target.parent / folder / name, picture)


def _title(material: Material) -> str:
    entries = material.entries
    if len(entries) == 1:
        return f"Report of {entries[0].name}"
    models = {str(run.config.get("model")).rstrip("/").rpartition("/")[2] for run in material.trained}
    tasks = {str(run.config.get("task")).split(",")[0] for run in material.trained}
    if len(models) == len(tasks) == 1:
        return f"{models.pop()} on {tasks.pop()}"
    return f"Report of {len(entries)} runs"


def _lead(material: Material) -> str:
    done = [entry for entry in material.entries if entry.counts]
    methods = dict.fromkeys(run.method for run in material.trained)
    cells = len(material.entries)
    said = (
        f"{len(done)} of {cells} finished"
        if len(done) < cells
        else ("1 run" if cells == 1 else f"{cells} runs")
    )
    named = f", {', '.join(f'`{name}`' for name in methods)}" if methods else ""
    tasks = list(dict.fromkeys(task for group in material.groups for task in group.tasks))
    tested = f"; tested on {', '.join(tasks)}" if tasks else "; nothing was tested"
    return f"{said}{named}{tested}. Every figure comes from the runs; every sentence from a test of them."
