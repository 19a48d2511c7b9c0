"""A tiny random Qwen3 that can answer: some of its tokens spell a whole well-formed completion.

Every problem asks for 0 or 1. A completion of two or three random tokens is right, wrong, malformed,
hedged, empty or truncated, so each of these occurs within a few dozen samples.
"""

import json
from pathlib import Path
from typing import Any

import torch
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agon.game import Problem
from agon.policies import Adapters, Pair
from agon.tasks import load_task

SPECIAL = ["<pad>", "<eos>", "<unk>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% if enable_thinking %}{% endif %}{% endif %}"
)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    answers = [
        f"<think>{thought}</think>It is {thought}.<answer>{digit}</answer>"
        for thought in "abcdefg"
        for digit in "01"
    ]
    return tokenizer_of([*"01 gkp?", *answers], TEMPLATE)


def tokenizer_of(words: list[str], template: str) -> PreTrainedTokenizerFast:
    """A token for each of the words; text is read character by character."""
    every = [*SPECIAL, *words]
    inner = Tokenizer(models.WordLevel({word: index for index, word in enumerate(every)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split(pattern="", behavior="isolated")
    inner.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
    )
    tokenizer.chat_template = template
    return tokenizer


def tiny_model(tokenizer: PreTrainedTokenizerFast, head_dim: int = 8) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=head_dim,
        max_position_embeddings=2048,
        initializer_range=0.3,
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    model = Qwen3ForCausalLM(config)
    # Milder than the initialisation, so that no token drowns the others.
    with torch.no_grad():
        model.lm_head.weight.mul_(0.5)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model


def tiny_pair(noise: float = 0.3) -> Pair:
    """Two adapters that differ enough to disagree."""
    return Pair.create(tiny_model(tiny_tokenizer()), Adapters(rank=4, alpha=8, noise=noise))


def zero_or_one(count: int, task: str = "bits") -> list[Problem]:
    return [Problem(f"bit-{n}", f"p{n} g{n % 7}?", task, answer=str(n % 2)) for n in range(count)]


def save_base(folder: Path, head_dim: int = 8) -> Path:
    tokenizer = tiny_tokenizer()
    tiny_model(tokenizer, head_dim).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_problems(path: Path, count: int = 48, validation: int = 16) -> Path:
    rows = [
        {
            "id": problem.id,
            "problem": problem.prompt,
            "answer": problem.answer,
            "split": "validation" if position < validation else "test",
        }
        for position, problem in enumerate(zero_or_one(count))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def save_run(
    folder: Path, base: Path, problems: Path, method: str = "agon", seed: int = 0, **config: Any
) -> Path:
    """A run folder as training leaves it, with adapters that no training has touched."""
    policies = 1 if method in ("grpo", "self-refine") else 2
    pair = Pair.create(
        Qwen3ForCausalLM.from_pretrained(base),
        Adapters(rank=4, alpha=8, noise=0.3, seed=seed),
        policies=policies,
    )
    pair.save(folder / "adapters")
    task = load_task(str(problems))
    resolved = {
        "method": method,
        "model": str(base),
        "task": task.name,
        "seed": seed,
        "num_generations": 16,
        "max_completion_length": 3,
        "num_train_epochs": 1.0,
        "max_steps": -1,
        "eval_temperature": 0.9,
        "eval_top_p": 0.95,
        "judge": "exact",
        "judge_workers": 1,
        **config,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(resolved))
    record = {
        "name": task.name,
        "spec": str(problems),
        "path": None,
        "seed": 0,
        "options": dict(task.options),
        "fingerprints": {split: task.fingerprint(split) for split in task.splits},
    }
    (folder / "task.json").write_text(json.dumps(record))
    (folder / "summary.json").write_text(json.dumps({"finished": True, "steps": 10}))
    return folder
