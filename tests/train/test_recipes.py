"""Every recipe resolves, says what it needs, and builds a trainer for its architecture."""

from pathlib import Path

import pytest
import yaml

from agon.cli import main
from agon.errors import InputError
from agon.planning.architectures import architecture
from agon.train.recipes import parse_recipe
from agon.train.trainer import AgonTrainer
from tests import tiny
from tests.tasks.small_datasets import deepmath, gsm8k, statement, write

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))
PAPER = [recipe for recipe in RECIPES if "gsm8k" not in recipe.stem]
SMALL = [
    "--per_device_train_batch_size",
    "8",
    "--gradient_accumulation_steps",
    "4",
    "--engine",
    "transformers",
]


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


@pytest.mark.parametrize("recipe", PAPER, ids=lambda recipe: recipe.stem)
def test_a_recipe_of_the_paper_has_the_papers_settings(recipe: Path) -> None:
    _, config = parse_recipe(recipe)
    assert config.group_size == 8
    assert (config.lora_r, config.learning_rate, config.lr_scheduler_type) == (16, 5e-5, "linear")
    assert (config.warmup_steps, config.num_train_epochs, config.max_completion_length) == (0.1, 1, 15_000)
    assert (config.eval_temperature, config.eval_top_p) == (0.6, 0.95)


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
    _, config = parse_recipe(RECIPES[2], ["--method", method])
    assert config.game.name == method


def test_an_unknown_key_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    options = {**yaml.safe_load(RECIPES[0].read_text("utf-8")), "lora_alph": 8}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(options))
    with pytest.raises(InputError, match=r"'lora_alph': did you mean 'lora_alpha'"):
        parse_recipe(tmp_path / "mine.yaml")
    assert main(["plan", str(tmp_path / "mine.yaml")]) == 2
