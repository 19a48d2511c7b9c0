"""Every recipe resolves, says what it needs, and builds a trainer for its architecture."""

import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from agon.cli import main
from agon.errors import InputError
from agon.planning.architectures import architecture
from agon.planning.recipe_plan import training_problems
from agon.policies import target_modules
from agon.tasks.benchmarks import BENCHMARKS
from agon.train.recipes import parse_recipe
from agon.train.trainer import AgonTrainer
from tests import tiny
from tests.tasks.small_datasets import deepmath, gsm8k, statement, write

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "src" / "agon" / "recipes").glob("*.yaml"))
PAPER = [recipe for recipe in RECIPES if "gsm8k" not in recipe.stem]
# What the paper fixes, in its sections Experiments (setup) and Preliminaries.
FIXED = {
    "num_generations": 16,  # N = 8 for both streams
    "max_completion_length": 15_000,
    "num_train_epochs": 1,
    "lora_r": 16,
    "learning_rate": 5e-5,
    "lr_scheduler_type": "linear",
    "warmup_steps": 0.1,
    "scale_rewards": "group",
    "eval_temperature": 0.6,
    "eval_top_p": 0.95,
}
# What it leaves open, and our choice in every recipe. The targets depend on the architecture, the
# micro-batches on the model's size.
OPEN = {
    "beta": 0.0,
    "lora_alpha": 32,
    "lora_dropout": 0.0,
    "lora_target_modules": ...,
    "init_noise": 1e-3,
    "temperature": 1.0,
    "top_p": 1.0,
    "loss_type": "dapo",
    "vllm_importance_sampling_mode": "token_truncate",
    "max_grad_norm": 1.0,
    "weight_decay": 0.0,
    "per_device_train_batch_size": ...,
    "gradient_accumulation_steps": ...,
}
FIXED_HEADING = "# What the paper fixes"
OPEN_HEADING = "# What the paper leaves open"
HERE = ["--engine", "transformers"]  # vLLM is not installed everywhere
SMALL = ["--per_device_train_batch_size", "8", "--gradient_accumulation_steps", "4", *HERE]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Small files in the place of every benchmark that a recipe trains on."""
    write(tmp_path / "deepmath" / "train.jsonl", deepmath(40))
    write(tmp_path / "gsm8k" / "train.jsonl", gsm8k(40, first=100))
    write(tmp_path / "gsm8k" / "test.jsonl", gsm8k(5, first=200))
    tests = [{"input": "1\n", "output": "2\n"}]
    contests = [
        {"id": str(n), "difficulty": "1", "description": statement(n), "tests": tests} for n in range(40)
    ]
    write(tmp_path / "codecontests" / "problems.jsonl", contests)
    return tmp_path


def test_there_is_a_recipe_for_every_row_of_the_paper_and_one_for_a_small_gpu() -> None:
    assert [recipe.stem for recipe in RECIPES] == [
        "gemma-4-e4b-deepmath",
        "qwen2.5-0.5b-gsm8k",
        "qwen3-0.6b-deepmath",
        "qwen3-1.7b-codecontests",
        "qwen3-1.7b-deepmath",
        "qwen3-4b-deepmath",
        "qwen3.5-2b-deepmath",
    ]


def block_text(recipe: Path, heading: str) -> str:
    """What stands between a heading and the next empty line."""
    (text,) = [part for part in recipe.read_text("utf-8").split("\n\n") if part.startswith(heading)]
    return text


def block(recipe: Path, heading: str) -> dict[str, Any]:
    return yaml.safe_load(block_text(recipe, heading))


@pytest.mark.parametrize("recipe", PAPER, ids=lambda recipe: recipe.stem)
def test_a_recipe_of_the_paper_has_the_papers_settings(recipe: Path) -> None:
    what, config = parse_recipe(recipe, HERE)
    assert {key: getattr(config, key) for key in FIXED} == FIXED
    assert block(recipe, FIXED_HEADING) == FIXED
    assert (config.method, config.group_size) == ("agon", 8)
    assert training_problems(what.task) == 3000
    assert BENCHMARKS[what.task].sizes["test"] == 300
    if what.task == "deepmath-hard":
        assert BENCHMARKS[what.task].options == {"min_difficulty": 8.0, "max_difficulty": 8.0}
    else:
        assert BENCHMARKS[what.task].options == {"difficulty": "EASY"}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_recipe_states_all_that_the_paper_leaves_open_in_one_block(recipe: Path) -> None:
    stated = block(recipe, OPEN_HEADING)
    assert list(stated) == list(OPEN)
    assert {**OPEN, **{key: stated[key] for key in OPEN if OPEN[key] is ...}} == stated
    _, config = parse_recipe(recipe, HERE)
    assert {key: getattr(config, key) for key in stated} == stated
    rollouts = config.per_device_train_batch_size * config.gradient_accumulation_steps
    assert rollouts == 8 * config.num_generations  # 8 problems a step
    assert config.steps_per_round == 1


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_every_choice_of_a_recipe_has_its_reason_beside_it(recipe: Path) -> None:
    lines = block_text(recipe, OPEN_HEADING).splitlines()
    unexplained = [line for before, line in pairwise(lines) if "#" not in line and not before.startswith("#")]
    assert unexplained == []


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_recipe_names_the_layers_that_its_architecture_adapts(recipe: Path) -> None:
    what, config = parse_recipe(recipe, HERE)
    chosen = target_modules(SimpleNamespace(model_type=architecture(what.model).kind))
    if isinstance(chosen, str):  # a pattern for the text tower, which a list of names cannot say
        assert config.lora_target_modules is None
        told = re.search(r"text tower only \((.*?)\)", block_text(recipe, OPEN_HEADING).replace("\n#", ""))
        assert told
        assert chosen.endswith(f"({told[1].replace(', ', '|')})")
    else:
        assert config.lora_target_modules == chosen


def test_the_page_on_recipes_has_a_row_for_every_setting() -> None:
    page = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    fixed, left_open = (part.split("\n## ")[0] for part in page.split("\n## What the paper ")[1:])
    for part, settings in ((fixed, FIXED), (left_open, OPEN)):
        explained = {
            key for row in part.splitlines() if row.startswith("| `") for key in re.findall(r"`(\w+)`", row)
        }
        assert set(settings) <= explained


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_recipe_says_what_it_needs_and_that_this_is_an_estimate(recipe: Path) -> None:
    header = recipe.read_text("utf-8").split("\n\n")[0].replace("\n# ", " ")
    assert f"agon train recipes/{recipe.name}" in header
    assert "Estimated by `agon plan`, not measured:" in header
    assert "Needs one GPU with" in header


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_recipe_builds_a_trainer_for_its_architecture(recipe: Path, data: Path) -> None:
    folder = ["--output_dir", str(data / "run"), "--task_path", str(data), "--use_cpu", "true"]
    what, config = parse_recipe(recipe, [*SMALL, *folder, "--dialect", "boxed"])
    kind = architecture(what.model).kind
    trainer = AgonTrainer(tiny.model(kind), what.task, config, processing_class=tiny.tokenizer())
    try:
        assert trainer.pair.names == ("A", "B")
        assert trainer.task.name == what.task.split(",")[0]
        assert len(trainer.problems) > 20
    finally:
        trainer.close()


@pytest.mark.parametrize("method", ["grpo", "self-refine", "coop", "margin", "fixed-roles", "hidden"])
def test_a_method_is_one_option_away(method: str) -> None:
    _, config = parse_recipe(RECIPES[2], ["--method", method, *HERE])
    assert config.game.name == method


def test_an_unknown_key_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    options = {**yaml.safe_load(RECIPES[0].read_text("utf-8")), "lora_alph": 8}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(options))
    with pytest.raises(InputError, match=r"'lora_alph': did you mean 'lora_alpha'"):
        parse_recipe(tmp_path / "mine.yaml")
    assert main(["plan", str(tmp_path / "mine.yaml")]) == 2
