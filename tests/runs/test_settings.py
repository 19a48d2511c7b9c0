"""One door to a model: training and evaluation load the same base and write the same prompts."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from agon.cli import main
from agon.errors import InputError
from agon.evaluate.load import EngineChoice, load_target
from agon.evaluate.target import open_target
from agon.evaluate.vllm_budget import VllmBudget
from agon.game.prompts import challenger_prompt, plain_prompt
from agon.runs import settings as door
from agon.runs.folder import Run
from agon.runs.settings import RunSettings
from agon.runs.trust import Trust

TASK = "gym:chain_sum,min_terms=3,max_terms=3,min_digits=2,max_digits=2,train=8,validation=4,test=4"
# The embedded base's chat template closes an empty private block where thinking is turned off.
UNTHINKING = '{"enable_thinking": false}'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the embedded base that was trained with a template option of its own, and evaluated."""
    folder = tmp_path_factory.mktemp("settings") / "unthinking"
    options = {
        "task": TASK,
        "chat_template_kwargs": UNTHINKING,
        "max_steps": 2,
        "num_generations": 4,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "max_completion_length": 8,
        "torch_threads": 1,
        "judge_workers": 1,
        "output_dir": folder,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    assert main(["train", *words]) == 0
    assert main(["eval", str(folder), "--split", "train", "--direction", "AB", "--no-controls"]) == 0
    return Run(folder)


def test_a_run_is_evaluated_under_the_prompts_it_was_trained_with(run: Run) -> None:
    trained = {duel.problem.id: duel for duel in run.duels()}
    samples = run.evaluation("gym:chain_sum", "train").read_samples()
    evaluated = {sample.problem: sample for sample in samples.values()}
    assert trained.keys() & evaluated.keys()
    usual = RunSettings.from_config({"model": "embedded"})
    for name in trained.keys() & evaluated.keys():
        duel, sample = trained[name], evaluated[name]
        assert duel.draft.rollout.prompt_length == sample.drafts[0].prompt_length
        plain = usual.chat(usual.load_tokenizer()).encode(plain_prompt(duel.problem, "think"))
        assert sample.drafts[0].prompt_length != len(plain)  # or the option would change nothing


def test_the_prompts_are_the_same_to_the_letter(run: Run) -> None:
    config = run.read_config()
    assert config["chat_template_kwargs"] == {"enable_thinking": False}
    settings = RunSettings.from_config(config)
    training = settings.chat(settings.load_tokenizer())
    choice = EngineChoice("transformers", VllmBudget(8))
    problem = next(iter(run.duels())).problem
    with load_target(open_target(str(run.folder)), choice) as loaded:
        for prompt in (plain_prompt(problem, "think"), challenger_prompt(problem, "2 + 2", "think")):
            assert loaded.chat.render(prompt) == training.render(prompt)
            assert loaded.chat.render(prompt).endswith("<think>\n\n</think>\n\n")


def test_what_a_run_says_about_its_base_reaches_the_loading(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base that needs its own code, a revision or another precision is opened as it was for training."""
    seen: dict[str, Any] = {}

    def base(model: str, **options: Any) -> Any:
        seen["base"] = {"model": model, **options}
        raise InputError("Seen.")

    def tokenizer(model: str, trust_remote_code: bool, revision: str | None) -> Any:
        seen["tokenizer"] = (model, trust_remote_code, revision)
        return None

    copied = tmp_path / "copy"
    copied.mkdir()
    (copied / "adapters").symlink_to(run.adapters)
    given = {
        "trust_remote_code": True,
        "model_init_kwargs": {"revision": "v2", "attn_implementation": "eager"},
    }
    (copied / "config.yaml").write_text(yaml.safe_dump({**run.read_config(), **given}))
    monkeypatch.setattr(door, "load_base", base)
    monkeypatch.setattr(door, "load_tokenizer", tokenizer)
    target = open_target(str(copied), Trust(everything=True))
    with (
        pytest.raises(InputError, match="Seen"),
        load_target(target, EngineChoice("transformers", VllmBudget(8))),
    ):
        pass
    assert seen["base"] == {
        "model": "embedded",
        "dtype": torch.float32,
        "device_map": None,
        "trust_remote_code": True,
        "revision": "v2",
        "attn_implementation": "eager",
    }
    target.settings.load_tokenizer()
    assert seen["tokenizer"] == ("embedded", True, "v2")


def test_a_configuration_without_some_options_has_their_defaults() -> None:
    """Runs of earlier versions have fewer options, and some are null."""
    old = RunSettings.from_config({"model": "m", "dialect": None, "model_init_kwargs": None, "other": 1})
    assert old == RunSettings(model="m")
