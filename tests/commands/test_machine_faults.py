"""When the machine or the data gives out: one sentence, and the run goes on afterwards."""

import errno
import json
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from agon.cli import main
from agon.errors import InputError
from agon.faults import machine_fault
from agon.game.problem import CodeTests, Problem, StdioTest
from agon.runs.folder import Run
from agon.runs.lock import owned
from agon.train.trainer import AgonTrainer
from tests.evaluate.tiny import save_base, zero_or_one

TRAINING = (
    "--per_device_train_batch_size 8 --gradient_accumulation_steps 4 --num_generations 8 --max_completion_length 3 "
    "--max_steps 4 --save_steps 2 --learning_rate 1e-2 --warmup_steps 0 --gradient_checkpointing false "
    "--judge exact --judge_workers 1 --use_cpu true --seed 1 --lora_r 4 --torch_threads 1 --log_duels false"
)


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """As on a full disk: whoever writes further is refused by the kernel."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence on standard error; progress lines stand before it."""
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("agon: ")]
    assert len(lines) == 1
    return lines[0]


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The words of a training of four steps, on a base and problems of its own."""
    folder = tmp_path_factory.mktemp("training")
    base = save_base(folder / "base")
    rows = [{"problem": each.prompt, "answer": each.answer, "split": "train"} for each in zero_or_one(16)]
    (folder / "bits.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["train", "--model", str(base), "--task", str(folder / "bits.jsonl"), *TRAINING.split()]


@pytest.fixture(scope="module")
def finished(training: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("finished") / "run"
    assert main([*training, "--output_dir", str(run)]) == 0
    return run


def adapters(run: Path) -> list[bytes]:
    return [(run / "adapters" / name / "adapter_model.safetensors").read_bytes() for name in "AB"]


@pytest.mark.parametrize("size", [2_000, 40_000])
def test_a_full_disk_in_a_training_is_one_sentence_and_the_run_goes_on(
    size: int, training: list[str], finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    with files_no_larger_than(size):
        assert main([*training, "--output_dir", str(run)]) == 2
    assert "free some space first" in said(capsys)
    again = ["train", "--resume", str(run)]
    assert main(again if (run / "config.yaml").exists() else [*training, "--output_dir", str(run)]) == 0
    assert adapters(run) == adapters(finished)
    assert [line["step"] for line in Run(run).read_metrics()] == [1, 2, 3, 4]


@pytest.mark.parametrize("size", [500, 3_000])
def test_a_full_disk_in_an_evaluation_is_one_sentence_and_it_goes_on(
    size: int, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--no-controls", "--direction", "AB", "--limit", "16", "--rows", "4"]
    whole = tmp_path / "whole"
    shutil.copytree(run, whole)
    assert main(["eval", str(whole), *words]) == 0
    capsys.readouterr()
    with files_no_larger_than(size):
        assert main(["eval", str(run), *words]) == 2
    assert "Nothing more can be written" in said(capsys)
    assert main(["eval", str(run), *words]) == 0
    for name in ("samples.jsonl", "result.json"):
        place = Path("evaluations") / "bits-test" / name
        assert (run / place).read_bytes() == (whole / place).read_bytes()


@pytest.mark.parametrize("folder", ["/proc/agon", "/sys/agon", "{file}/run"])
def test_a_folder_that_cannot_be_written_is_one_sentence(
    folder: str, tmp_path: Path, problems: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Root may write into any folder of a disk, so these are none."""
    (tmp_path / "file").touch()
    place = folder.format(file=tmp_path / "file")
    with pytest.raises(InputError, match="Nothing can be written into"), owned(Path(place)):
        pass
    assert main(["eval", str(base), "--task", str(problems), "--output", place]) == 2
    assert place in said(capsys)


