"""What commands share in what they print: formats of tables, and what a long job is doing.

On a terminal a long job has a line that is drawn in place; elsewhere it prints a line a minute.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agon.printing import console as plain_console
from agon.printing import plain, say

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
            say(markdown(table) + "\n")
        elif form == "latex":
            say(latex(table) + "\n")
        else:
            print_rich(table)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what a command waits for: at once on a terminal, where the line is wiped in the end."""
    from agon.train.minute_lines import MinuteLines
    from agon.train.processes import Launched

    began = time.monotonic()
    if not sys.stderr.isatty() or not Launched.read().main:
        with MinuteLines(lambda: f"agon: still {what}, for {time.monotonic() - began:.0f} s"):
            yield
        return
    sys.stderr.write(f"\r{plain(what)} …")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


def quiet_loading() -> None:
    """No bar for reading weights from disk; downloads keep theirs."""
    from huggingface_hub.utils import enable_progress_bars
    from transformers.utils import logging

    logging.disable_progress_bar()
    enable_progress_bars()


@contextmanager
def progress_bars() -> "Iterator[Watch]":
    """A line of progress with the time left for each split that is played, on standard error."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from agon.train.minute_lines import MinuteLines

    console = plain_console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    doing = ["loading the model"]
    lines = MinuteLines(lambda: f"agon: {doing[0]}")
    if not console.is_terminal:
        lines.start()
    try:
        with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
            first = bars.add_task("loading the model", total=None)

            def watch(what: str) -> Callable[[int, int], None]:
                bars.update(first, visible=False)
                bar = bars.add_task(what, total=None)

                def update(done: int, total: int) -> None:
                    doing[0] = f"{what}: {done} of {total}"
                    bars.update(bar, completed=done, total=total)

                return update

            yield watch
    finally:
        lines.stop()
