"""The plan against what transformers, PEFT and autograd really make."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import get_peft_model
from transformers import (
    Gemma4ForCausalLM,
    PreTrainedModel,
    Qwen2ForCausalLM,
    Qwen3_5ForCausalLM,
    Qwen3ForCausalLM,
)

from agon.cli import main
from agon.errors import InputError
from agon.lab.rehearsal.model import real_config
from agon.planning.architectures import MODELS, architecture, from_config
from agon.planning.estimate import (
    GIB,
    GPUS,
    MASK_BYTES,
    Workload,
    activations,
    engine_steps,
    hours,
    memory,
    round_seconds,
    tokens,
)
from agon.policies.pair import Adapters
from tests import tiny
from tests.planning.allocated import peak_of_a_step

RECIPES = Path(__file__).parents[2] / "src" / "agon" / "recipes"
LOAD = Workload(problems=1000)


def on_paper(config: Any) -> PreTrainedModel:
    """The model of a configuration, without its memory."""
    classes: dict[str, Callable[[Any], PreTrainedModel]] = {
        "qwen2": Qwen2ForCausalLM,
        "qwen3": Qwen3ForCausalLM,
        "qwen3_5_text": Qwen3_5ForCausalLM,
        "gemma4_text": Gemma4ForCausalLM,
    }
    with torch.device("meta"):
        return classes[config.model_type](config)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_parameters_and_adapters_are_those_of_the_real_model(name: str) -> None:
    whole = MODELS[name]
    # A few layers of it tell as much; the size of the whole is checked below.
    model = replace(whole, layers=2 * whole.full_every, shared_kv_layers=whole.shared_kv_layers // 6)
    real = on_paper(real_config(model))
    counted = sum(weight.numel() for weight in real.parameters())
    assert model.parameters - model.towers == pytest.approx(counted, rel=1e-3)
    adapted = get_peft_model(real, Adapters(rank=16).lora(real.config), adapter_name="A")
    assert model.adapter(16) == sum(w.numel() for n, w in adapted.named_parameters() if "lora_" in n)


def test_whole_models_have_the_sizes_that_their_makers_state() -> None:
    sizes = {name.split("/")[1]: round(model.parameters / 1e9, 1) for name, model in MODELS.items()}
    assert sizes == {
        "Qwen2.5-0.5B-Instruct": 0.5,
        "Qwen3-0.6B": 0.6,
        "Qwen3-1.7B": 1.7,
        "Qwen3-4B": 4.0,
        "Qwen3-8B": 8.2,
        "Qwen3-14B": 14.8,
        "Qwen3-32B": 32.8,
        "Qwen3.5-2B": 2.2,
        "gemma-4-E4B-it": 7.9,
    }


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_config_file_gives_the_numbers_of_the_table(name: str, tmp_path: Path) -> None:
    real_config(MODELS[name]).save_pretrained(tmp_path)
    found = architecture(str(tmp_path))
    assert replace(found, kind=MODELS[name].kind, towers=MODELS[name].towers) == MODELS[name]


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "gemma4"])
def test_the_cache_is_as_large_as_the_real_one(kind: str) -> None:
    made = tiny.model(kind)
    cache = made(torch.ones(3, 20, dtype=torch.long), use_cache=True).past_key_values
    real = sum(part.nbytes for layer in cache.layers for part in (layer.keys, layer.values))
    assert from_config(made.config.to_dict()).cache_bytes(20, rows=3, width=4) == real


@pytest.mark.parametrize(
    ("kind", "hidden", "intermediate", "heads", "kv_heads"),
    [("qwen2", 896, 4864, 14, 2), ("qwen3", 1024, 3072, 16, 8)],
)
def test_activations_are_what_autograd_holds(
    kind: str, hidden: int, intermediate: int, heads: int, kv_heads: int
) -> None:
    shape: dict[str, Any] = {
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_attention_heads": heads,
    }
    head_dim = 64 if kind == "qwen2" else 128
    made = tiny.model(
        kind, num_hidden_layers=3, num_key_value_heads=kv_heads, head_dim=head_dim, vocab_size=200, **shape
    )
    load = replace(LOAD, per_device_train_batch_size=4, prompt_tokens=300, max_completion_length=300)
    planned = activations(from_config(made.config.to_dict()), load)
    assert planned == pytest.approx(peak_of_a_step(made, rows=4, length=600), rel=0.05)


def test_one_policy_needs_half_the_adapters_of_two() -> None:
    model = MODELS["Qwen/Qwen3-0.6B"]
    two, one = memory(model, LOAD), memory(model, replace(LOAD, policies=1))
    assert (two.adapters, two.gradients, two.optimizer) == (
        2 * one.adapters,
        2 * one.gradients,
        2 * one.optimizer,
    )
    assert two.base == one.base


def test_checkpointing_and_smaller_batches_save_memory() -> None:
    model = MODELS["Qwen/Qwen3-0.6B"]
    assert activations(model, replace(LOAD, gradient_checkpointing=False)) > 3 * activations(model, LOAD)
    by_tokens = replace(LOAD, micro_batch_tokens=4 * LOAD.per_device_train_batch_size * LOAD.length)
    assert activations(model, by_tokens) > 3 * activations(model, LOAD)
    assert activations(model, replace(LOAD, per_device_train_batch_size=1)) < activations(model, LOAD) / 4


def test_a_pooled_method_trains_on_every_rollout_twice_and_samples_no_more() -> None:
    model, pooled = MODELS["Qwen/Qwen3-0.6B"], replace(LOAD, readers=2)
    twice = replace(LOAD, per_device_train_batch_size=2 * LOAD.per_device_train_batch_size)
    assert activations(model, pooled) == activations(model, twice)
    one, both = (hours(model, work, GPUS["H100"], 1) for work in (LOAD, pooled))
    assert both.sampling == one.sampling
    assert 2 * one.training < both.training < 2.5 * one.training


def test_vllm_keeps_its_memory_out_of_the_process() -> None:
    model = MODELS["Qwen/Qwen3-0.6B"]
    assert memory(model, replace(LOAD, engine="vllm")).sampling == 0
    assert memory(model, LOAD).sampling > memory(model, replace(LOAD, engine_rows=4)).sampling


def test_tokens_follow_from_problems_and_rollouts() -> None:
    spent = tokens(replace(LOAD, problems=3000), gpus=1)
    assert (spent.steps, spent.problems_per_step, spent.rollouts) == (750, 4, 48_000)
    assert spent.most == 48_000 * 2048
    assert tokens(replace(LOAD, max_steps=10), gpus=2).rollouts == 10 * 128


def test_time_falls_with_more_and_faster_gpus() -> None:
    model = MODELS["Qwen/Qwen3-0.6B"]
    slow, fast = hours(model, LOAD, GPUS["L4"], 1), hours(model, LOAD, GPUS["H100"], 1)
    assert fast.training < slow.training / 3
    assert fast.sampling < slow.sampling
    assert hours(model, LOAD, GPUS["L4"], 4).training == pytest.approx(slow.training / 4, rel=0.02)


def test_more_problems_in_a_step_sample_more_tokens_a_second() -> None:
    """A round takes at least the steps of its longest draft and challenge, however few there are."""
    model, work = MODELS["Qwen/Qwen3-0.6B"], replace(LOAD, engine="vllm", max_completion_length=15_000)
    few, many = replace(work, steps_per_generation=2), replace(work, steps_per_generation=64)
    took = {one: round_seconds(model, one, GPUS["H200"]) for one in (few, many)}
    assert took[few] < took[many] < 16 * took[few]
    assert engine_steps(model, few, GPUS["H200"]) >= 15_000


def test_a_known_mean_replaces_the_share_of_the_cap() -> None:
    known = replace(LOAD, mean_completion_length=100)
    assert tokens(known, 1).mean == tokens(known, 1).rollouts * 100
    assert hours(MODELS["Qwen/Qwen3-0.6B"], known, GPUS["H200"], 1).total < (
        hours(MODELS["Qwen/Qwen3-0.6B"], LOAD, GPUS["H200"], 1).total
    )


def test_the_verb_prints_parts_that_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["plan", str(RECIPES / "qwen2.5-0.5b-gsm8k.yaml"), "--json", "--gpu", "L4", "--method", "grpo"])
        == 0
    )
    said = json.loads(capsys.readouterr().out)
    parts = said["memory_bytes"]
    assert said["policies"] == 1
    names = ("base", "adapters", "gradients", "optimizer", "activations")
    assert parts["training_peak"] == sum(parts[name] for name in names)
    assert said["fits"]
    assert said["tokens"]["rollouts"] == 32_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpu", "H10"], "Unknown GPU 'H10': did you mean 'H100'?"),
        (["--gpus", "0"], "--gpus must be a whole number of at least 1, not '0'."),
        (["--learning_rat", "1"], "did you mean '--learning_rate'?"),
        (["--model", "Qwen/Qwen3-0.6"], "did you mean 'Qwen/Qwen3-0.6B'?"),
        (["--task", "problems.jsonl"], "say how many problems with --problems"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(RECIPES / "qwen3-0.6b-deepmath.yaml"), *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert captured.err.count("\n") == 1


def test_a_folder_without_a_usable_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    with pytest.raises(InputError, match="does not describe a decoder"):
        architecture(str(tmp_path))


def test_a_task_without_training_problems_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "evaluation.yaml"
    recipe.write_text("model: Qwen/Qwen3-0.6B\ntask: math-500\n")
    assert main(["plan", str(recipe)]) == 2
    said = capsys.readouterr().err
    assert said == "agon: Task 'math-500' is for evaluation only: it has no training problems to plan for.\n"
    assert main(["plan", str(recipe), "--problems", "500"]) == 0
    assert "steps of" in capsys.readouterr().out


REHEARSALS = sorted((Path(__file__).parents[2] / "docs" / "results" / "rehearsals").glob("*.json"))
# What the longest draft and its challenge of a step had together in the rehearsals that did not write it down.
LONGEST_CHAIN = 14_107


@pytest.mark.parametrize("file", REHEARSALS, ids=lambda path: path.stem)
def test_the_plan_is_close_to_what_was_measured_on_an_h200(file: Path) -> None:
    """Memory within 15%, time within 30%."""
    measured = json.loads(file.read_text())
    rows, length = measured["longest_micro_batch"]
    work = Workload(
        problems=0,
        max_steps=1,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=8,
        steps_per_generation=8,
        max_completion_length=15_000,
        mean_completion_length=round(measured["lengths"]["mean"]),
        longest_chain=round(measured["lengths"].get("longest_chain", LONGEST_CHAIN)),
        prompt_tokens=measured["prompts"]["longest"],
        engine="vllm",
        vllm_gpu_memory_utilization=0.4 if "1.7b" in file.stem else 0.45,
    )
    model = MODELS[measured["model"]]
    found = {row["what"]: row["measured"] for row in measured["compared"]}
    planned = hours(model, work, GPUS["H200"], 1)
    assert 3600 * planned.sampling == pytest.approx(found["sampling, s a step"], rel=0.3)
    assert 3600 * planned.training == pytest.approx(found["scoring and training, s a step"], rel=0.3)
    planned_peak = memory(model, work).training_peak
    if "0.6b" not in file.stem:  # the longest micro-batch of the others had no padding, and so no mask
        planned_peak -= MASK_BYTES * rows * length**2
    assert planned_peak / GIB == pytest.approx(found["trainer's peak, GiB"], rel=0.15)
    # The micro-batches of the step itself were padded; the longest had the longest completion in it.
    step = replace(work, max_completion_length=measured["lengths"]["longest"])
    peak = measured["phases"]["training"]["peak_bytes"]
    assert memory(model, step).training_peak == pytest.approx(peak, rel=0.15)