def test_a_disk_that_turns_read_only_in_mid_run_is_one_sentence(
    training: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kernel remounts a failing disk so; here the writer is replaced, because tests cannot remount."""
    run = tmp_path / "run"

    def refused(self: Run, line: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(self.folder / "metrics.jsonl"))

    with monkeypatch.context() as patched:
        patched.setattr(Run, "add_metrics", refused)
        assert main([*training, "--output_dir", str(run)]) == 2
    sentence = said(capsys)
    assert "file system that can only be read" in sentence
    assert f"agon train --resume {run}" in sentence
    assert main(["train", "--resume", str(run)]) == 0


def test_memory_that_runs_out_says_what_to_lower_and_may_be_lowered(
    training: list[str],
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, played = tmp_path / "run", AgonTrainer._play_round

    def full(self: AgonTrainer, rows: Any) -> Any:
        if self.state.global_step == 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return played(self, rows)

    with monkeypatch.context() as patched:
        patched.setattr(AgonTrainer, "_play_round", full)
        assert main([*training, "--output_dir", str(run)]) == 2
    sentence = said(capsys)
    assert "GPU memory ran out: lower per_device_train_batch_size" in sentence
    assert f"agon train --resume {run}" in sentence
    assert main(["train", "--resume", str(run), "--engine_rows", "8"]) == 0
    assert len(adapters(run)) == len(adapters(finished))


def test_memory_that_runs_out_in_an_evaluation_says_what_to_lower(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("agon.arena.Arena.play", full)
    assert main(["eval", str(run)]) == 2
    assert "Memory ran out: lower --rows or --max-tokens." in said(capsys)


def test_other_errors_are_no_fault_of_the_machine() -> None:
    assert machine_fault(ValueError("No space left on device")) is None
    assert machine_fault(OSError(errno.ENOENT, "No such file", "x")) is None
    inner = OSError(errno.ENOSPC, "No space left on device")
    outer = RuntimeError("writing failed")
    outer.__cause__ = inner
    assert "the disk is full" in str(machine_fault(outer))


def test_a_prompt_longer_than_the_model_is_named(
    training: list[str], tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = tmp_path / "long.jsonl"
    rows = [{"id": f"p{n}", "problem": "p" * (3_000 if n == 7 else 3), "answer": "1"} for n in range(16)]
    splits = ["test" if n < 8 else "train" for n in range(16)]
    problems.write_text(
        "".join(json.dumps({**row, "split": split}) + "\n" for row, split in zip(rows, splits, strict=True))
    )
    words = ["--task", str(problems)]
    assert main(["eval", str(base), *words, "--output", str(tmp_path / "out"), "--judge", "exact"]) == 2
    assert "The prompt of problem 'p7' has 3,1" in said(capsys)
    assert main(["eval", str(base), *words, "--output", str(tmp_path / "out"), "--limit", "2"]) in (0, 2)
    rows[12]["problem"] = "g" * 4_000
    problems.write_text("".join(json.dumps({**row, "split": "train"}) + "\n" for row in rows))
    capsys.readouterr()
    again = [*training, "--output_dir", str(tmp_path / "run"), *words]
    assert main(again) == 2
    assert "and the model reads 2,048 with the answer" in said(capsys)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("column", ["problem", "answer"])
def test_half_a_character_is_named_with_its_line(
    column: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.jsonl"
    row = {"problem": "What is 2 + 2?", "answer": "4"}
    path.write_text(f"{json.dumps(row)}\n{json.dumps({**row, column: 'half ' + chr(0xD800)})}\n")
    assert main(["tasks", str(path)]) == 2
    assert f"mine.jsonl line 2: column '{column}' holds half a character" in said(capsys)


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": "\ud800"},
        {"answer": "\udfff"},
        {"id": "\ud83d"},
        {"tests": CodeTests(stdio=(StdioTest("\ud800", ""),))},
        {"tests": CodeTests(asserts=("assert '\udc00'",))},
    ],
)
def test_half_a_character_of_a_task_of_your_own_is_one_sentence_too(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="half a character"):
        Problem(**{"id": "1", "prompt": "?", "task": "mine", **fields})


STRAYS = ("checkpoint-6.bak", "checkpoint-x", "checkpoint-", "checkpoint-²", "notes")


def test_stray_checkpoints_are_left_alone(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / "summary.json").unlink()
    shutil.rmtree(run / "adapters")
    shutil.rmtree(run / "checkpoints" / "checkpoint-4")
    for stray in STRAYS:
        shutil.copytree(run / "checkpoints" / "checkpoint-2", run / "checkpoints" / stray)
    assert main(["train", "--resume", str(run)]) == 0
    assert adapters(run) == adapters(finished)
    assert all((run / "checkpoints" / stray / "trainer_state.json").is_file() for stray in STRAYS)


def test_a_checkpoint_by_another_name_is_not_started_over(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / "summary.json").unlink()
    shutil.rmtree(run / "checkpoints" / "checkpoint-4")
    aside = run / "checkpoints" / "checkpoint-2.bak"
    (run / "checkpoints" / "checkpoint-2").rename(aside)
    assert main(["train", "--resume", str(run)]) == 2
    assert "no checkpoint to go on from but 'checkpoint-2.bak'" in said(capsys)
    assert (aside / "trainer_state.json").is_file()
    aside.rename(aside.with_suffix(""))
    assert main(["train", "--resume", str(run)]) == 0
    assert adapters(run) == adapters(finished)
