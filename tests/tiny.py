"""Tiny real parts for tests: a tokenizer, random models of each architecture, a task and its judge.

The tokenizer has whole boxed answers as single tokens, so that a random model answers, sometimes
rightly, in the `boxed` dialect, and groups of rollouts have something to differ in.
"""

import string
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3_5ForCausalLM,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from agon.game.problem import Problem
from agon.game.prompts import CHALLENGE, FORM
from agon.tasks import Task

SPECIAL = ["<pad>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """One token per character, per boxed digit in a few spellings, and per fixed sentence of a prompt."""
    characters = [*string.printable[:95], "\n", "‹", "›"]
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, "<unk>", *characters])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split(pattern="", behavior="isolated")
    core.decoder = decoders.Fuse()
    made = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        eos_token="<|im_end|>",
        unk_token="<unk>",
        padding_side="left",
        additional_special_tokens=["<|im_start|>"],
    )
    made.add_tokens([f"{before}\\boxed{{{digit}}}{after}" for digit in "012" for before in ("", " ", "$", "=")
                     for after in ("", ".")])  # fmt: skip
    made.add_tokens([*CHALLENGE.split("{attempt}"), *FORM.values()])
    made.chat_template = TEMPLATE
    return made


def model(kind: str = "qwen3", seed: int = 0, **changes: Any) -> PreTrainedModel:
    """A random model of an architecture, a few ten thousand parameters."""
    words = tokenizer()
    shape: dict[str, Any] = {
        "vocab_size": len(words),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        "pad_token_id": words.pad_token_id,
        "eos_token_id": words.eos_token_id,
        "bos_token_id": None,
    }
    torch.manual_seed(seed)
    if kind == "qwen3_5":
        linear = {
            "layer_types": ["linear_attention", "full_attention"],
            "linear_num_key_heads": 1,
            "linear_num_value_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "linear_conv_kernel_dim": 2,
        }
        made: PreTrainedModel = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**{**shape, **linear, **changes}))
    elif kind == "gemma4":
        sliding = {
            "layer_types": ["sliding_attention", "full_attention"],
            "sliding_window": 512,
            "hidden_size_per_layer_input": 0,
            "num_kv_shared_layers": 0,
            "global_head_dim": 16,
        }
        made = Gemma4ForCausalLM(Gemma4TextConfig(**{**shape, **sliding, **changes}))
    else:
        family = {
            "qwen2": (Qwen2Config, Qwen2ForCausalLM),
            "qwen3": (Qwen3Config, Qwen3ForCausalLM),
            "llama": (LlamaConfig, LlamaForCausalLM),
        }
        config, causal = family[kind]
        made = causal(config(**{**shape, **changes}))
    made.generation_config.eos_token_id = words.eos_token_id
    return made


def task(problems: int = 64) -> Task:
    """Problems whose answer is a digit that a random model boxes now and then."""
    made = [Problem(str(index), f"{index}?", "tiny", str(index % 3)) for index in range(problems)]
    return Task(
        "tiny", "tests.last_box:last_box", {"train": made, "validation": made[:8], "test": made[8:16]}
    )
