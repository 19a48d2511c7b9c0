"""What a warm-up changed, as a table."""

from collections.abc import Mapping
from typing import Any

from agon.reports.tables import Table, interval, number, p_value, percent, points


def warm_table(result: Mapping[str, Any]) -> Table:
    """Zero-shot, the untrained cascade, form and leaks, before and after."""
    rows = tuple(
        (
            f"{name.split(',')[0]}, {stage['dialect']}",
            percent(stage["zero_shot"]),
            interval(stage["zero_shot_ci95"]),
            percent(stage["cascade"]),
            percent(stage["well_formed"]),
            percent(stage["leaked"]),
            percent(stage["truncated"]),
            number(stage["length"]),
        )
        for name, stage in result["stages"].items()
    )
    made = result["examples"]
    notes = (
        f"{made['right']} of {made['solutions']} solutions were right; {made['drafts']} examples of a solution from "
        f"{made['problems']} problems, {made['challenges']} after another attempt.",
        f"Summaries: {made['own_words']} in the base's own words, {made['lines']} by lines of the solution; "
        f"{made['unusable']} solutions had none without the answer.",
        *(_contrast(name, found) for name, found in result["contrasts"].items()),
        "leaks: summaries in which the gold answer can be read, by chance too where it is short. "
        "form: well-formed completions. cascade: the model reads its own summary and answers.",
    )
    head = ("", "zero-shot", "95% interval", "cascade", "form", "leaks", "trunc.", "length")
    title = f"{result['task']} {result['split']}: {result['n']} problems, {result['dialect']} in {result['output']}"
    return Table(title, head, rows, notes)


def _contrast(name: str, found: Mapping[str, Any]) -> str:
    return (
        f"{name}: {points(found['difference'])} points {interval(found['interval'])}, "
        f"{found['test']} p {p_value(found['p'])}."
    )
