"""What a person sees while a sweep runs: a live table on a terminal, plain lines elsewhere.

Nothing runs beside the loop of the sweep: it calls `tick` between two looks at its cells.
"""

import sys
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from agon.lab.sweep.progress import Row, counted, duration, row_of, seconds_left, step_of
from agon.printing import console as plain_console
from agon.printing import one_line, say
from agon.reports.tables import percent
from agon.runs.sweep_folder import DONE, FAILED, RUNNING, Cell, CellState, SweepFolder

EVERY_S = 1.0  # between two pictures
LINE_S = 60.0  # between two lines
SHOWN = 30  # cells that fit a picture: those that run first, then those that failed


class SweepView:
    """Shows where the cells of a sweep are, with an estimate of the time left."""

    def __init__(self, folder: SweepFolder, cells: Sequence[Cell], parallel: int) -> None:
        self._folder, self._cells, self._parallel = folder, list(cells), parallel
        self._console = plain_console(stderr=True)
        self._live: Live | None = None
        self._rows: dict[str, Row] = {}
        self._stages: dict[str, str] = {}
        self._last = self._printed = time.monotonic()

    def __enter__(self) -> "SweepView":
        self._read(everything=True)
        self._stages = {row.cell: row.stage for row in self._rows.values() if row.state == RUNNING}
        if self._console.is_terminal:
            self._live = Live(self._picture(), console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._read(everything=True)
            self._live.update(self._picture(), refresh=True)
            self._live.stop()
            self._live = None

    def tick(self) -> None:
        """Called often; looks at the cells once a second."""
        now = time.monotonic()
        if now - self._last < EVERY_S:
            return
        self._last = now
        self._read()
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
            return
        for row in self._rows.values():
            if row.state == RUNNING and self._stages.get(row.cell) != row.stage:
                self._stages[row.cell] = row.stage
                self._line(f"{row.cell}: {row.stage}")
        if now - self._printed >= LINE_S:
            going = [
                f"{row.cell} {row.stage} {step_of(row)}"
                for row in self._rows.values()
                if row.state == RUNNING
            ]
            self._line(f"{self._summary()}; {', '.join(each.strip() for each in going[:4])}")

    def ended(self, cell: Cell, state: CellState) -> None:
        """A cell has ended."""
        self._rows[cell.name] = row = row_of(self._folder, cell, self._steps(cell))
        if self._live is not None:
            return
        if state.state == DONE:
            self._line(f"{cell.name}: done in {duration(row.seconds)}; {self._summary()}")
        elif state.state == FAILED:
            self._line(f"{cell.name}: failed in {state.stage or 'its start'}: {one_line(state.error)}")
        else:
            self._line(f"{cell.name}: stopped in {state.stage or 'its queue'}")

    def _read(self, everything: bool = False) -> None:
        for cell in self._cells:
            known = self._rows.get(cell.name)
            if everything or known is None or known.state not in (DONE, FAILED):
                self._rows[cell.name] = row_of(self._folder, cell, self._steps(cell))

    def _steps(self, cell: Cell) -> int | None:
        """Read once: a recipe takes longer to read than all the rest."""
        known = self._rows.get(cell.name)
        return known.steps if known is not None else None

    def _summary(self) -> str:
        rows = list(self._rows.values())
        return f"{counted(rows)}; left {duration(seconds_left(rows, self._parallel))}"

    def _line(self, text: str) -> None:
        self._printed = time.monotonic()
        say(text, file=sys.stderr, flush=True)

    def _picture(self) -> Group:
        order = {RUNNING: 0, FAILED: 1}
        rows = sorted(self._rows.values(), key=lambda row: order.get(row.state, 2))
        table = Table(box=None, pad_edge=False)
        for position, name in enumerate(("cell", "state", "step", "right %", "time")):
            table.add_column(name, justify="right" if position > 1 else "left")
        for row in rows[:SHOWN]:
            table.add_row(row.cell, row.where, step_of(row), percent(row.right), duration(row.seconds))
        more = [Text(f"and {len(rows) - SHOWN} more")] if len(rows) > SHOWN else []
        return Group(Text(self._summary()), table, *more)
