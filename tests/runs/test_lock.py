"""A run folder has one owner: the second is told who has it, and a dead one keeps nothing."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agon.cli import main
from agon.errors import InputError
from agon.runs import lock
from agon.runs.lock import OWNER, owned, owner_of
from tests.forked import agon as agon_in_a_child

HOLD = """
import os, sys, time
from pathlib import Path
if len(sys.argv) > 2:
    os.register_at_fork(after_in_child=lambda: time.sleep(float(sys.argv[2])))
from agon.runs.lock import owned
with owned(Path(sys.argv[1])):
    if len(sys.argv) > 2:
        os.fork() or time.sleep(60)  # a child that outlives its parent
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def holder(folder: Path, *words: str) -> "Iterator[subprocess.Popen[str]]":
    """Another process that owns a folder."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_the_second_is_told_who_has_it(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        told = f"is in use by process {process.pid} on .* since "
        with pytest.raises(InputError, match=told) as refusal, owned(tmp_path):
            raise AssertionError("two owners")
        assert str(refusal.value).endswith("wait for it, or stop it.")
        assert owner_of(tmp_path)["pid"] == process.pid


def test_a_killed_owner_keeps_nothing(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert owner_of(tmp_path)["pid"] == process.pid  # its record still lies there
        with owned(tmp_path):
            assert owner_of(tmp_path)["pid"] == os.getpid()
    assert not (tmp_path / OWNER).exists()


@pytest.mark.parametrize("child_sleeps", ["0", "0.5"])
def test_a_child_of_a_killed_owner_keeps_nothing_either(tmp_path: Path, child_sleeps: str) -> None:
    """Also not one that was forked just before, and has not let go of the file yet."""
    with holder(tmp_path, child_sleeps) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with owned(tmp_path):
            pass


def test_a_stale_record_is_no_owner(tmp_path: Path) -> None:
    (tmp_path / OWNER).write_text(json.dumps({"host": "elsewhere", "pid": 1, "since": "yesterday"}))
    with owned(tmp_path):
        assert owner_of(tmp_path)["pid"] == os.getpid()


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'{"pid": [1]}', b"{" * 9000])
def test_a_broken_record_of_a_living_owner_is_still_an_owner(tmp_path: Path, content: bytes) -> None:
    with holder(tmp_path):
        (tmp_path / OWNER).write_bytes(content)
        with pytest.raises(InputError, match="is in use by"), owned(tmp_path):
            pass


def test_entering_again_is_free_and_another_thread_is_another_owner(tmp_path: Path) -> None:
    said: list[str] = []

    def second() -> None:
        try:
            with owned(tmp_path):
                said.append("two owners")
        except InputError as error:
            said.append(str(error))

    with owned(tmp_path):
        with owned(tmp_path / "." / ".." / tmp_path.name):
            pass
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert ["another thread" in sentence for sentence in said] == [True]
    with owned(tmp_path):
        pass


def test_an_empty_folder_that_was_made_for_it_goes_again(tmp_path: Path) -> None:
    with owned(tmp_path / "runs" / "new"):
        assert (tmp_path / "runs" / "new" / OWNER).exists()
    assert list(tmp_path.iterdir()) == []
    with owned(tmp_path / "runs" / "new"):
        (tmp_path / "runs" / "new" / "kept").touch()
    assert [path.name for path in (tmp_path / "runs" / "new").iterdir()] == ["kept"]


def test_without_locks_the_record_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some cluster file systems have none; there is none here, so the call that takes one is replaced."""

    def none(file: int, operation: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(lock.fcntl, "flock", none)
    with owned(tmp_path):
        mine = owner_of(tmp_path)
    for gone in ({**mine, "pid": 2**22 + 1}, {**mine, "born": "another"}):
        (tmp_path / OWNER).write_text(json.dumps(gone))
        with owned(tmp_path):
            pass
    for there in (mine, {**mine, "host": "elsewhere"}):
        (tmp_path / OWNER).write_text(json.dumps(there))
        with pytest.raises(InputError, match="is in use by process"), owned(tmp_path):
            pass
    with pytest.raises(InputError, match="if that process is gone, remove"), owned(tmp_path):
        pass


def test_two_evaluations_of_the_same_are_one_too_many(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with holder(run / "evaluations" / "bits-test") as process:
        assert main(["eval", str(run), "--no-controls"]) == 2
        said = capsys.readouterr().err
        assert f"in use by process {process.pid}" in said
        assert said.count("\n") == 1
        # Another split is another evaluation, and reading is always free.
        words = ["--split", "validation", "--direction", "AB", "--no-controls", "--limit", "2"]
        assert main(["eval", str(run), *words]) == 0
    assert main(["eval", str(run), "--no-controls", "--limit", "2"]) == 0


SMALL = (
    "--max_steps 400 --per_device_train_batch_size 16 --gradient_accumulation_steps 2 --max_completion_length 16 "
    "--final_evaluation 0 --judge_workers 1 --save_steps 2"
)


def test_of_two_resumes_at_once_one_is_refused_and_a_killed_one_can_be_resumed(tmp_path: Path) -> None:
    import agon.train.trainer  # noqa: F401 - once, and not in each process

    folder = tmp_path / "run"
    first = agon_in_a_child("train", "--output_dir", str(folder), *SMALL.split())
    assert any(line.startswith("step 3/") for line in first.said)  # there is a checkpoint of step 2
    second = agon_in_a_child("train", "--resume", str(folder))
    assert f"is in use by process {first.pid} on" in second.said.read()
    assert second.wait() == 2
    first.kill()
    third = agon_in_a_child("train", "--resume", str(folder))
    assert any(line.startswith("step ") for line in third.said)
    third.kill()
    steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, len(steps) + 1))
