"""What `agon eval` and `agon compare` print: the arms of one evaluation, and the contrasts of several."""

from collections.abc import Mapping, Sequence
from typing import Any

from agon.reports.tables import Table, interval, number, p_value, percent, points

# Heading and the name of the figure below it. A figure that an arm lacks leaves its cell empty.
TOKENS = (("tokens", "total"), ("draft", "draft"), ("final", "final"), ("prompt", "prompt"))
RATES = (
    ("conv.", "converted"),
    ("corr.", "corrupted"),
    ("trunc.", "truncated"),
    ("malf.", "malformed"),
    ("leaks", "leaked"),
)
LEGEND = (
    "In percent, except lengths and tokens. length: mean of one final-stage completion; tokens: mean generated per "
    "answer, over both stages and every attempt (draft, final; prompt: tokens read); conv./corr.: wrong drafts made "
    "right/right drafts made wrong, of all; leaks: summaries that contain the gold answer."
)


def result_table(result: Mapping[str, Any], narrow: bool = False) -> Table:
    """One evaluation: an arm per row, the headline marked. The narrow form fits 80 columns."""
    tokens = TOKENS[:1] if narrow else TOKENS
    arms: Mapping[str, Mapping[str, Any]] = result["arms"]
    several = result["samples"] > 1
    best_of = f"pass@{result['samples']}"
    head = (
        "arm",
        "pass@1",
        "95% interval",
        *([best_of] if several else []),
        "length",
        *(title for title, _ in tokens),
        *(title for title, _ in RATES),
    )
    rows = tuple(
        (
            f"{name} *" if name == result["headline"] else name,
            percent(figures["pass@1"]),
            interval(figures["ci95"]),
            *([percent(figures[best_of])] if several else []),
            f"{figures['final_length']:.0f}",
            *(f"{figures['tokens'][key]:.0f}" for _, key in tokens),
            *(percent(figures.get(key)) for _, key in RATES),
        )
        for name, figures in arms.items()
    )
    return Table(_title(result), head, rows, tuple(_notes(result)))


def _notes(result: Mapping[str, Any]) -> Sequence[str]:
    notes = [f"* headline; direction {result['direction']}, chosen on {result['chosen_on']}."]
    for name in (play for play in result["arms"] if play.count("->") == 1):
        figures = result["arms"][name]
        given, alone = figures["conversion_given_wrong_draft"], figures.get("alone_given_wrong_draft")
        notes.append(
            f"{name}: of wrong drafts {percent(given) or '-'} converted (the same policy without a draft: "
            f"{percent(alone) or '-'}); length after a right draft "
            f"{number(figures['length_given_right_draft'])}, after a wrong one "
            f"{number(figures['length_given_wrong_draft'])}."
        )
    if "complementarity" in result:
        figures = result["complementarity"]
        notes.append(
            f"A and B alone: disagree on {percent(figures['disagreement'])}, either right "
            f"{percent(figures['union'])}, error correlation {number(figures['error_correlation'], 2)}."
        )
    notes.append(f"Intervals: {result['intervals']}.")
    return [*notes, LEGEND, *result["notes"]]


def compare_tables(comparison: Mapping[str, Any]) -> tuple[Table, Table]:
    """The sides of a comparison with their spread over seeds, and the contrasts."""
    sides = tuple(
        (
            label if position == 0 else "",
            run["run"],
            "" if run["seed"] is None else str(run["seed"]),
            run["arm"],
            percent(run["pass@1"]),
            interval(run["ci95"]),
        )
        for label, side in comparison["sides"].items()
        for position, run in enumerate(side["runs"])
    )
    spreads = tuple(
        f"{label}: mean {percent(spread['mean'])} over {spread['runs']} seeds, deviation of training runs "
        f"{percent(spread['training'])} points, sampling error of one run {percent(spread['sampling'])} points, "
        f"95% over runs {interval(spread['interval'])}."
        for label, side in comparison["sides"].items()
        if (spread := side["across_seeds"])
    )
    contrasts = tuple(
        (
            f"{row['first']} - {row['second']}",
            points(row["difference"]),
            interval(row["ci95"]),
            f"{number(row['only_first'])}/{number(row['only_second'])}",
            p_value(row["p"]),
            p_value(row["p_holm"]),
            p_value(row["across_seeds"]["p"]) if row["across_seeds"] else "",
        )
        for row in comparison["contrasts"]
    )
    tests = sorted({row["test"] for row in comparison["contrasts"]})
    notes = (
        f"p: {' and '.join(tests)}; interval: bootstrap over problems. Both hold for these training runs.",
        "p seeds: Welch's test over the runs' accuracies; it needs two seeds or more on both sides.",
    )
    return (
        Table(_title(comparison), ("side", "run", "seed", "arm", "pass@1", "95% interval"), sides, spreads),
        Table(
            "Contrasts, paired by problem",
            ("contrast", "points", "95% interval", "only 1st/2nd", "p", "p Holm", "p seeds"),
            contrasts,
            notes,
        ),
    )


def _title(result: Mapping[str, Any]) -> str:
    samples = "one sample" if result["samples"] == 1 else f"{result['samples']} samples"
    return f"{result['task']} {result['split']}: {result['n']} problems, {samples} each"
