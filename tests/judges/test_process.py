"""One run under limits, watched by a process that may itself be stopped."""

import signal
import subprocess
import sys
import textwrap
import time

import psutil

WATCHER = textwrap.dedent(
    """
    from agon.judges.code.process import OuterLimits, run_limited
    limits = OuterLimits(0.5, cpu_seconds=10, output_bytes=99, memory_bytes=1 << 30, tmp_bytes=0, tmp_files=0)
    outcome = run_limited([], ["sh", "-c", "sleep %s; echo done"], b"", limits)
    print(outcome.ending, outcome.stdout.decode().strip())
    """
)


def watched_by_a_stopped_process(seconds: float, stopped: float) -> list[str]:
    """How a run of so many seconds ends if the process that watches it is stopped during it."""
    watcher = subprocess.Popen([sys.executable, "-c", WATCHER % seconds], stdout=subprocess.PIPE, text=True)
    while not any("sleep" in child.name() for child in psutil.Process(watcher.pid).children(recursive=True)):
        time.sleep(0.005)
    watcher.send_signal(signal.SIGSTOP)
    time.sleep(stopped)
    watcher.send_signal(signal.SIGCONT)
    return watcher.communicate(timeout=60)[0].split()


def test_a_run_that_ended_while_its_watcher_was_stopped_is_no_timeout() -> None:
    assert watched_by_a_stopped_process(0.3, stopped=2.0) == ["exit", "done"]


def test_a_run_that_goes_on_after_its_watcher_was_stopped_still_has_its_limit() -> None:
    assert watched_by_a_stopped_process(60, stopped=1.0) == ["timeout"]
