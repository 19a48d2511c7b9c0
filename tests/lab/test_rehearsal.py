"""A rehearsal on a tiny model: stated lengths, a checkpoint resumed, every phase, hours by the formula."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from agon.cli import main
from agon.engines.chat import Chat
from agon.errors import InputError
from agon.game.problem import Problem
from agon.game.prompts import plain_prompt
from agon.game.transcript import split
from agon.lab.rehearsal.coin import coin
from agon.lab.rehearsal.engine import Writer
from agon.lab.rehearsal.facts import found_gpu
from agon.lab.rehearsal.layout import fitting_problems, layout_of
from agon.lab.rehearsal.model import find_config, find_tokenizer, make_random_base
from agon.lab.rehearsal.phases import ORDER, Phases
from agon.lab.rehearsal.task import made_up
from agon.lab.rehearsal.trainer import stretched
from agon.planning.lengths import Lengths
from agon.policies.base import load_base
from agon.runs.folder import Run
from agon.train.recipes import parse_recipe
from tests import tiny
from tests.tasks.small_datasets import deepmath, write

RECIPE: dict[str, Any] = {
    "task": "deepmath-hard",
    "dialect": "boxed",
    "num_generations": 8,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 8,
    "max_completion_length": 40,
    "judge_workers": 1,
    "use_cpu": True,
    "torch_threads": 1,
    "save_steps": 50,
    "eval_strategy": "steps",
    "eval_steps": 100,
    "validation_size": 10,
}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    tiny.model().save_pretrained(folder / "model")
    tiny.tokenizer().save_pretrained(folder / "model")
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump({**RECIPE, "model": str(folder / "model")}))
    return path


@pytest.fixture(scope="module")
def out(recipe: Path) -> Path:
    """Two steps of two problems; the recipe has four."""
    folder = recipe.parent / "out"
    words = ["--lengths", "20:40", "--problems", "2", "--out", str(folder), "--seed", "3"]
    assert main(["rehearse", str(recipe), *words]) == 0
    return folder


@pytest.fixture(scope="module")
def facts(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "rehearsal.json").read_text("utf-8"))
    return found


def test_completions_have_the_lengths_that_were_asked_for(facts: dict[str, Any]) -> None:
    lengths = facts["lengths"]
    assert lengths["asked"] == {"mean": 20, "cap": 40}
    assert lengths["rollouts"] == 2 * 2 * 8
    assert lengths["mean"] == pytest.approx(20, rel=0.25)
    assert lengths["longest"] <= 40


def test_the_run_has_the_stated_problems_and_a_gradient(facts: dict[str, Any], out: Path) -> None:
    assert (facts["steps"], facts["problems_per_step"], facts["recipe_problems_per_step"]) == (2, 2, 4)
    lines = [line for line in Run(out / "run").read_metrics() if "loss" in line]
    assert [line["step"] for line in lines] == [1, 2]
    assert all(line["A/grad_norm"] > 0 and line["B/grad_norm"] > 0 for line in lines)
    assert all(0 < line["draft/correct"] < 1 for line in lines)
    assert all(line["draft/well_formed"] == line["challenge/well_formed"] == 1 for line in lines)


def test_a_checkpoint_was_made_and_a_new_trainer_resumed_from_it(facts: dict[str, Any]) -> None:
    assert facts["resumed_from"] == 1
    phases = facts["phases"]
    assert phases["load"]["times"] == phases["engine start"]["times"] == 2
    assert phases["resume"]["seconds"] > 0


def test_every_phase_is_there_with_its_memory(facts: dict[str, Any]) -> None:
    # The sampler has the trainer's own weights here, so there is nothing to check.
    assert list(facts["phases"]) == [name for name in ORDER if name != "sampler check"]
    assert all(each["peak_bytes"] > 0 for each in facts["phases"].values())
    assert facts["phases"]["sampling"]["times"] == 2
    assert facts["longest_micro_batch"] == [4, facts["prompts"]["longest"] + 40]


def test_the_hours_follow_from_the_formula(facts: dict[str, Any]) -> None:
    seconds = {name: each["seconds"] / 2 for name, each in facts["phases"].items()}
    whole = facts["whole_recipe"]
    assert (whole["steps"], whole["problem_scale"], whole["sampling_scale"]) == (750, 2, 2)
    start = seconds["load"] + seconds["engine start"]
    step = 2 * (seconds["sampling"] + seconds["scoring"] + seconds["training"])
    step += seconds["sync"] + seconds["optimizer"] + seconds["other"]
    checkpoints = 15 * seconds["checkpoint"]
    # Every 100 steps ten problems by two stages in both directions.
    validation = 7 * 40 * facts["lengths"]["mean"] / facts["tokens_per_second"]["sampling"]
    assert whole["hours"] == pytest.approx((start + 750 * step + checkpoints + validation) / 3600)
    assert whole["gpu_hours"] == whole["hours"]


def test_without_a_known_card_no_time_is_planned(facts: dict[str, Any]) -> None:
    assert facts["planned_card"] is None
    assert [(row["planned"], row["ratio"]) for row in facts["compared"][:2]] == [(None, None)] * 2
    assert facts["whole_recipe"]["planned_hours"] is None


def test_real_prompts_are_used_if_they_are_at_hand(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "deepmath" / "train.jsonl", deepmath(40))
    words = ["--steps", "1", "--lengths", "5:8", "--problems", "1", "--path", str(tmp_path), "--json"]
    assert main(["rehearse", str(recipe), *words]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["prompts"]["source"] == "the task deepmath-hard"
    assert said["resumed_from"] is None
    assert said["longest_micro_batch"][0] == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lengths", "20"], "Lengths are written MEAN:CAP"),
        (["--lengths", "50:40"], "no more than the cap"),
        (["--lengths", "20:41"], "max_completion_length is 40"),
        (["--problems", "5"], "from 1 to the recipe's 4 problems a step, not 5"),
        (["--problems", "2", "--per_device_train_batch_size", "16"], "must be a whole number and even"),
        (["--steps", "0"], "--steps must be a whole number of at least 1"),
        (["--seconds", "100"], "--seconds needs a card"),
        (["--learning_rat", "1"], "did you mean '--learning_rate'?"),
        (["--path", "nowhere"], "nowhere"),
        (["--model", "someone/unknown"], "configuration of 'someone/unknown' cannot be read"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], said: str, recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rehearse", str(recipe), *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err.splitlines()[-1]


def test_a_folder_that_holds_something_is_not_written_into(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rehearse", str(recipe), "--out", str(recipe.parent)]) == 2
    assert "is not an empty folder" in capsys.readouterr().err


def test_a_model_without_room_on_the_disk_is_refused(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 10_000})
    monkeypatch.setattr("agon.lab.rehearsal.model.shutil.disk_usage", lambda _: usage)
    with pytest.raises(InputError, match="There is no room for the model"):
        make_random_base(str(recipe.parent / "model"), tmp_path / "made", torch.float32, "cpu", 100)


def test_the_random_base_is_a_model_folder_with_room_for_long_sequences(recipe: Path, tmp_path: Path) -> None:
    model = str(recipe.parent / "model")
    first = make_random_base(model, tmp_path / "first", torch.float32, "cpu", 5000)
    second = make_random_base(model, tmp_path / "second", torch.float32, "cpu", 5000)
    loaded = [load_base(str(each.folder)) for each in (first, second)]
    assert loaded[0].config.max_position_embeddings == 5000
    assert loaded[0].generation_config.eos_token_id == tiny.tokenizer().eos_token_id
    pairs = zip(loaded[0].parameters(), loaded[1].parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert first.parameters == sum(weight.numel() for weight in loaded[0].parameters())


def test_without_a_network_the_table_and_the_embedded_tokenizer_stand_in() -> None:
    config, where = find_config("Qwen/Qwen3-0.6B")
    assert (where, config.num_hidden_layers, config.vocab_size) == ("the plan's table", 28, 151_936)
    tokenizer, source = find_tokenizer("Qwen/Qwen3-0.6B")
    assert source == "the embedded base"
    assert len(tokenizer) < 1000


@pytest.mark.parametrize("dialect", ["think", "gemma", "boxed"])
@pytest.mark.parametrize("domain", ["math", "code"])
def test_a_made_up_completion_is_well_formed_and_shows_a_summary(dialect: str, domain: Any) -> None:
    chat = Chat(tiny.tokenizer(), dialect)
    found = split(Writer(chat, domain, summary_tokens=50).completion(7), dialect, domain, chat.prefilled)
    assert found.well_formed
    assert found.answer is not None
    assert "7" in found.answer
    assert found.shown().count("word") == 10  # five tokens each here


def test_made_up_prompts_have_the_stated_length_and_differ_at_once() -> None:
    chat = Chat(tiny.tokenizer(), "boxed")
    problems = made_up(chat, 12)
    prompts = [chat.encode(plain_prompt(problem, "boxed")) for problem in problems]
    assert all(395 <= len(prompt) <= 405 for prompt in prompts)
    assert len({problem.prompt[:2] for problem in problems}) == 12


def test_the_coin_is_fair_and_always_falls_the_same_way() -> None:
    problem = Problem("1", "?", "t")
    tosses = [coin(problem, str(number)) for number in range(400)]
    assert tosses == [coin(problem, str(number)) for number in range(400)]
    assert 160 < sum(tosses) < 240


def test_a_phase_does_not_count_what_its_inner_phases_do() -> None:
    phases = Phases(cuda=False)
    with phases("outer"):
        for _ in range(2):
            with phases("inner"):
                sum(range(300_000))
    measured = phases.measured
    assert measured["inner"].seconds > measured["outer"].seconds
    assert (measured["inner"].times, measured["outer"].times) == (2, 1)


def test_the_phase_of_an_error_is_the_innermost_one() -> None:
    phases = Phases(cuda=False)

    def fail() -> None:
        with phases("outer"), phases("inner"):
            raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        fail()
    assert phases.failed == "inner"


def test_a_micro_batch_is_filled_up_to_the_longest() -> None:
    batch = {
        "prompt_ids": torch.tensor([[0, 1, 2]]),
        "prompt_mask": torch.tensor([[0, 1, 1]]),
        "completion_ids": torch.tensor([[5, 6]]),
        "completion_mask": torch.tensor([[1, 0]]),
        "advantages": torch.tensor([0.5]),
        "importance_sampling_ratio": torch.tensor([[1.0]]),
        "num_items_in_batch": torch.tensor(2.0),
        "policy": "A",
    }
    full = stretched(batch, rows=2, prompt=4, completion=5)
    assert full["completion_ids"].tolist() == [[5, 6, 5, 6, 5]] * 2
    assert full["prompt_ids"].shape == (2, 4)
    assert full["completion_mask"].sum() == 10
    assert full["prompt_mask"].tolist() == [[1, 1, 1, 1], [0, 1, 1, 1]], (
        "rows of two lengths, so attention is masked"
    )
    assert full["importance_sampling_ratio"].shape == (2, 1)
    assert full["advantages"].tolist() == [0.5, 0.5]
    assert full["policy"] == "A"


def test_more_time_is_given_to_more_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    _, config = parse_recipe("qwen3-0.6b-deepmath")
    monkeypatch.setattr("agon.lab.rehearsal.layout.found_gpu", lambda: "H200")
    paper = Lengths(6100, 15_000)
    chosen = [fitting_problems("Qwen/Qwen3-0.6B", config, paper, seconds) for seconds in (1, 200, 9000)]
    assert chosen[0] == 1
    assert 1 < chosen[1] < 8
    assert chosen[2] == 8
    assert layout_of(config, 2).options == {"gradient_accumulation_steps": 16}


@pytest.mark.parametrize(
    ("name", "planned"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-80GB", "A100-80"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla T4", None),
    ],
)
def test_a_card_is_found_in_the_plans_table(
    name: str, planned: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)
    assert found_gpu() == planned
