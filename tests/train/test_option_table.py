"""The table of options that the command line reads is that of `AgonConfig`, and every number has its range."""

import json

import pytest

from agon.errors import InputError
from agon.train.config import AgonConfig
from agon.train.option_checks import NAMED, ROWS, RULES, check_options, fits
from agon.train.option_rows import rows
from agon.train.option_table import TABLE, defaults, options
from agon.train.option_values import read_words
from agon.train.recipes import parse_recipe, read_request


def test_the_table_is_made_from_the_configuration() -> None:
    """After a change to `AgonConfig`: python scripts/option_table.py."""
    assert json.loads(TABLE.read_text("utf-8")) == json.loads(json.dumps(rows()))


def test_every_number_has_a_range_and_every_range_an_option() -> None:
    numbers = {name for name, option in options().items() if option.kind in ("whole", "number")}
    assert numbers - set(RULES) == set()
    assert set(RULES) - set(options()) == set()
    assert len([name for _, names in ROWS for name in names]) == len(RULES)


def test_every_default_is_allowed() -> None:
    unset = {"model", "task"}
    assert [option.name for option in options().values() if not fits(option, option.default)] == ["task"]
    assert set(NAMED) <= set(options())
    check_options({name: value for name, value in defaults().items() if name not in unset})


def test_no_number_may_be_nan_or_infinite_or_below_minus_one() -> None:
    for option in options().values():
        if option.kind in ("whole", "number"):
            assert not any(fits(option, wrong) for wrong in (float("nan"), float("inf"), -2, True, "1"))


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--learning_rate", "1e-5"], "learning_rate", 1e-5),
        (["--learning-rate=1e-5"], "learning_rate", 1e-5),
        (["--log_duels", "false"], "log_duels", False),
        (["--no_log_duels"], "log_duels", False),
        (["--bf16"], "bf16", True),
        (["--max_steps", "-1"], "max_steps", -1),
        (["--lora_target_modules", "q_proj", "k_proj"], "lora_target_modules", ["q_proj", "k_proj"]),
        (["--lora_target_modules", "q_proj"], "lora_target_modules", ["q_proj"]),
        (["--report_to", "none"], "report_to", "none"),
        (["--lr_scheduler_kwargs", '{"min_lr": 0.1}'], "lr_scheduler_kwargs", {"min_lr": 0.1}),
        (["--scale_rewards", "batch"], "scale_rewards", "batch"),
    ],
)
def test_words_become_values_as_trl_reads_them(words: list[str], name: str, value: object) -> None:
    assert read_words(words) == {name: value}


def test_a_number_in_a_recipe_may_be_written_as_yaml_takes_for_text(tmp_path) -> None:
    """YAML 1.1 reads 5e-5 as a text, and people write it."""
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("model: embedded\ntask: gym:chain_sum\nlearning_rate: 5e-5\nseed: 3.0\n")
    assert read_request(recipe).options["learning_rate"] == 5e-5
    assert parse_recipe(recipe)[1].seed == 3


def test_python_gets_the_same_sentence_as_the_command_line(tmp_path) -> None:
    with pytest.raises(InputError, match=r"learning_rate must be a number above 0 and up to 1; not -1\.0"):
        AgonConfig(output_dir=str(tmp_path / "run"), learning_rate=-1.0)
    assert not (tmp_path / "run").exists()


def test_a_model_of_ones_own_does_not_get_the_options_of_the_toy() -> None:
    embedded = read_request(None, ["--task", "gym:chain_sum"])
    fresh = read_request(None, ["--task", "gsm8k", "--model", "Qwen/Qwen3-0.6B"])
    assert embedded.options["max_completion_length"] == 64
    assert "max_completion_length" not in fresh.options
    assert "learning_rate" not in fresh.options
    with pytest.raises(InputError, match=r"Name a task for --model Qwen/Qwen3-0\.6B with --task"):
        read_request(None, ["--model", "Qwen/Qwen3-0.6B"])
