"""Estimate what a recipe needs before anything is downloaded: memory by part, tokens, time.

agon plan recipes/qwen3-0.6b-deepmath.yaml --gpu H100 --gpus 8
agon plan recipes/qwen2.5-0.5b-gsm8k.yaml --max_completion_length 1024 --json

Options that are not the plan's own change the recipe, as in `agon train`.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.errors import InputError, unknown
from agon.tasks.benchmarks import BENCHMARKS
from agon.train.architectures import Architecture, architecture
from agon.train.plan import GIB, GPUS, Load, hours, memory, tokens

if TYPE_CHECKING:
    from agon.train.config import AgonConfig
    from agon.train.recipes import RunArguments

PARSES_REST = True
# Training problems that a benchmark without a fixed size leaves after its filters.
KNOWN_SIZES = {"gsm8k": 7168, "math": 6843, "mbpp": 372}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", type=Path, help="YAML file of options")
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help="number of GPUs (default 1)")
    parser.add_argument("--gpu", default="H100", help=f"one of {', '.join(GPUS)} (default H100)")
    parser.add_argument(
        "--prompt-tokens", type=int, default=400, metavar="N", help="longest prompt (default 400)"
    )
    parser.add_argument(
        "--problems", type=int, metavar="N", help="training problems, if the task is not ours"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(arguments: argparse.Namespace) -> int:
    if arguments.gpu not in GPUS:
        raise unknown("GPU", arguments.gpu, GPUS)
    for name in ("gpus", "prompt_tokens"):
        if getattr(arguments, name) < 1:
            raise InputError(
                f"--{name.replace('_', '-')} is a positive number, not {getattr(arguments, name)}."
            )
    from agon.train.recipes import parse_recipe

    what, config = parse_recipe(arguments.recipe, arguments.rest)
    model = architecture(_folder(what.model))
    problems = arguments.problems or _problems(what)
    facts = _facts(what, model, _load(config, problems, arguments.prompt_tokens), arguments)
    print(json.dumps(facts, indent=2) if arguments.json else _text(facts))
    return 0


def _folder(model: str) -> str:
    if model != "embedded":
        return model
    from agon.embedded import base_path

    return str(base_path())


def _problems(what: "RunArguments") -> int:
    """Training problems of a task, from its row or from the size written after its name."""
    name, *pairs = what.task.split(",")
    written = dict(pair.partition("=")[::2] for pair in pairs)
    if "train" in written:
        return int(written["train"])
    if name.startswith("gym:"):
        from agon.tasks.gym import SIZES

        return SIZES["train"]
    if name in BENCHMARKS:
        return BENCHMARKS[name].sizes.get("train") or KNOWN_SIZES[name]
    raise InputError(f"The size of task '{what.task}' is not known: say how many problems with --problems.")


def _load(config: "AgonConfig", problems: int, prompt_tokens: int) -> Load:
    return Load(
        problems=problems,
        policies=config.game.policies,
        epochs=config.num_train_epochs,
        max_steps=config.max_steps,
        num_generations=config.num_generations,
        per_device_train_batch_size=config.per_device_train_batch_size,
        gradient_accumulation_steps=config.gradient_accumulation_steps,
        steps_per_generation=config.steps_per_generation,
        num_iterations=config.num_iterations,
        max_completion_length=config.max_completion_length,
        prompt_tokens=prompt_tokens,
        lora_r=config.lora_r,
        gradient_checkpointing=config.gradient_checkpointing,
        engine=config.engine,
        engine_rows=config.engine_rows,
        sampler_share=config.vllm_gpu_memory_utilization,
        sampler_cache=config.vllm_kv_cache_bytes or 0,
    )


def _facts(
    what: "RunArguments", model: Architecture, load: Load, arguments: argparse.Namespace
) -> dict[str, Any]:
    gpu, parts, spent = GPUS[arguments.gpu], memory(model, load), tokens(load, arguments.gpus)
    sampler = 0.0
    if load.engine == "vllm":
        # vLLM fills its share of the card, unless its cache has a size of its own beside the weights.
        own = load.sampler_cache + parts.base if load.sampler_cache else None
        sampler = own or load.sampler_share * gpu.memory * GIB
    needed = parts.peak + sampler
    took = hours(model, load, gpu, arguments.gpus)
    return {
        "model": what.model,
        "task": what.task,
        "parameters": model.parameters,
        "adapter_parameters": model.adapter(load.lora_r),
        "policies": load.policies,
        "memory_bytes": {
            **asdict(parts),
            "training_peak": parts.training_peak,
            "sampling_peak": parts.sampling_peak if load.engine == "transformers" else None,
            "process_peak": int(needed),
            "vllm": int(sampler),
            "cache_per_sequence": model.cache_bytes(load.length),
        },
        "tokens": asdict(spent),
        "gpu": {"name": arguments.gpu, "count": arguments.gpus, "memory_gib": gpu.memory},
        "fits": needed <= gpu.memory * GIB,
        "hours": {**asdict(took), "total": took.total},
        "assumes": {"prompt_tokens": load.prompt_tokens, "length": load.length, "engine": load.engine},
    }


def _text(facts: dict[str, Any]) -> str:
    parts, spent, took, gpu = facts["memory_bytes"], facts["tokens"], facts["hours"], facts["gpu"]
    assumes = facts["assumes"]
    rows = [
        ("base, frozen", parts["base"]),
        (f"{facts['policies']} adapters of {facts['adapter_parameters'] / 1e6:.1f}M", parts["adapters"]),
        ("gradients", parts["gradients"]),
        ("optimizer", parts["optimizer"]),
        ("activations of a micro-batch", parts["activations"]),
        ("training, at its peak", parts["training_peak"]),
    ]
    if assumes["engine"] == "transformers":
        rows += [
            ("cache and scores while sampling", parts["sampling"]),
            ("sampling, at its peak", parts["sampling_peak"]),
        ]
    if parts["vllm"]:
        rows.append(("vLLM beside it, weights and cache", parts["vllm"]))
    rows.append(("one process, at its peak", parts["process_peak"]))
    rows.append((f"cache of one sequence of {assumes['length']} tokens", parts["cache_per_sequence"]))
    lines = [f"{facts['model']} on {facts['task']}: {facts['parameters'] / 1e9:.2f}B parameters", ""]
    lines += [f"{size / GIB:>9.2f} GiB  {what}" for what, size in rows]
    verdict = "fits" if facts["fits"] else "does NOT fit"
    lines += [
        "",
        f"{spent['steps']} steps of {spent['problems_per_step']:g} problems, {spent['rollouts']:,} rollouts,",
        f"{spent['mean'] / 1e6:,.0f}M tokens if completions are 0.4 of the cap on average, "
        f"{spent['most'] / 1e6:,.0f}M at most.",
        "",
        f"{gpu['count']} x {gpu['name']} ({gpu['memory_gib']:g} GiB each): it {verdict}. Estimate: "
        f"{took['total']:.1f} h ({took['sampling']:.1f} h sampling, {took['training']:.1f} h training).",
    ]
    return "\n".join(lines)
