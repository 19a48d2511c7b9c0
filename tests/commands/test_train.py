"""`agon train` as a user meets it: on the embedded base, stopped, resumed, refused."""

import os
import signal
from pathlib import Path

import pytest

from agon.cli import main
from agon.errors import InputError
from agon.runs.folder import Run
from agon.train import launch
from agon.train.config import AgonConfig
from agon.train.recipes import RunArguments, shipped_recipes
from agon.train.trainer import AgonTrainer
from tests import forked

SMALL = (
    "--max_steps",
    "6",
    "--per_device_train_batch_size",
    "32",
    "--final_evaluation",
    "0",
    "--judge_workers",
    "1",
)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a fork of this process, where everything is imported; test_terminal.py has a process of its own."""
    folder = tmp_path / "run"
    process = forked.agon("train", "--output_dir", str(folder), *SMALL)
    assert any(line.startswith("step 2/6") for line in process.said)
    os.kill(process.pid, signal.SIGINT)
    said = process.said.read()
    assert process.wait() == 130, said
    assert f"agon train --resume {folder}" in said
    assert main(["train", "--resume", str(folder)]) == 0
    steps = [line["step"] for line in Run(folder).read_metrics()]
    assert steps == [1, 2, 3, 4, 5, 6]
    assert sorted({duel.step for duel in Run(folder).duels()}) == [0, 1, 2, 3, 4, 5]
    assert {path.name for path in (folder / "adapters").iterdir()} == {"A", "B"}
    capsys.readouterr()
    assert main(["train", "--resume", str(folder)]) == 0
    assert "already finished" in capsys.readouterr().err
    assert main(["train", "--resume", str(folder), "--learning_rate", "1"]) == 2
    assert "keeps its own configuration" in capsys.readouterr().err
    assert main(["train", "--output_dir", str(folder)]) == 2
    assert "already holds a run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--task", "gsm8kk"], "did you mean 'gsm8k'"),
        (["--method", "argon"], "did you mean 'agon'"),
        (["--learning_rat", "1"], "did you mean '--learning_rate'"),
        (["--learning_rate", "fast"], "learning_rate"),
        (["no-such-recipe.yaml"], "Cannot read the recipe"),
        (["--resume", "no-such-run"], "is not a run"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1


def test_an_unknown_key_of_a_recipe_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("task: gsm8k\nlearning_rat: 1\n")
    assert main(["train", str(recipe)]) == 2
    assert "did you mean 'learning_rate'" in capsys.readouterr().err


def test_what_the_demo_prints_next_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The panel names a step that the run made; the commands name the folders that they make."""
    monkeypatch.chdir(tmp_path)
    small = ["--max_steps", "1", "--per_device_train_batch_size", "64", "--final_evaluation", "4"]
    assert main(["train", *small]) == 0
    said, aside = capsys.readouterr()
    last = aside.splitlines()[-1]
    assert last == "Its report as one page: agon report runs/embedded-gym-chain_sum-agon-s42"
    assert main(last.split("agon ")[1].split()) == 0
    assert capsys.readouterr().out == "runs/embedded-gym-chain_sum-agon-s42/report.html\n"
    page = Path("runs/embedded-gym-chain_sum-agon-s42/report.html").read_text("utf-8")
    assert "Does exchange help?" in page
    assert "A conversion, step 1, problem" in page
    assert said.startswith(
        "Training embedded on gym:chain_sum with agon, in runs/embedded-gym-chain_sum-agon-s42\n"
    )
    assert "a conversion, in step 1 of 1" in said
    shown = said.split("What next:")[1].replace("\\\n", "")
    commands = [line.split()[1:] for line in shown.splitlines() if line.startswith("  agon ")]
    assert [command[0] for command in commands] == ["eval", "train", "compare", "train"]
    _, first, second = commands[2]
    assert Path(first).is_dir()
    asked: list[str] = []

    def started(what: RunArguments, config: AgonConfig, *_: object) -> None:
        asked.append(str(config.output_dir))
        raise InputError("Not in this test.")

    monkeypatch.setattr(launch, "train", started)
    assert main(commands[1]) == 2
    assert asked == [second]
    assert commands[3][1] in shipped_recipes()


def test_an_error_while_training_says_what_is_lost_before_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(AgonTrainer, "_play_round", broken)
    with pytest.raises(ZeroDivisionError, match="inside"):
        main(["train", "--output_dir", str(tmp_path / "run"), *SMALL])
    said = capsys.readouterr().err.splitlines()
    sentence = "agon: The training stopped at step 0 by an error inside. No step was made yet."
    assert said[0] == f"{sentence} Go on with: agon train --resume {tmp_path / 'run'}"
    assert not said[1:]


def test_a_model_without_a_task_is_refused_and_not_trained_as_the_toy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--model", "Qwen/Qwen3-0.6B"]) == 2
    assert "Name a task for --model Qwen/Qwen3-0.6B with --task" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143)])
def test_sigterm_saves_and_leaves_with_its_exit_code(number: int, code: int, tmp_path: Path) -> None:
    """In a fork of this process, where everything is imported."""
    folder = tmp_path / "run"
    process = forked.agon("train", "--output_dir", str(folder), *SMALL)
    assert any(line.startswith("step 2/6") for line in process.said)
    os.kill(process.pid, number)
    rest = process.said.read()
    assert process.wait() == code, rest
    assert "Stopping after this step, because of SIGTERM." in rest
    assert f"agon train --resume {folder}" in rest
    summary = Run(folder).read_summary()
    assert Run(folder).newest_step() == summary["steps"] < 6


def test_a_run_without_a_whole_checkpoint_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--max_steps", "2", "--save_steps", "1", *SMALL[2:]]
    assert main(["train", "--output_dir", str(tmp_path), *options]) == 0
    (tmp_path / "summary.json").unlink()
    for file in tmp_path.glob("checkpoints/*/optimizer.pt"):
        file.write_bytes(b"")
    capsys.readouterr()
    assert main(["train", "--resume", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        f"agon: No checkpoint in '{tmp_path}/checkpoints' is whole: checkpoint-2 is damaged"
    )
    assert said.count("\n") == 1


def test_a_judge_that_fails_on_every_answer_ends_the_run_with_a_sentence_and_code_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    judge = ["--judge", "tests.faults.judge:broken"]
    assert main(["train", "--output_dir", str(folder), *judge, *SMALL]) == 3
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("agon: The judge failed on ")
    assert said.endswith(f"No step was made yet. Go on with: agon train --resume {folder}")
