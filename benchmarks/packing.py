"""A training pass over rows without padding against the same rows padded, side by side in one run.

    python benchmarks/packing.py                                       # the embedded base on a CPU
    python benchmarks/packing.py --rows 128 --prompt 20 --group 8 --lengths 27:40
    python benchmarks/packing.py --model Qwen/Qwen3-0.6B --rows 2 --lengths 6100:15000
    python benchmarks/packing.py --model Qwen/Qwen3-0.6B --rows 16 --lengths 256:512

Forward and backward of one adapter over a frozen base, with TRL's fused head, gradient checkpointing on and
off. A model of the plan's table has random weights in its real shapes, so nothing is downloaded. Rows are
sorted by length before they are put into micro-batches; `--group` rows that follow one another share their prompt. One
JSON object per line: seconds of both (medians), their ratio, peak memory of both and its ratio.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from trl.trainer.utils import add_fused_lm_head

from agon.embedded import EMBEDDED, model_path
from agon.engines.protocol import derive_seed
from agon.lab.rehearsal.model import random_model, real_config
from agon.planning.architectures import MODELS
from agon.planning.lengths import Lengths
from agon.policies import Pair
from agon.policies.attention import use_own_attention
from agon.train.packing import Line, packed_logps


def load(name: str, device: str) -> PreTrainedModel:
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    if name in MODELS:
        return random_model(real_config(MODELS[name]), dtype, device)
    made: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        model_path(name), dtype=dtype, device_map=device
    )
    return made


def micro_batches(
    lengths: Lengths, rows: int, count: int, prompt: int, group: int, vocabulary: int, device: str
) -> list[Any]:
    """Rows of like length together: ids and mask, the prompts of one length."""
    drawn = sorted(lengths.draw(derive_seed(0, number)) for number in range(rows * count))
    batches = []
    for start in range(0, len(drawn), rows):
        part = torch.tensor(drawn[start : start + rows], device=device)
        width = prompt + int(part.max())
        ids = torch.randint(vocabulary, (rows, width), device=device)
        ids[:, :prompt] = ids[torch.arange(rows, device=device) // group * group, :prompt]
        batches.append(
            (ids, (torch.arange(width, device=device) < prompt + part[:, None]).long(), width - prompt)
        )
    return batches


def padded_logps(model: Any, ids: torch.Tensor, mask: torch.Tensor, completion: int) -> torch.Tensor:
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :-completion] = -100
    scored: torch.Tensor = model(
        input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True
    ).log_probs
    return scored[:, -completion:]


def one_pass(score: Callable[..., Any], model: Any, batches: list[Any], device: str) -> tuple[float, int]:
    """Seconds and peak bytes of forward and backward over all micro-batches."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    started = time.perf_counter()
    for ids, mask, completion in batches:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            scored = score(model, ids, mask, completion)
        (scored * mask[:, -completion:]).sum().backward()
    if device == "cuda":
        torch.cuda.synchronize()
    model.zero_grad()
    return time.perf_counter() - started, torch.cuda.max_memory_allocated() if device == "cuda" else 0


def measure(model: Any, batches: list[Any], rounds: int, device: str) -> dict[str, Any]:
    sides: dict[str, Callable[..., Any]] = {
        "padded": padded_logps,
        "packed": lambda model, *rows: packed_logps(model, Line.of(*rows))[0],
    }
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name, score in sides.items():
            taken = one_pass(score, model, batches, device)
            if turn:  # the first warms up
                found[name].append(taken)
    seconds = {name: statistics.median(taken[0] for taken in each) for name, each in found.items()}
    peaks = {name: max(taken[1] for taken in each) / 2**30 for name, each in found.items()}
    shown: dict[str, Any] = {f"{name}, s": round(value, 3) for name, value in seconds.items()}
    shown["packed / padded, time"] = round(seconds["packed"] / seconds["padded"], 3)
    if device == "cuda":
        shown |= {f"{name}, peak GiB": round(value, 2) for name, value in peaks.items()}
        shown["packed / padded, memory"] = round(peaks["packed"] / peaks["padded"], 3)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", default=EMBEDDED, help="of the plan's table, or a folder (default: embedded)"
    )
    parser.add_argument("--rows", type=int, default=8, help="of a micro-batch")
    parser.add_argument("--prompt", type=int, default=64, help="tokens of a prompt")
    parser.add_argument("--group", type=int, default=1, help="rows that share a prompt (default 1: none)")
    parser.add_argument("--batches", type=int, default=4, help="micro-batches of a pass")
    parser.add_argument("--lengths", default="40:64", help="MEAN:CAP tokens of a completion")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    base = load(arguments.model, device)
    if not use_own_attention(base):
        sys.exit(f"Models of the kind {base.config.model_type} are not packed.")
    add_fused_lm_head(base)
    pair = Pair.create(base)
    pair.activate("A")
    lengths = Lengths.parse(arguments.lengths)
    batches = micro_batches(
        lengths,
        arguments.rows,
        arguments.batches,
        arguments.prompt,
        arguments.group,
        base.config.vocab_size,
        device,
    )
    for checkpointing in (True, False):
        pair.model.train()
        if checkpointing:
            base.gradient_checkpointing_enable({"use_reentrant": False})
            base.enable_input_require_grads()
        else:
            base.gradient_checkpointing_disable()
        facts = {
            "model": arguments.model,
            "device": torch.cuda.get_device_name() if device == "cuda" else "CPU",
            "rows": arguments.rows,
            "prompt": arguments.prompt,
            "group": arguments.group,
            "lengths": arguments.lengths,
            "tokens": sum(int(mask.sum()) for _, mask, _ in batches),
            "padding": round(
                1 - sum(int(m.sum()) for _, m, _ in batches) / sum(m.numel() for _, m, _ in batches), 3
            ),
            "checkpointing": checkpointing,
        }
        try:
            print(json.dumps({**facts, **measure(pair.model, batches, arguments.rounds, device)}), flush=True)
        except torch.OutOfMemoryError:
            pair.model.zero_grad()
            torch.cuda.empty_cache()
            print(json.dumps({**facts, "out of memory": True}), flush=True)


if __name__ == "__main__":
    main()
