"""Several training processes on one GPU, with random weights of real shapes; started by `two_ranks.sh`.

    torchrun --nproc_per_node 2 scripts/gpu/two_ranks.py engines MODEL_FOLDER OUT
    torchrun --nproc_per_node 1 scripts/gpu/two_ranks.py fsdp MODEL_FOLDER OUT

`make` writes the model's folder first, in a process of its own. `engines`: every process has a vLLM engine on
the one card, and gradients travel by gloo; checks that the duels of all processes are in the log and that
both adapters moved. `fsdp`: the base is sharded (over as many processes as there are), with a step at stated
lengths; prints the peak of memory beside the plan's. Needs no network.
"""

import argparse
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from agon.engines.chat import Chat
from agon.lab.rehearsal.coin import COIN
from agon.lab.rehearsal.model import make_random_base
from agon.lab.rehearsal.phases import GIB, Phases, phases_table
from agon.lab.rehearsal.task import made_up
from agon.lab.rehearsal.trainer import Counts, RehearsalTrainer
from agon.planning.architectures import architecture
from agon.planning.lengths import Lengths
from agon.planning.recipe_plan import Hardware, plan_workload, workload
from agon.policies.base import load_tokenizer
from agon.tasks import Task
from agon.train.config import AgonConfig

PROMPT_ROOM = 2048
COMMON: dict[str, Any] = {
    "engine": "vllm",
    "dialect": "think",
    "num_generations": 8,
    "learning_rate": 1e-4,
    "lr_scheduler_type": "constant",
    "warmup_steps": 0,
    "save_strategy": "no",
    "report_to": "none",
    "logging_steps": 1,
    "mask_truncated_completions": False,
    "vllm_enforce_eager": True,
    "judge_workers": 1,
}


def options(mode: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The run of a mode: two problems a process and step, or one at full micro-batches."""
    cap = arguments.longest
    shape: dict[str, Any] = {
        "max_completion_length": cap,
        "vllm_max_model_length": cap + PROMPT_ROOM,
        "max_steps": arguments.steps,
    }
    if mode == "engines":
        own: dict[str, Any] = {
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 4,
            "vllm_kv_cache_bytes": 4 * GIB,
            "gradient_checkpointing": False,
        }
        if not arguments.cpu:
            own["ddp_backend"] = "gloo"  # NCCL refuses two processes on one card
        return {**COMMON, **shape, **own}
    return {
        **COMMON,
        **shape,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 4,
        "vllm_kv_cache_bytes": 16 * GIB,
        "gradient_checkpointing": True,
        "fsdp": True,
    }


def train(mode: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train, check, and say what was measured."""
    folder = arguments.model
    given = options(mode, arguments)
    if arguments.cpu:
        given |= {"use_cpu": True, "vllm_kv_cache_bytes": None, "vllm_worker_process": None}
    config = AgonConfig(output_dir=str(arguments.out / f"{mode}-run"), **given)
    rows = config.per_device_train_batch_size * config.gradient_accumulation_steps * config.world_size
    problems = rows // config.num_generations * config.max_steps
    chat = Chat(load_tokenizer(str(folder)), config.dialect)
    phases, counts = Phases(config.device.type == "cuda"), Counts()
    lengths = Lengths(max(1, int(arguments.mean or 0.5 * arguments.longest)), arguments.longest)
    trainer = RehearsalTrainer(
        folder,
        Task("rehearsal", COIN, {"train": made_up(chat, problems)}),
        config,
        lengths,
        phases,
        counts,
        longest=mode == "fsdp",
    )
    before = {name: trainer.pair.fingerprint(name) for name in trainer.pair.names}
    main = trainer.accelerator.is_main_process
    everyone: list[Any] = [None] * config.world_size
    try:
        trainer.train()
        after = {name: trainer.pair.fingerprint(name) for name in trainer.pair.names}
        torch.distributed.all_gather_object(everyone, after)
    finally:
        trainer.close()  # vLLM's end is also that of the process group
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    facts: dict[str, Any] = {"mode": mode, "processes": config.world_size, "device": str(config.device)}
    if not main:
        return facts
    duels = list(trainer.run.duels())
    seen = {duel.problem.id for duel in duels}
    expected = problems * config.group_size
    checks = {
        f"{expected} duels in the log": len(duels) == expected,
        f"problems of all {config.world_size} processes": len(seen) == problems,
        "both adapters moved": all(before[name] != after[name] for name in after),
        "adapters equal in all processes": all(each == after for each in everyone),
        "the sampler agrees": max(trainer.gaps.values()) < config.max_logprob_gap,
    }
    facts |= {
        "checks": checks,
        "gaps": trainer.gaps,
        "phases": phases.as_dicts(),
        "steps": [
            {
                "loss": line["loss"],
                "step_s": line.get("time/step"),
                "sampling_s": line.get("time/sampling"),
                "gap": {
                    key: value
                    for key, value in line.items()
                    if key.endswith(("sampling/gap", "gradient_kept"))
                },
            }
            for line in trainer.run.read_metrics()
            if "loss" in line
        ],
    }
    print("\n".join(phases_table(phases.as_dicts())))
    for what, held in checks.items():
        print(f"{'ok  ' if held else 'FAIL'}  {what}")
    print("gaps:", {name: round(value, 5) for name, value in trainer.gaps.items()})
    if mode == "fsdp":
        facts["memory"] = beside_the_plan(folder, config, counts, phases)
    return facts


def beside_the_plan(folder: Path, config: AgonConfig, counts: Counts, phases: Phases) -> dict[str, Any]:
    """The trainer's peak and the plan's figure for the same micro-batch, in GiB."""
    work = replace(
        workload(config, 1, max(counts.prompts)),
        width=2 if config.bf16 else 4,
        prompt_tokens=max(counts.prompts),
    )
    planned = plan_workload(architecture(str(folder)), work, Hardware("H200", config.world_size))
    kept = {name: each for name, each in phases.measured.items() if name != "load"}
    found: dict[str, Any] = {
        "rows_and_tokens": counts.longest_micro_batch,
        "measured_training_peak": max(each.peak_bytes for each in kept.values()) / GIB,
        "measured_card": max(each.card_bytes for each in kept.values()) / GIB,
        "planned": {
            name: size / GIB for name, size in planned["memory_bytes"].items() if isinstance(size, int)
        },
    }
    plan = found["planned"]
    print(
        f"trainer's peak {found['measured_training_peak']:.2f} GiB, planned {plan['training_peak']:.2f} GiB; "
        f"whole card {found['measured_card']:.2f} GiB, planned {plan['process_peak']:.2f} GiB"
    )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("make", "engines", "fsdp"))
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--shapes", default="Qwen/Qwen3-0.6B", help="for make: whose shapes")
    parser.add_argument("--longest", type=int, default=256)
    parser.add_argument("--mean", type=int)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--cpu", action="store_true", help="a trial without a GPU")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    began = time.time()
    if arguments.mode == "make":
        device, dtype = ("cpu", torch.float32) if arguments.cpu else ("cuda", torch.bfloat16)
        make_random_base(arguments.shapes, arguments.model, dtype, device, arguments.longest + PROMPT_ROOM)
        return 0
    facts = train(arguments.mode, arguments)
    if "checks" not in facts:
        return 0
    facts["seconds"] = round(time.time() - began, 1)
    (arguments.out / f"{arguments.mode}.json").write_text(json.dumps(facts, indent=2) + "\n")
    return 0 if all(facts["checks"].values()) else 1


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if torch.cuda.device_count() == 1:
        os.environ["LOCAL_RANK"] = "0"  # the second process would ask for a second card
    raise SystemExit(main())
