"""Results as tables: on a terminal, in Markdown, in LaTeX. Rates are shown in percent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

# Heading → the figure below it. A figure that an arm lacks leaves its cell empty.
TOKENS = (("tokens", "total"), ("draft", "draft"), ("final", "final"), ("prompt", "prompt"))
RATES = (
    ("conv.", "converted"),
    ("corr.", "corrupted"),
    ("trunc.", "truncated"),
    ("malf.", "malformed"),
    ("leaks", "leaked"),
)
LEGEND = (
    "In percent but for tokens. length: mean of one final-stage completion; tokens: mean written per answer, "
    "both stages and every attempt (draft, final; prompt is what was read); conv./corr.: wrong drafts made "
    "right/right ones made wrong, of all; leaks: summaries that show the gold."
)


@dataclass(frozen=True)
class Table:
    """A title, headings, rows of text, and lines to read below."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def result_table(result: Mapping[str, Any], narrow: bool = False) -> Table:
    """One evaluation: an arm per row, the headline marked. A narrow one fits 80 columns."""
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
    where = _title(comparison)
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
        f"{label}: mean {percent(seen['mean'])} over {seen['runs']} seeds, deviation of training runs "
        f"{percent(seen['training'])} points, sampling error of one run {percent(seen['sampling'])} points, "
        f"95% over runs {interval(seen['interval'])}."
        for label, side in comparison["sides"].items()
        if (seen := side["across_seeds"])
    )
    contrasts = tuple(
        (
            f"{row['first']} - {row['second']}",
            f"{100 * row['difference']:+.1f}",
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
        Table(where, ("side", "run", "seed", "arm", "pass@1", "95% interval"), sides, spreads),
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


def p_value(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def percent(rate: float | None) -> str:
    return "" if rate is None else f"{100 * rate:.1f}"


def interval(ends: Sequence[float]) -> str:
    low, high = ends
    return f"[{100 * low:.1f}, {100 * high:.1f}]"


def number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def print_rich(table: Table) -> None:
    shown = RichTable(title=table.title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    for position, title in enumerate(table.head):
        shown.add_column(title, justify="right" if position else "left", no_wrap=True)
    for row in table.rows:
        shown.add_row(*row)
    console = Console()
    console.print(shown)
    for note in table.notes:
        console.print(note, markup=False, highlight=False)


def markdown(table: Table) -> str:
    lines = [
        f"**{table.title}**",
        "",
        f"| {' | '.join(table.head)} |",
        f"| --- |{' ---: |' * (len(table.head) - 1)}",
        *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in table.rows),
        "",
        *(f"- {note.replace('*', chr(92) + '*')}" for note in table.notes),
    ]
    return "\n".join(lines)


def latex(table: Table) -> str:
    head, *rows = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in (table.head, *table.rows)]
    notes = r" \\ ".join(_tex(note) for note in table.notes)
    return "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{_tex(table.title)}.}}",
            r"\small",
            rf"\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\\[2pt] \footnotesize {notes}",
            r"\end{table}",
        ]
    )


def _tex(text: str) -> str:
    for mark in "&%#_$":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("->", r"$\to$")
