"""The cells of a comparison: their commands, when they are finished, and what is packed of them."""

import argparse
import json
import runpy
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agon.commands.eval import add_arguments
from agon.errors import InputError
from agon.lab.cells import Cell, pack, progress, read_comparison, read_state, run_cell, run_cells
from agon.runs.folder import Run
from agon.train.recipes import parse_recipe

ROOT = Path(__file__).parents[2]
PATH = ROOT / "scripts" / "gpu" / "cells.py"
SCRIPT = runpy.run_path(str(PATH))
COMPARISON = read_comparison(
    str(ROOT / SCRIPT["RECIPE"]), SCRIPT["TRANSFER"], eval_options=SCRIPT["EVAL_OPTIONS"]
)
GRPO = Cell("grpo:0:3e-4")


class Agon:
    """Replaces the processes of `agon`: records their arguments, and fails at the calls in `fails`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: Sequence[int] = ()) -> None:
        self.asked: list[list[str]] = []
        self.fails = fails
        monkeypatch.setattr(subprocess, "run", self)

    def __call__(self, command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        self.asked.append(list(command[3:]))
        return subprocess.CompletedProcess(list(command), 1 if len(self.asked) in self.fails else 0)


def test_a_cell_is_named_after_its_method_seed_rate_and_changes() -> None:
    assert Cell("controls").name == "controls"
    assert Cell("grpo:0:3e-4").name == "grpo-s0-lr3e-4"
    assert Cell("agon:2:0.001:lora_r=8:output=a/b").name == "agon-s2-lr1e-3-lora_r8-outputab"


@pytest.mark.parametrize("text", ["grpo", "grpo:0", "grpo:x:1e-4", "grpo:0:fast", "grpo:0:1e-4:lora_r"])
def test_what_is_not_a_cell_is_refused_in_one_sentence(text: str) -> None:
    words = [sys.executable, str(PATH), "run", "--cells", "controls", text]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"such as grpo:0:3e-4, or controls; not '{text}'" in ended.stderr


@pytest.mark.parametrize("text", ["grpo:0:3e-4", "agon:1:1e-4", "coop:0:3e-4:lora_r=8:max_steps=5"])
def test_a_cell_trains_by_the_recipe_with_its_own_method_seed_and_rate(text: str) -> None:
    method, seed, rate, *changes = text.split(":")
    command = dict(Cell(text).commands(COMPARISON, Path("runs/x")))["train"]
    action, recipe, *words = command
    what, config = parse_recipe(Path(recipe), [*words, "--use_cpu", "true"])
    assert (action, what.model, what.task) == ("train", COMPARISON.model, COMPARISON.task)
    assert what.model == "models/qwen2.5-coder-0.5b-instruct"
    assert what.task == "gsm8k,train=1024,validation=256,test=500"
    assert (config.method, config.seed, config.learning_rate) == (method, int(seed), float(rate))
    assert config.output_dir == "runs/x"
    assert config.lora_r == (8 if changes else 16)
    rollouts = config.per_device_train_batch_size * config.gradient_accumulation_steps
    assert (rollouts, config.num_generations, config.max_completion_length) == (512, 16, 512)


@pytest.mark.parametrize("text", ["controls", "agon:0:3e-4"])
def test_agon_understands_the_commands_of_a_cell(text: str) -> None:
    for stage, command in Cell(text).commands(COMPARISON, Path("runs/x")):
        if stage != "train":
            parser = argparse.ArgumentParser()
            add_arguments(parser)
            parsed = parser.parse_args(command[1:])
            assert len(parsed.samples) in (1, len(parsed.task or ["own"]))
            assert parsed.task == ([COMPARISON.task, "math-500"] if stage == "test" else [])
            assert parsed.engine == "vllm"
            assert 5_000_000_000 in vars(parsed).values()


def test_a_recipe_that_says_too_little_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text("model: m\ntask: t\n")
    with pytest.raises(InputError, match="must have the option task_path"):
        read_comparison(str(tmp_path / "short.yaml"), transfer="math-500")


def test_finished_stages_are_not_repeated_and_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agon = Agon(monkeypatch, fails=[2])
    stages = ["train", "test"]
    assert run_cell(COMPARISON, GRPO, tmp_path, stages) == 1  # the evaluation fails
    assert (tmp_path / "grpo-s0-lr3e-4.state").read_text() == "failed in test"
    assert not GRPO.finished(tmp_path, stages)
    assert run_cell(COMPARISON, GRPO, tmp_path, stages) == 0
    assert [command[0] for command in agon.asked] == ["train", "eval", "eval"]
    assert read_state(GRPO, tmp_path) == "done"
    assert GRPO.finished(tmp_path, stages)
    assert not GRPO.finished(tmp_path, ["validation"])


def test_an_interrupted_training_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "grpo-s0-lr3e-4"
    Run(folder).write_config({})
    agon = Agon(monkeypatch)
    assert run_cell(COMPARISON, GRPO, tmp_path, ["train"]) == 0
    assert agon.asked == [["train", "--resume", str(folder)]]


def test_cells_that_are_not_finished_run_in_processes_of_their_own(tmp_path: Path) -> None:
    """A real process of `agon`, which ends at once because of an option that it does not have."""
    done, controls = Cell("coop:1:3e-4"), Cell("controls")
    Run(tmp_path / done.name).write_times({"train": 1.0, "test": 2.0})
    comparison = replace(COMPARISON, eval_options=("--no-such-option",))
    run_cells(comparison, [done, controls], tmp_path, ["train", "test"], parallel=2, stagger=0)
    assert read_state(done, tmp_path) == "waiting"  # it was not touched
    assert read_state(controls, tmp_path) == "failed in test"
    assert "no-such-option" in (tmp_path / "controls.log").read_text()


def test_progress_is_the_state_and_the_last_steps(tmp_path: Path) -> None:
    assert progress(GRPO, tmp_path) == "waiting"
    run = Run(tmp_path / GRPO.name)
    run.write_config({})
    for step in range(1, 6):
        figures = {"draft/correct": step / 10, "time/step": 4.0, "time/sampling": 1.5, "memory/training": 7.0}
        run.add_metrics({"step": step, "loss": 0.1, **figures})
    run.add_metrics({"step": 5, "eval_best": 0.5})
    (tmp_path / f"{GRPO.name}.state").write_text("train")
    assert progress(GRPO, tmp_path) == "train; step 5, 35.0% right, 4.0 s a step, 1.5 s of it sampling; 7 GB"


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
    packed = pack(Cell("agon:0:3e-4"), runs, tmp_path / "packed")
    assert packed == tmp_path / "packed" / "agon-s0-lr3e-4.tgz"
    with tarfile.open(packed) as archive:
        files = {member.name for member in archive.getmembers() if member.isfile()}
    assert files == {
        "agon-s0-lr3e-4/adapters/A/adapter_config.json",
        "agon-s0-lr3e-4/metrics.jsonl",
        "agon-s0-lr3e-4.log",
    }
