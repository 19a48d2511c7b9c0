"""A table, on a terminal, in Markdown or in LaTeX, and how numbers are written in it. Rates are in percent."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable


@dataclass(frozen=True)
class Table:
    """A title, headings, rows of text, and lines to read below."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def percent(rate: float | None) -> str:
    return "" if rate is None else f"{100 * rate:.1f}"


def points(difference: float) -> str:
    """A difference between two rates, in percentage points."""
    return f"{100 * difference:+.1f}"


def interval(ends: Sequence[float]) -> str:
    low, high = ends
    return f"[{100 * low:.1f}, {100 * high:.1f}]"


def number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def p_value(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"


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
