"""A table, on a terminal, in Markdown or in LaTeX, and how numbers are written in it. Rates are in percent."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table as RichTable

from agon.printing import console as plain_console
from agon.printing import one_line

LEAST_NAME = 6  # characters


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
    console = plain_console()
    shown = RichTable(title=one_line(table.title), title_justify="left", box=SIMPLE_HEAD, padding=0)
    (name, *titles), *rows = ([one_line(cell) for cell in row] for row in (table.head, *table.rows))
    figures = sum(
        max(map(cell_len, column)) for column in zip(titles, *(row[1:] for row in rows), strict=True)
    )
    # A name is folded before a figure is cut, unless next to nothing of it would be left.
    if console.width - figures - len(table.head) - 1 >= LEAST_NAME:
        shown.add_column(name, overflow="fold")
    else:
        shown.add_column(name, no_wrap=True)
    for title in titles:
        shown.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        shown.add_row(*row)
    console.print(shown)
    for note in table.notes:
        console.print(note)


def markdown(table: Table) -> str:
    lines = [
        f"**{_marked_up(table.title)}**",
        "",
        f"| {' | '.join(map(_marked_up, table.head))} |",
        f"| --- |{' ---: |' * (len(table.head) - 1)}",
        *(f"| {' | '.join(map(_marked_up, row))} |" for row in table.rows),
        "",
        *(f"- {_marked_up(note).replace('*', chr(92) + '*')}" for note in table.notes),
    ]
    return "\n".join(lines)


def latex(table: Table) -> str:
    head, *rows = [" & ".join(tex(cell) for cell in row) + r" \\" for row in (table.head, *table.rows)]
    notes = r" \\ ".join(tex(note) for note in table.notes)
    return "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{tex(table.title)}.}}",
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


def _marked_up(text: str) -> str:
    """Text that Markdown shows as it is: no column of its own, no HTML, no link and no picture."""
    no_tags = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", one_line(text))
    return no_tags.replace("](", "]\\(").replace("|", "\\|" if "\\" not in text else "&#124;")


TEX = {
    **{mark: f"\\{mark}" for mark in "&%#_${}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "->": r"$\to$",
    "--": "-{}-",
    "–": "--",
    "…": r"\ldots{}",
}


def tex(text: str) -> str:
    """Text that LaTeX shows as it is: no command, and no character that its fonts lack."""
    return tex_characters(one_line(text))


def tex_characters(text: str) -> str:
    """The same for a piece of a line, whose blanks at the ends stay."""
    escaped = re.sub(r"->|--|[&%#_${}\\~^<>|\"`–…]", lambda found: TEX[found[0]], text)
    return re.sub(r"[^\x20-\x7e\xa0-\xff]", lambda found: f"[U+{ord(found[0]):04X}]", escaped)
