"""A run folder is data: whoever receives one runs none of its sender's code, unless this command says so."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from agon.cli import main
from agon.errors import UntrustedRunError
from agon.evaluate.evaluate import EvaluationRequest, evaluate
from agon.runs.trust import NOTHING, Trust, Wish, resume_wishes
from agon.train.launch import saved_run
from agon.train.option_table import defaults
from agon.train.option_values import read_words
from tests.evaluate.tiny import save_run

ATTACK = """
import pathlib
pathlib.Path({mark!r}).write_text("ran")
from agon.game.problem import Problem
from agon.tasks.task import Task

def task(**options):
    problems = [Problem(f"bit-{{n}}", f"p{{n}} g{{n}}?", "bits", answer=str(n % 2)) for n in range(4)]
    return Task("bits", "exact", {{"train": problems, "validation": problems[:2], "test": problems[2:]}})

def judge(problem, answer):
    return True
"""


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that is there once the sender's module has been imported."""
    ran = tmp_path / "ran"
    (tmp_path / "attack.py").write_text(ATTACK.format(mark=str(ran)))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield ran
    sys.modules.pop("attack", None)


@pytest.fixture
def folder(tmp_path: Path, base: Path, problems: Path) -> Path:
    """A run that was trained for a while, with a checkpoint to go on from."""
    run = save_run(tmp_path / "theirs", base, problems, lora_r=4, lora_alpha=8)
    change(run, "config.yaml", **{**defaults(), **read(run, "config.yaml"), "task": str(problems)})
    change(run, "summary.json", finished=False, steps=2, max_steps=8)
    checkpoint = run / "checkpoints" / "checkpoint-2"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text('{"global_step": 2}')
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.save({}, checkpoint / name)
    shutil.copytree(run / "adapters", checkpoint, dirs_exist_ok=True)
    return run


def read(run: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((run / name).read_text())
    return found


def change(run: Path, file: str, **values: Any) -> None:
    content = {**read(run, file), **values}
    dumped = yaml.safe_dump(content) if file.endswith("yaml") else json.dumps(content)
    (run / file).write_text(dumped)


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, list[str]]:
    """The sentence, and the command that it prints."""
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("agon: A run folder is data, and ")
    assert said.count("\n") == 1
    sentence, _, command = said.strip().partition("; if you trust whoever made it: agon ")
    return sentence, shlex.split(command)


# What is changed in which file, what the sentence says of it, and the words that grant it.
EVAL: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "a task": ("task.json", {"spec": "attack:task"}, "import and run 'attack:task'", "--task attack:task"),
    "a task by its name": (
        "task.json",
        {"spec": None, "name": "attack:task"},
        "import and run 'attack:task'",
        "--task attack:task",
    ),
    "a judge of a file": (
        "task.json",
        {"spec": "some.jsonl,judge=attack:judge"},
        "import and run 'attack:judge'",
        "--task some.jsonl,judge=attack:judge",
    ),
    "a judge in its task's options": (
        "task.json",
        {"spec": None, "name": "some.jsonl", "options": {"judge": "attack:judge"}},
        "import and run 'attack:judge'",
        "--trust-run-code",
    ),
    "a judge": ("config.yaml", {"judge": "attack:judge"}, "the judge 'attack:judge'", "--judge attack:judge"),
    "no sandbox": ("config.yaml", {"sandbox": "none"}, "the sandbox 'none'", "--sandbox none"),
    "the model's code": (
        "config.yaml",
        {"trust_remote_code": True},
        "run the code that comes with its model",
        "--trust-remote-code true",
    ),
    "the model's code by another way": (
        "config.yaml",
        {"model_init_kwargs": {"trust_remote_code": True}},
        "load its model with trust_remote_code",
        "--trust-run-code",
    ),
}
RESUME: dict[str, tuple[dict[str, Any], str, str]] = {
    "a task": ({"task": "attack:task"}, "import and run 'attack:task'", "--task attack:task"),
    "a judge of a file": (
        {"task": "some.jsonl,judge=attack:judge"},
        "import and run 'attack:judge'",
        "--task some.jsonl,judge=attack:judge",
    ),
    "a judge": ({"judge": "attack:judge"}, "the judge 'attack:judge'", "--judge attack:judge"),
    "no sandbox": ({"sandbox": "none"}, "the sandbox 'none'", "--sandbox none"),
    "the model's code": ({"trust_remote_code": True}, "comes with its model", "--trust-remote-code true"),
    "the model's code by another way": (
        {"model_init_kwargs": {"trust_remote_code": True}},
        "load its model with trust_remote_code",
        "--model-init-kwargs '{\"trust_remote_code\": true}'",
    ),
    "pickles": (
        {"model_init_kwargs": {"weights_only": False}},
        "load its model with weights_only",
        "--model-init-kwargs '{\"weights_only\": false}'",
    ),
    "a kernel of the Hub": (
        {"model_init_kwargs": {"attn_implementation": "someone/kernel"}},
        "load its model with attn_implementation",
        '--model-init-kwargs \'{"attn_implementation": "someone/kernel"}\'',
    ),
    "a tracker": ({"report_to": ["wandb"]}, "report to wandb", "--report-to wandb"),
    "a server": (
        {"engine": "vllm-server", "vllm_servers": ["http://sender.example:80"]},
        "send its prompts to http://sender.example:80",
        "--vllm-servers http://sender.example:80",
    ),
    "a folder": ({"adapter_dir": "/tmp"}, "write adapters into '/tmp'", "--adapter-dir /tmp"),
    "an upload": (
        {"log_completions_hub_repo": "sender/logs"},
        "send what it writes to the Hub",
        "--log-completions-hub-repo sender/logs",
    ),
}


