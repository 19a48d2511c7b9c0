"""Train the embedded base from scratch: a tiny Qwen3 on traces that are generated as it trains.

    python -m scripts.pretraining.pretrain                       # writes ./base and prints its quality as JSON
    python -m scripts.pretraining.pretrain --seed 1 --out other  # another one of the same quality

Run it from the repository root. Every batch is drawn fresh from `scripts.pretraining.traces`: half plain prompts, half
challenger prompts. The loss is on the completion alone. Matrices inside the network are trained with Muon, which needs
far fewer examples here than AdamW; embeddings and gains with AdamW. A GPU is used if there is one.
"""

import argparse
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agon.game import challenger_prompt, plain_prompt, split
from agon.game.prompts import NOTHING_SHOWN
from scripts.pretraining import quality, traces
from scripts.pretraining.tokenizer import END, START, build_tokenizer

Draw = Callable[[random.Random], tuple[list[dict[str, str]], str]]  # a prompt and a completion


@dataclass(frozen=True)
class Settings:
    """The shipped base comes from these defaults."""

    seed: int = 0
    hidden: int = 96
    layers: int = 2
    inner: int = 256
    heads: int = 4
    steps: int = 3000
    batch: int = 64
    warmup: int = 100
    muon_rate: float = 0.02
    adam_rate: float = 3e-3


def example(rng: random.Random) -> tuple[list[dict[str, str]], str]:
    """A prompt and a completion: a draft, or a challenge after a summary of any quality."""
    chain = traces.Chain.draw(rng)
    asked = quality.problem(chain)
    if rng.random() < 0.5:
        return plain_prompt(asked, "think"), traces.write(traces.pick(traces.DRAFT_HABITS, rng), chain)
    # Trained drafters are mostly right, untrained ones mostly wrong: a challenger must know both.
    habits = traces.DRAFT_HABITS if rng.random() < 0.6 else {traces.CAREFUL[0]: 1.0}
    shown = split(traces.write(traces.pick(habits, rng), chain), "think").shown()
    if rng.random() < 0.02:
        shown = NOTHING_SHOWN
    stated = traces.Columns.parse(shown)
    habit = traces.pick(traces.CHALLENGE_HABITS, rng)
    if stated is None and habit == "trusting":
        habit = "roughly"
    return challenger_prompt(asked, shown, "think"), traces.write(habit, chain, stated)


def batch_of(
    count: int, rng: random.Random, tokenizer: PreTrainedTokenizerFast, draw: Draw = example
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels, padded on the right; prompts and padding carry no loss."""
    drawn = [draw(rng) for _ in range(count)]
    # The chat template is simple enough to be written out here: rendering it for each example is slow.
    heads = [f"{START}user\n{prompt[0]['content']}{END}\n{START}assistant\n" for prompt, _ in drawn]
    prompt_ids = tokenizer(heads, add_special_tokens=False)["input_ids"]
    completion_ids = tokenizer([text + END for _, text in drawn], add_special_tokens=False)["input_ids"]
    width = max(len(prompt) + len(rest) for prompt, rest in zip(prompt_ids, completion_ids, strict=True))
    inputs, labels = torch.full((count, width), tokenizer.pad_token_id), torch.full((count, width), -100)
    for row, (prompt, rest) in enumerate(zip(prompt_ids, completion_ids, strict=True)):
        end = len(prompt) + len(rest)
        inputs[row, :end] = torch.tensor(prompt + rest)
        labels[row, len(prompt) : end] = torch.tensor(rest)
    return inputs, labels


def build(settings: Settings, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """An untrained network."""
    torch.manual_seed(settings.seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden,
        intermediate_size=settings.inner,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.heads // 2,
        head_dim=settings.hidden // settings.heads,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)


def train(
    settings: Settings,
    device: str,
    draw: Draw = example,
    tokenizer: PreTrainedTokenizerFast | None = None,
    start: Path | None = None,
) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """A trained network and its tokenizer.

    `draw` makes the examples, the traces' if left out; `start` is a base to go on with.
    """
    tokenizer = tokenizer or build_tokenizer()
    net: Any = Qwen3ForCausalLM.from_pretrained(start) if start else build(settings, tokenizer)
    net.to(device)
    rng = random.Random(f"pretrain {settings.seed}")
    matrices = [p for name, p in net.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in net.named_parameters() if p.ndim != 2 or "embed" in name]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(matrices, lr=settings.muon_rate, weight_decay=0.01),
        torch.optim.AdamW(others, lr=settings.adam_rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(each, lambda step: _trapezoid(step, settings))
        for each in optimizers
    ]
    started = time.monotonic()
    for step in range(1, settings.steps + 1):
        inputs, labels = (tensor.to(device) for tensor in batch_of(settings.batch, rng, tokenizer, draw))
        net.zero_grad()
        lengths = (inputs != tokenizer.pad_token_id).sum(dim=1)
        counted = int((labels != -100).sum())
        loss = 0.0
        # The shorter half separately from the longer one: the same gradient with a fifth less padding.
        for rows in lengths.argsort().chunk(2):
            width = int(lengths[rows].max())
            loss += _backward(net, inputs[rows, :width], labels[rows, :width], counted)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
        if step % 200 == 0:
            print(f"step {step}  loss {loss:.4f}  {time.monotonic() - started:.0f} s", flush=True)
    return net.eval(), tokenizer


def _backward(net: Any, inputs: torch.Tensor, labels: torch.Tensor, counted: int) -> float:
    """Add the gradient of some rows' share of the loss, a mean over `counted` tokens."""
    hidden = net.model(inputs).last_hidden_state[:, :-1]
    targets = labels[:, 1:]
    kept = targets != -100
    loss = F.cross_entropy(net.lm_head(hidden[kept]), targets[kept], reduction="sum") / counted
    loss.backward()
    return loss.item()


def _trapezoid(step: int, settings: Settings) -> float:
    """The learning rate as a share: warm up, hold, and fall to zero over the second half."""
    return min(1.0, (step + 1) / settings.warmup, 2 * (1 - step / settings.steps))


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the embedded base and print its quality as JSON.")
    parser.add_argument("--out", type=Path, default=Path("base"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for field in fields(Settings):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default
        )
    args = parser.parse_args()
    settings = Settings(**{field.name: getattr(args, field.name) for field in fields(Settings)})
    net, tokenizer = train(settings, args.device)
    net.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    print(json.dumps(quality.report(net, tokenizer), indent=1))


if __name__ == "__main__":
    main()
