"""The cells of a comparison: what they ask of `agon`, what counts as finished, what is brought back."""

import argparse
import json
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agon.train.recipes import parse_recipe
from agon.verbs.eval import add_arguments, split_tasks
from scripts.gpu import cells
from scripts.gpu.cells import Cell

ROOT = Path(__file__).parents[2]


def test_a_cell_is_named_after_what_makes_it() -> None:
    assert Cell("controls").name == "controls"
    assert Cell("grpo:0:3e-4").name == "grpo-s0-lr3e-4"
    assert Cell("agon:2:0.001:lora_r=8:output=a/b").name == "agon-s2-lr1e-3-lora_r8-outputab"


@pytest.mark.parametrize("text", ["grpo", "grpo:0", "grpo:x:1e-4", "grpo:0:fast", "grpo:0:1e-4:lora_r"])
def test_what_is_no_cell_is_refused_in_one_sentence(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["cells.py", "run", "--cells", "controls", text])
    with pytest.raises(SystemExit) as ended:
        cells.main()
    assert ended.value.code == 2
    assert f"such as grpo:0:3e-4, or controls; not '{text}'" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["grpo:0:3e-4", "agon:1:1e-4", "coop:0:3e-4:lora_r=8:max_steps=5"])
def test_a_cell_trains_by_the_recipe_with_its_own_method_seed_and_rate(text: str) -> None:
    method, seed, rate, *changes = text.split(":")
    command = dict(Cell(text).commands("runs/x", 4))["train"]
    verb, recipe, *words = command
    what, config = parse_recipe(ROOT / recipe, [*words, "--use_cpu", "true"])
    assert (verb, what.model, what.task) == ("train", cells.MODEL, cells.TASK)
    assert (config.method, config.seed, config.learning_rate) == (method, int(seed), float(rate))
    assert config.lora_r == (8 if changes else 16)
    rollouts = config.per_device_train_batch_size * config.gradient_accumulation_steps
    assert (rollouts, config.num_generations, config.max_completion_length) == (512, 16, 512)


@pytest.mark.parametrize("text", ["controls", "agon:0:3e-4"])
def test_what_is_asked_of_agon_is_what_it_understands(text: str) -> None:
    for stage, command in Cell(text).commands("runs/x", 4):
        if stage != "train":
            parser = argparse.ArgumentParser()
            add_arguments(parser)
            parsed = parser.parse_args(command[1:])
            tasks = split_tasks(parsed.task) if parsed.task else ["own"]
            assert len(parsed.samples) in (1, len(tasks))


def test_finished_stages_are_not_repeated_and_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def agon(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        asked.append(command[3])
        (tmp_path / "grpo-s0-lr3e-4").mkdir(exist_ok=True)
        return subprocess.CompletedProcess(command, 1 if len(asked) == 2 else 0)

    monkeypatch.setattr(subprocess, "run", agon)
    arguments = argparse.Namespace(
        runs=str(tmp_path), cells=["grpo:0:3e-4"], samples=4, stages=["train", "test"]
    )
    assert cells.one(arguments) == 1  # the evaluation fails
    assert (tmp_path / "grpo-s0-lr3e-4.state").read_text() == "failed in test"
    assert not Cell("grpo:0:3e-4").finished(tmp_path, arguments.stages)
    assert cells.one(arguments) == 0
    assert asked == ["train", "eval", "eval"]
    assert Cell("grpo:0:3e-4").finished(tmp_path, arguments.stages)
    assert not Cell("grpo:0:3e-4").finished(tmp_path, ["validation"])


def test_a_training_that_was_cut_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "grpo-s0-lr3e-4"
    folder.mkdir()
    (folder / "config.yaml").touch()
    asked = []

    def agon(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        asked.append(list(command[3:]))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", agon)
    arguments = argparse.Namespace(runs=str(tmp_path), cells=["grpo:0:3e-4"], samples=4, stages=["train"])
    assert cells.one(arguments) == 0
    assert asked == [["train", "--resume", str(folder)]]


def test_a_packed_cell_has_everything_but_weights_and_nothing_of_others(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for path in (
        "agon-s0-lr3e-4/adapters/A/adapter_model.safetensors",
        "agon-s0-lr3e-4/adapters/A/adapter_config.json",
        "agon-s0-lr3e-4/metrics.jsonl",
        "agon-s0-lr3e-4.log",
        "agon-s0-lr3e-40/metrics.jsonl",
    ):
        (runs / path).parent.mkdir(parents=True, exist_ok=True)
        (runs / path).write_text(json.dumps({}))
    cells.pack(Cell("agon:0:3e-4"), runs, tmp_path)
    with tarfile.open(tmp_path / "agon-s0-lr3e-4.tgz") as archive:
        files = {member.name for member in archive.getmembers() if member.isfile()}
    assert files == {
        "agon-s0-lr3e-4/adapters/A/adapter_config.json",
        "agon-s0-lr3e-4/metrics.jsonl",
        "agon-s0-lr3e-4.log",
    }
