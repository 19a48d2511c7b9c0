"""What a terminal shows: it fits 80 columns, is given back in order, and a long job never stays silent."""

import contextlib
import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from agon.cli import COMMANDS, main
from agon.commands.output import progress_bars, working
from agon.runs.folder import Run
from agon.train.launch import lost
from agon.train.live import SHOWN, LiveView
from agon.train.minute_lines import MinuteLines

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"  # the cursor
LOGS = {"loss": 0.1, **{key: 0.5 for _, key, _ in SHOWN}, "time/tokens_per_second": 12345.0}


def view_on_a_terminal() -> tuple[LiveView, io.StringIO]:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=80, height=24, legacy_windows=False)
    return LiveView(console), shown


def state(step: int) -> Any:
    return SimpleNamespace(global_step=step, max_steps=12345, is_world_process_zero=True)


def test_the_live_view_fits_80_columns() -> None:
    view, shown = view_on_a_terminal()
    with view:
        view.on_train_begin(None, state(12340), None)
        view.on_log(None, state(12341), None, LOGS)
        view.sampling(1000, 2048)
        view.on_log(None, state(12342), None, {"eval_best": 0.5, "eval_A->B/correct": 0.5})
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue()).replace("\r", "\n")
    assert max(map(len, plain.splitlines())) <= 80
    heads = [line for line in plain.splitlines() if "A right" in line]
    assert all(label in heads[-1] for label, _, _ in SHOWN)
    assert "sampled 1000 of 2048" in plain or "training" in plain


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_while_training_leaves_the_cursor_visible(error: type[BaseException]) -> None:
    view, shown = view_on_a_terminal()

    def training() -> None:
        with view:
            view.on_train_begin(None, state(0), None)
            assert HIDE in shown.getvalue()
            raise error

    with pytest.raises(error):
        training()
    assert shown.getvalue().rindex(SHOW) > shown.getvalue().rindex(HIDE)


@pytest.mark.parametrize(
    "words", [["--help"], ["tasks"], ["methods"], *([name, "--help"] for name in COMMANDS)]
)
def test_what_a_command_says_of_itself_fits_80_columns(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(words) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_help_and_a_name_describe_that_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", name]) == 0
    helped = capsys.readouterr().out
    assert main([name, "--help"]) == 0
    assert helped == capsys.readouterr().out
    assert helped.startswith(f"usage: agon {name}")


def test_a_long_job_without_a_terminal_prints_a_line_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    with MinuteLines(lambda: "still here", every=0.02) as lines:
        time.sleep(0.2)
        seen = capsys.readouterr().err.splitlines()
        lines.printed()
    assert 2 <= len(seen) <= 11
    assert set(seen) == {"still here"}


def test_the_line_of_a_minute_says_what_the_training_does() -> None:
    view = LiveView(Console(file=io.StringIO()))
    assert view._minute_line() == "still loading the model"
    view.on_train_begin(None, state(3), None)
    view.sampling(5, 64)
    assert view._minute_line() == "step 3/12345  sampled 5 of 64"
    view.on_step_end(None, state(4), SimpleNamespace(should_evaluate=True))
    assert view._minute_line() == "step 4/12345  validating"


def test_the_line_of_a_minute_says_how_far_an_evaluation_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MinuteLines.__init__, "__defaults__", (0.02,))
    with progress_bars() as watch:
        watch("gsm8k test")(3, 10)
        time.sleep(0.1)
    assert "agon: gsm8k test: 3 of 10" in capsys.readouterr().err.splitlines()


def test_what_a_command_waits_for_is_wiped_from_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    shown.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", shown)
    with working("loading torch"):
        assert shown.getvalue() == "\rloading torch …"
    assert shown.getvalue().endswith("\r\x1b[2K")


def test_what_was_lost_is_counted_from_the_newest_checkpoint(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert lost(run, 5) == "Nothing had been recorded yet."
    run.write_config({"model": "embedded"})
    assert lost(run, 5).startswith(
        "There was no checkpoint yet: all 5 steps are lost. Go on with: agon train --"
    )
    (tmp_path / "checkpoints" / "checkpoint-4").mkdir(parents=True)
    assert lost(run, 7).startswith("The 3 steps after checkpoint 4 are lost.")
    assert lost(run, 4).startswith("No step is lost.")


def test_a_second_ctrl_c_gives_the_terminal_back_and_says_what_is_lost(tmp_path: Path) -> None:
    """On a real terminal of 80 columns, from the first line to the exit code."""
    words = [
        "--max_steps",
        "30",
        "--per_device_train_batch_size",
        "64",
        "--judge_workers",
        "1",
        "--output_dir",
        "run",
    ]
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    process = subprocess.Popen(
        [sys.executable, "-m", "agon.cli", "train", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm", "COLUMNS": "80", "LINES": "24"},
        start_new_session=True,
    )
    os.close(theirs)
    began, sent, shown = time.monotonic(), 0, ""
    while process.poll() is None and time.monotonic() - began < 120:
        if select.select([ours], [], [], 0.05)[0]:
            try:
                shown += os.read(ours, 65536).decode(errors="replace")
            except OSError:  # the other end is closed
                break
        # The first one after the first step, the second as soon as the first was answered.
        if ("A right", "Stopping after this step", "nothing more")[sent] in shown:
            process.send_signal(signal.SIGINT)
            sent += 1
    process.wait(timeout=60)
    with contextlib.suppress(OSError):
        shown += os.read(ours, 65536).decode(errors="replace")
    os.close(ours)
    assert process.returncode == 130, shown
    assert "Traceback" not in shown
    assert "Loading weights" not in shown
    assert "Stopped at once, at step" in shown
    assert "Go on with: agon train --resume run" in " ".join(shown.split())
    assert shown.rindex(SHOW) > shown.rindex(HIDE)
    assert shown.startswith("Training embedded on gym:chain_sum with agon, in run")
