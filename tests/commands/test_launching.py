"""`agon train` in two processes, as the files of recipes/launch start it: one voice, one end, one folder."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agon.cli import main
from agon.runs.folder import Run
from agon.train.recipes import RECIPES

SMALL = [*("--max_steps", "4", "--per_device_train_batch_size", "16", "--final_evaluation", "0")]
SMALL += ["--judge_workers", "1"]
# Slurm's commands, as far as the script needs them: every task is a process here, and its id is noted.
SRUN = """#!/usr/bin/env bash
while [[ $1 == --* ]]; do shift; done
for task in $(seq 0 $((SLURM_NTASKS - 1))); do
    SLURM_PROCID=$task SLURM_LOCALID=$task "$@" &
    echo $! > "$TASKS/$task"
done
code=0
for task in $(jobs -p); do wait "$task" || code=$?; done
exit $code
"""
SCONTROL = """#!/usr/bin/env bash
echo 127.0.0.1
"""


def free_port() -> int:
    """A port that no other test is given: the system's own choice may be taken before it is used."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as attempt, suppress(OSError):
            attempt.bind(("127.0.0.1", port))
            return port


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list["subprocess.Popen[str]"]]:
    """What a test has started; whatever is left of it is killed, children too."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def start(folder: Path, script: str, words: list[str], **variables: object) -> "subprocess.Popen[str]":
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
        "PATH": f"{folder}:{os.environ['PATH']}",
        **{name: str(value) for name, value in variables.items()},
    }
    return subprocess.Popen(
        ["bash", str(RECIPES / "launch" / script), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )


def slurm(folder: Path, *words: str) -> "subprocess.Popen[str]":
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    job = {"SLURM_NTASKS": 2, "SLURM_JOB_ID": free_port() - 20_000, "SLURM_JOB_NODELIST": "a"}
    return start(folder, "slurm.sh", list(words), TASKS=folder, **job)


def until(process: "subprocess.Popen[str]", beginning: str) -> str:
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if line.startswith(beginning):
            return said
    raise AssertionError(said)


@pytest.mark.exhaustive
def test_a_signal_to_one_task_stops_all_after_the_same_step_and_the_run_goes_on(
    tmp_path: Path, started: list["subprocess.Popen[str]"], capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path / "run")
    first = slurm(tmp_path, "--output_dir", str(run.folder), *SMALL)
    started.append(first)
    said = until(first, "step 1/4  A right")
    os.kill(int((tmp_path / "1").read_text()), signal.SIGTERM)
    said += first.communicate(timeout=300)[0]
    assert first.returncode == 130, said
    assert said.count("Training embedded") == 1
    assert said.count("step 1/4  A right") == 1, said
    assert said.count("Stopped at step") == 1
    assert "Traceback" not in said
    reached = run.newest_step()
    assert 1 <= reached < 4
    assert run.read_environment()["processes"] == 2

    assert main(["train", "--resume", str(run.folder)]) == 2
    assert "was started with 2 processes, and this is 1" in capsys.readouterr().err

    second = slurm(tmp_path, "--resume", str(run.folder))
    started.append(second)
    said = second.communicate(timeout=300)[0]
    assert second.returncode == 0, said
    assert said.count("Finished.") == 1
    assert [line["step"] for line in run.read_metrics()] == [1, 2, 3, 4]
    assert sorted({duel.step for duel in run.duels()}) == [0, 1, 2, 3]


@pytest.mark.exhaustive
def test_a_process_that_dies_on_one_of_two_hosts_ends_both(
    tmp_path: Path, started: list["subprocess.Popen[str]"]
) -> None:
    port = free_port()
    words = ["--output_dir", str(tmp_path / "run"), *SMALL]
    hosts = {"MAIN": "127.0.0.1", "PORT": port, "GPUS": 1}
    for node in range(2):
        started.append(start(tmp_path, "two_hosts.sh", words, NODE=node, **hosts))
    until(started[0], "step 1/4  A right")
    began = time.monotonic()
    [worker] = children(started[1].pid)
    os.kill(worker, signal.SIGKILL)
    codes = []
    for process in started:
        said, _ = process.communicate(timeout=180)
        codes.append(process.returncode)
    assert codes[1] != 0
    assert codes[0] != 0, said
    assert time.monotonic() - began < 120
    assert not Run(tmp_path / "run").read_summary()


def test_a_wrong_option_is_said_by_the_first_process_of_a_host(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert main(["train", "--learning_rate", "5"]) == 2
        said = capsys.readouterr().err
        assert said.startswith("agon: --learning_rate must be") if rank == "0" else said == ""


def children(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = status.read_text().rpartition(")")
            if int(rest.split()[1]) == parent:
                found.append(int(name.split()[0]))
    return found
