"""`agon train` as a user meets it: on the embedded base, stopped, resumed, refused."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agon.cli import main
from agon.runs.folder import Run

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


def started(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "agon.cli", "train", "--output_dir", str(folder), *SMALL],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    process = started(folder)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step 2/6"):
            break
    process.send_signal(signal.SIGINT)
    said = process.stderr.read()
    assert process.wait(timeout=60) == 130, said
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