@pytest.mark.parametrize("what", EVAL)
def test_an_evaluation_does_nothing_that_only_the_folder_asks_for(
    what: str, folder: Path, mark: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, values, sentence, words = EVAL[what]
    change(folder, name, **values)
    said, command = refused(["eval", str(folder)], capsys)
    assert sentence in said
    assert command == ["eval", str(folder), *shlex.split(words)]
    assert not mark.exists()
    assert not (folder / "evaluations").exists()


@pytest.mark.parametrize("what", RESUME)
def test_a_resumed_run_does_nothing_that_only_the_folder_asks_for(
    what: str, folder: Path, mark: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values, sentence, words = RESUME[what]
    change(folder, "config.yaml", **values)
    said, command = refused(["train", "--resume", str(folder)], capsys)
    assert sentence in said
    assert command == ["train", "--resume", str(folder), *shlex.split(words)]
    assert not mark.exists()
    granted = {**Trust(str(folder)).__dict__, "named": {next(iter(values)): next(iter(values.values()))}}
    if len(values) == 1:
        Trust(**granted).refuse(resume_wishes({**defaults(), **read(folder, "config.yaml")}))


def test_the_printed_command_does_what_the_folder_asked_for(
    folder: Path, mark: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(folder, "task.json", spec="attack:task", fingerprints={})
    _, command = refused(["eval", str(folder), "--no-controls"], capsys)
    assert main(command) == 0
    assert mark.exists()


def test_everything_is_granted_by_one_word(folder: Path, mark: Path) -> None:
    change(folder, "config.yaml", judge="attack:judge")
    assert main(["eval", str(folder), "--no-controls", "--limit", "1", "--trust-run-code"]) == 0
    result = json.loads((folder / "evaluations" / "bits-test" / "settings.json").read_text())
    assert result["judge"] == "attack:judge"


def test_where_a_run_is_watched_from_may_change(folder: Path) -> None:
    change(folder, "config.yaml", report_to=["wandb"])
    named = read_words(["--report_to", "none"])
    assert saved_run(folder, Trust(named=named)).options["report_to"] == named["report_to"]


def test_the_same_holds_in_python(folder: Path, mark: Path) -> None:
    change(folder, "task.json", spec="attack:task")
    with pytest.raises(UntrustedRunError, match="trust_run_code=True"):
        evaluate(str(folder), EvaluationRequest())
    change(folder, "config.yaml", task="attack:task")
    with pytest.raises(UntrustedRunError, match="attack:task"):
        saved_run(folder)
    assert not mark.exists()


def test_a_part_is_granted_by_its_own_value_alone(folder: Path) -> None:
    wish = Wish("judge", "attack:judge", "judge")
    assert Trust(named={"judge": "attack:judge"}).allows(wish)
    assert not Trust(named={"judge": "other:judge"}).allows(wish)
    assert not NOTHING.allows(wish)


@pytest.mark.parametrize("value", ["a:b\n--x", "a:b\x1b[2J", "a:\u202eb", "-rf", "x" * 900])
def test_what_is_not_safe_to_paste_is_not_printed_as_a_word(value: str) -> None:
    assert Wish("judge", value, "judge").words() == ["--trust-run-code"]


def test_comparing_reads_and_imports_nothing(
    folder: Path, tmp_path: Path, mark: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(folder), "--no-controls", "--limit", "2"]) == 0
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    change(folder, "task.json", spec="attack:task")
    change(folder, "config.yaml", judge="attack:judge", trust_remote_code=True, sandbox="none")
    assert main(["compare", str(folder), str(other)]) in (0, 2)
    assert not mark.exists()


LINKS = ("metrics.jsonl", "summary.json", "duels", "evaluations", "adapters/A/README.md", "config.yaml.new")


@pytest.mark.parametrize("command", [["eval"], ["train", "--resume"]])
@pytest.mark.parametrize("name", LINKS)
def test_a_link_that_leads_out_of_the_folder_is_not_written_through(
    name: str, command: list[str], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("{}")
    link = folder / name
    link.unlink(missing_ok=True)
    link.symlink_to(outside / "precious" if "." in name else outside)
    said, command_printed = refused([*command, str(folder)], capsys)
    assert f"by its link '{name}'" in said
    assert command_printed[-1] == "--trust-run-code"
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"precious": "{}"}


def test_a_pipe_in_the_folder_is_not_waited_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(folder / "metrics.jsonl")
    said, _ = refused(["train", "--resume", str(folder)], capsys)
    assert "which is no plain file" in said


@pytest.mark.parametrize(
    "values",
    [
        {"megatron_core": "attack", "megatron_config": {"a": 1}},
        {"peft_type": "PROMPT_TUNING", "tokenizer_name_or_path": "sender/model", "num_virtual_tokens": 2},
        {"corda_config": {"cache_file": "/tmp/pickle"}, "init_lora_weights": "corda"},
        {"init_lora_weights": "loftq", "loftq_config": {"loftq_bits": 4}},
        {"peft_type": None},
        {"no_such_field": 1},
    ],
)
def test_an_adapter_that_is_no_plain_lora_is_not_loaded(
    values: dict[str, Any], folder: Path, mark: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(folder, "adapters/A/adapter_config.json", **values)
    assert main(["eval", str(folder)]) == 2
    assert "LoRA adapter" in capsys.readouterr().err
    assert not mark.exists()


def test_pickled_adapters_are_not_loaded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = folder / "adapters" / "A" / "adapter_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    assert main(["eval", str(folder)]) == 2
    assert "no adapter_model.safetensors" in capsys.readouterr().err


def test_a_model_with_code_of_its_own_is_refused(
    folder: Path, base: Path, tmp_path: Path, mark: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    shutil.copytree(base, model)
    shutil.copy(tmp_path / "attack.py", model / "attack.py")
    change(model, "config.json", model_type="attack", auto_map={"AutoConfig": "attack.Config"})
    change(folder, "config.yaml", model=str(model))
    assert main(["eval", str(folder)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not mark.exists()


def test_the_hub_is_not_asked_for_what_only_the_folder_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The setting of these tests is offline; here it is not, and any request would fail the test."""
    import datasets.config
    import httpx
    from huggingface_hub import constants

    asked: list[str] = []

    def request(self: httpx.HTTPTransport, sent: httpx.Request) -> httpx.Response:
        asked.append(str(sent.url))
        raise httpx.ConnectError("no network in tests")

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", request)
    for module in (constants, datasets.config):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    change(folder, "config.yaml", model="sender/model-of-theirs")
    said, command = refused(["eval", str(folder)], capsys)
    assert "fetch the model 'sender/model-of-theirs' from the Hub" in said
    assert command[-2:] == ["--model", "sender/model-of-theirs"]
    change(folder, "task.json", spec="gsm8k")
    said, command = refused(["eval", str(folder)], capsys)
    assert "fetch the task 'gsm8k' from the Hub" in said
    assert asked == []
    assert constants.HF_HUB_OFFLINE is False
