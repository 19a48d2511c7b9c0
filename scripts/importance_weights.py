"""How importance weights spread with the length of a completion, and what a seed per request costs.

    python scripts/importance_weights.py --model MODEL --task gsm8k --path DATA --out OUT

Samples completions of fixed lengths with vLLM from a pair whose adapters have a visible size, scores them
as training does (the same model, precision and kernels), and prints for each length the deviation of the
log ratio of a token and of a whole completion, and what is left with each way to weight: the share that is
masked or truncated, the mean weight and the effective sample size. End tokens are ignored, so that every
completion has its length; what is written after the model would have stopped is not what it would write.
OUT/importance.json has every figure, OUT/importance.md the tables.
"""

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from agon.engines.protocol import Engine, Request, Sampling
from agon.engines.vllm_engine import VllmEngine
from agon.game.prompts import plain_prompt
from agon.game.rollout import Rollout
from agon.train.config import AgonConfig
from agon.train.trainer import AgonTrainer

LIMIT = 3.0  # TRL's default for all modes
NOISE = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--task", default="gsm8k")
    parser.add_argument("--path", help="local copy of the benchmark")
    parser.add_argument("--lengths", type=int, nargs="+", default=[500, 2000, 8000, 15000])
    parser.add_argument("--rollouts", type=int, default=64, help="completions of each length")
    parser.add_argument(
        "--seed-rollouts", type=int, default=512, help="completions a repeat; 0 leaves it out"
    )
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        args = AgonConfig(
            output_dir=folder,
            engine="vllm",
            task_path=arguments.path,
            max_completion_length=max(arguments.lengths),
            vllm_max_model_length=max(arguments.lengths) + 1024,
            vllm_gpu_memory_utilization=0.5,
            num_generations=4,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
        )
        trainer = AgonTrainer(arguments.model, arguments.task, args)
        trainer.pair.add_noise("A", NOISE)
        trainer.engine.sync("A", 0)
        dtype = args.engine_options.vllm.dtype
        results: dict[str, Any] = {"model": Path(arguments.model).name, "dtype": dtype, "lengths": []}
        for length in arguments.lengths:
            started = time.perf_counter()
            rollouts = sample(trainer, arguments.rollouts, length)
            results["lengths"].append(figures(trainer, rollouts, length))
            print(f"{length} tokens: {time.perf_counter() - started:.0f} s", flush=True)
            (arguments.out / "importance.json").write_text(json.dumps(results, indent=2))
        if arguments.seed_rollouts:
            results["seeds"] = seeds(trainer, arguments.seed_rollouts)
        trainer.close()
    (arguments.out / "importance.json").write_text(json.dumps(results, indent=2))
    table = markdown(results)
    (arguments.out / "importance.md").write_text(table)
    print(table)


def requests(trainer: AgonTrainer, count: int, sampling: Sampling) -> list[Request]:
    problems = [trainer.problems[number % len(trainer.problems)] for number in range(count)]
    prompts = [plain_prompt(problem, trainer.chat.dialect.name) for problem in problems]
    return [
        Request(str(number), prompt, "A", 0, sampling, seed=number)
        for number, prompt in enumerate(trainer.chat.encode_all(prompts))
    ]


def play(engine: Engine, asked: list[Request]) -> list[Rollout]:
    engine.submit(asked)
    finished = []
    while done := engine.collect():
        finished += done
    prompts = {request.key: request.prompt_ids for request in asked}
    return [replace(each.rollout, prompt_ids=prompts[each.request.key]) for each in finished]


def sample(trainer: AgonTrainer, count: int, length: int) -> list[Rollout]:
    return play(trainer.engine, requests(trainer, count, Sampling(length, ignore_stop=True)))


def figures(trainer: AgonTrainer, rollouts: list[Rollout], length: int) -> dict[str, Any]:
    """What the weights of completions of one length are like."""
    scored = [trainer._logprobs("A", [rollout])[0].float().cpu() for rollout in rollouts]
    tokens = torch.stack(
        [own - torch.tensor(rollout.logprobs) for own, rollout in zip(scored, rollouts, strict=True)]
    ).double()
    sequence = tokens.sum(1)
    ratio = sequence.exp()
    weights = {
        "sequence_mask": ratio.masked_fill(ratio > LIMIT, 0.0),
        "sequence_truncate": ratio.clamp(max=LIMIT),
        "token_truncate": tokens.exp().clamp(max=LIMIT).flatten(),
    }
    return {
        "length": length,
        "rollouts": len(rollouts),
        "token_gap": float(tokens.abs().mean()),
        "token_deviation": float(tokens.std()),
        "sequence_deviation": float(sequence.std()),
        "per_root_length": float(sequence.std()) / length**0.5,
        "median_ratio": float(ratio.median()),
        "modes": {
            "sequence_mask": _mode(weights["sequence_mask"], ratio > LIMIT),
            "sequence_truncate": _mode(weights["sequence_truncate"], ratio > LIMIT),
            "token_truncate": _mode(weights["token_truncate"], tokens.exp().flatten() > LIMIT),
        },
    }


def _mode(weight: torch.Tensor, beyond: torch.Tensor) -> dict[str, float]:
    return {
        "beyond_limit": float(beyond.double().mean()),
        "mean_weight": float(weight.mean()),
        "effective_sample_size": float(weight.sum() ** 2 / weight.square().sum() / len(weight)),
    }


def seeds(trainer: AgonTrainer, count: int, repeats: int = 3) -> dict[str, float]:
    """The time of one batch with and without a seed for each request, medians of repeats in turn."""
    engine = trainer.engine
    assert isinstance(engine, VllmEngine)
    took: dict[bool, list[float]] = {True: [], False: []}
    asked = requests(trainer, count, Sampling(256, ignore_stop=True))
    for turn in range(2 * (repeats + 1)):
        seeded = turn % 2 == 0
        engine._seeded = seeded
        started = time.perf_counter()
        play(engine, asked)
        if turn > 1:  # the first of each warms up
            took[seeded].append(time.perf_counter() - started)
    return {
        "rollouts": count,
        "seconds_with": median(took[True]),
        "seconds_without": median(took[False]),
        "ratio": median(took[True]) / median(took[False]),
    }


def markdown(results: dict[str, Any]) -> str:
    lines = [
        f"{results['model']}, {results['dtype']}, limit {LIMIT:g}.",
        "",
        "| tokens | token gap | token deviation | completion deviation | / sqrt(length) | median ratio |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in results["lengths"]:
        lines.append(
            f"| {row['length']:,} | {row['token_gap']:.4f} | {row['token_deviation']:.4f} | "
            f"{row['sequence_deviation']:.2f} | {row['per_root_length']:.4f} | {row['median_ratio']:.3f} |"
        )
    lines += [
        "",
        "| tokens | mode | beyond the limit | mean weight | effective sample size |",
        "| ---: | --- | ---: | ---: | ---: |",
    ]
    for row in results["lengths"]:
        for mode, found in row["modes"].items():
            lines.append(
                f"| {row['length']:,} | `{mode}` | {found['beyond_limit']:.2%} | {found['mean_weight']:.3f} | "
                f"{found['effective_sample_size']:.1%} |"
            )
    if "seeds" in results:
        found = results["seeds"]
        lines += [
            "",
            f"A seed for each of {found['rollouts']} requests of 256 tokens: {found['ratio']:.3f} times the time of a "
            "batch without.",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
