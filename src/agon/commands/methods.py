"""Show the table of methods, or one row of it.

`challenge reward` is what a challenge b earns against the draft a, besides half a point for good
form, with c = 1 for a right answer and 0 for a wrong one. A draft earns 2c in every method.
`learns from` and `advantage` are columns of --json and --markdown; a method that differs in one of
them has a note.
"""

import argparse
import json
from typing import Any

from agon.game.methods import METHODS, Method, method
from agon.printing import console as plain_console
from agon.printing import say

# Heading → how a row fills it. The headings are the keys of --json.
COLUMNS = {
    "method": lambda row: row.name,
    "policies": lambda row: row.policies,
    "challenger reads": lambda row: row.reads,
    "paid against": lambda row: row.paid_against,
    "challenge reward": lambda row: row.formula,
    "roles": lambda row: row.roles,
    "evaluated as": lambda row: row.evaluated_as,
    "learns from": lambda row: row.learns_from,
    "advantage": lambda row: row.advantage,
    "note": lambda row: row.note,
}
# The terminal's table fits 80 columns; its notes stand below it.
WIDTHS = {
    "method": 12,
    "policies": 8,
    "challenger reads": 10,
    "paid against": 9,
    "challenge reward": 20,
    "roles": 6,
    "evaluated as": 9,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="show this method alone")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON list of rows")
    form.add_argument("--markdown", action="store_true", help="print a Markdown table")


def run(arguments: argparse.Namespace) -> int:
    rows = [method(arguments.name)] if arguments.name else list(METHODS.values())
    if arguments.json:
        say(json.dumps([columns(row) for row in rows], indent=2))
    elif arguments.markdown:
        say(markdown(rows))
    else:
        _print_table(rows)
    return 0


def columns(row: Method) -> dict[str, Any]:
    """A row of the table by its headings."""
    return {heading: fill(row) for heading, fill in COLUMNS.items()}


def markdown(rows: list[Method]) -> str:
    """The table as Markdown, the way the documentation shows it."""
    lines = [list(COLUMNS), ["---"] * len(COLUMNS)]
    for row in rows:
        name, *cells = map(str, columns(row).values())
        lines.append([f"`{name}`", *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _print_table(rows: list[Method]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=0)
    for heading, width in WIDTHS.items():
        table.add_column(heading, width=width)
    for row in rows:
        cells = columns(row)
        table.add_row(*(Text(str(cells[heading])) for heading in WIDTHS))
    console = plain_console()
    console.print(table)
    for row in rows:
        if row.note:
            console.print(Text(f"{row.name}: {row.note}."))
