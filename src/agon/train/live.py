"""What a person sees while a run is going: a live table on a terminal, plain lines elsewhere.

It fits a terminal of 80 columns. Leaving its `with` block gives the terminal back, whatever happened.
"""

import time
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from transformers import TrainerCallback

from agon.printing import console as plain_console
from agon.train.minute_lines import MinuteLines

# What the view shows of a step: a label, the metric, and how it is written.
SHOWN = (
    ("A right", "A/correct", "{:.0%}"),
    ("B right", "B/correct", "{:.0%}"),
    ("drafts", "draft/correct", "{:.0%}"),
    ("challenges", "challenge/correct", "{:.0%}"),
    ("converted", "duel/converted", "{:.1%}"),
    ("corrupted", "duel/corrupted", "{:.1%}"),
    ("dropped", "draft/dropped_groups", "{:.0%}"),
    ("tokens/s", "time/tokens_per_second", "{:,.0f}"),
)


class LiveView(TrainerCallback):
    """Shows step, time left, both policies' accuracy, conversions and corruptions, tokens per second."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or plain_console(stderr=True)
        self._progress = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(bar_width=18),  # with the other columns, 80 characters
            TimeElapsedColumn(),
            TextColumn("left {task.fields[left]}"),
            TextColumn("[dim]{task.fields[doing]}"),
            console=self._console,
        )
        self._live: Live | None = None
        self._bar: Any = None
        self._first = (0, 0.0)
        self._last: dict[str, float] = {}
        self._validations: list[tuple[int, dict[str, float]]] = []
        self._doing = "loading the model"
        self._step = (0, 0)
        self._warning = ""
        self._minutes = MinuteLines(self._minute_line)

    def __enter__(self) -> "LiveView":
        if not self._console.is_terminal:
            self._minutes.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the terminal back: the cursor is shown again and nothing is drawn over what follows."""
        self._minutes.stop()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def sampling(self, done: int, wanted: int) -> None:
        """How far the rollouts of the present round are; `AgonTrainer.on_sampling` takes this."""
        self._does(f"sampled {done} of {wanted}")

    def warn(self, sentence: str | None) -> None:
        """Show a sentence until the next round has nothing to warn of; `AgonTrainer.on_warning` takes this."""
        new, self._warning = (sentence or "") != self._warning, sentence or ""
        if self._live is not None:
            self._live.update(self._picture())
        elif sentence and new:
            self._console.print(f"warning: {sentence}", highlight=False, soft_wrap=True, markup=False)
            self._minutes.printed()

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._does("training")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._step = (state.global_step, state.max_steps)
        if control.should_evaluate:
            self._does("validating")

    def _does(self, what: str) -> None:
        self._doing = what
        if self._live is not None:
            self._progress.update(self._bar, doing=what)

    def _minute_line(self) -> str:
        step, last = self._step
        said = f"step {step}/{last}  {self._doing}" if last else f"still {self._doing}"
        return f"{said}  warning: {self._warning}" if self._warning else said

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if not state.is_world_process_zero:
            return
        self._first = (state.global_step, time.monotonic())
        self._step, self._doing = (state.global_step, state.max_steps), "sampling"
        self._bar = self._progress.add_task(
            "step", total=state.max_steps, completed=state.global_step, left="…", doing=""
        )
        if self._console.is_terminal:
            self._live = Live(self._picture(), console=self._console, refresh_per_second=4)
            self._live.start()

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        if not logs or not state.is_world_process_zero:
            return
        if "eval_best" in logs:
            self._validations.append((state.global_step, logs))
        if "loss" in logs:
            self._last = logs
        if self._live is not None:
            self._progress.update(
                self._bar, completed=state.global_step, left=self._left(state), doing="training"
            )
            self._live.update(self._picture())
        elif "loss" in logs or "eval_best" in logs:
            self._console.print(self._line(state, logs), highlight=False, soft_wrap=True)
            self._minutes.printed()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._live is not None:
            self._progress.update(self._bar, completed=state.global_step, doing="")
            self._live.update(self._picture())
        self.close()

    def _left(self, state: Any) -> str:
        done = state.global_step - self._first[0]
        if not done:
            return "…"
        seconds = (time.monotonic() - self._first[1]) / done * (state.max_steps - state.global_step)
        return f"{int(seconds // 60)}:{int(seconds % 60):02d}"

    def _line(self, state: Any, logs: dict[str, float]) -> str:
        head = f"step {state.global_step}/{state.max_steps}"
        if "eval_best" in logs:
            return f"{head}  validation: " + ", ".join(
                f"{name} {rate:.1%}" for name, rate in _accuracies(logs)
            )
        shown = ", ".join(f"{label} {form.format(logs[key])}" for label, key, form in SHOWN if key in logs)
        return f"{head}  {shown}, left {self._left(state)}"

    def _picture(self) -> Group:
        table = Table(box=None, pad_edge=False)
        for label, key, _ in SHOWN:
            if key in self._last:
                table.add_column(label, justify="right")
        table.add_row(*[form.format(self._last[key]) for _, key, form in SHOWN if key in self._last])
        parts: list[Any] = [self._progress]
        if self._last:
            parts.append(table)
        if self._validations:
            parts.append(self._validation_table())
        if self._warning:
            parts.append(Text(f"warning: {self._warning}", style="yellow"))
        return Group(*parts)

    def _validation_table(self) -> Table:
        table = Table(title="validation", title_justify="left", box=None, pad_edge=False)
        table.add_column("step", justify="right")
        for name, _ in _accuracies(self._validations[0][1]):
            table.add_column(name, justify="right")
        for step, logs in self._validations[-6:]:
            table.add_row(str(step), *[f"{rate:.1%}" for _, rate in _accuracies(logs)])
        return table


def _accuracies(logs: dict[str, float]) -> list[tuple[str, float]]:
    """Every arm's accuracy: cascades and policies alone, side by side so that a collapse shows."""
    names = [key.removeprefix("eval_").removesuffix("/correct") for key in logs if key.endswith("/correct")]
    return [(name, logs[f"eval_{name}/correct"]) for name in names]
