"""What commands share in what they print: formats of tables, a line of progress for each split played."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agon.evaluate.evaluate import Watch
    from agon.reports.tables import Table


def add_formats(parser: argparse.ArgumentParser) -> None:
    """The ways to print a result; a table on the terminal if none is asked for."""
    forms = parser.add_mutually_exclusive_group()
    for name in ("json", "markdown", "latex"):
        forms.add_argument(f"--{name}", action="store_const", dest="form", const=name)


def show_tables(shown: "list[Table]", form: str | None) -> None:
    """Print tables in the form asked for."""
    from agon.reports.tables import latex, markdown, print_rich

    for table in shown:
        if form == "markdown":
            print(markdown(table) + "\n")
        elif form == "latex":
            print(latex(table) + "\n")
        else:
            print_rich(table)


@contextmanager
def progress_bars() -> "Iterator[Watch]":
    """A line of progress with the time left for each split that is played, on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:

        def watch(what: str) -> Callable[[int, int], None]:
            bar = bars.add_task(what, total=None)
            return lambda done, total: bars.update(bar, completed=done, total=total)

        yield watch
