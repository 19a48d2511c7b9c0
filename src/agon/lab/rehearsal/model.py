"""The base of a rehearsal: a model's real shapes with random weights, as a normal model folder.

Both the trainer and vLLM load the folder. Nothing but a configuration and a tokenizer is ever
downloaded, and without a network the table of `agon.planning.architectures` stands in for the first
and the embedded base's for the second.
"""

import gc
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    Gemma4TextConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2Config,
    Qwen3_5TextConfig,
    Qwen3Config,
)

from agon.embedded import EMBEDDED, model_path
from agon.errors import InputError
from agon.planning.architectures import MODELS, Architecture
from agon.policies.base import load_tokenizer


@dataclass(frozen=True)
class RandomBase:
    """Where it lies, and where its configuration and its tokenizer come from."""

    folder: Path
    config_from: str
    tokenizer_from: str
    parameters: int
    dialect: str | None  # of the model's family, where the tokenizer is not its own and cannot tell


def make_random_base(
    model: str, folder: Path, dtype: torch.dtype, device: str, longest: int, trust_remote_code: bool = False
) -> RandomBase:
    """Write a folder with the configuration and the tokenizer of a model, and random weights.

    `longest` is the longest sequence that it will see.
    """
    config, config_from = find_config(model, trust_remote_code)
    tokenizer, tokenizer_from = find_tokenizer(model, trust_remote_code)
    text = config.get_text_config()
    if len(tokenizer) > text.vocab_size:
        raise InputError(
            f"The tokenizer has {len(tokenizer)} tokens and the model '{model}' only {text.vocab_size} words."
        )
    text.max_position_embeddings = max(getattr(text, "max_position_embeddings", 0), longest)
    for part in (config, text):
        part.bos_token_id, part.eos_token_id = None, tokenizer.eos_token_id
        part.pad_token_id = tokenizer.pad_token_id
    base = random_model(config, dtype, device)
    base.generation_config.eos_token_id = tokenizer.eos_token_id
    parameters = sum(weight.numel() for weight in base.parameters())
    _refuse_full_disk(folder, parameters * dtype.itemsize)
    base.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    del base
    free_memory()
    dialect = _dialect(text.model_type) if tokenizer_from != "the model" else None
    return RandomBase(folder, config_from, tokenizer_from, parameters, dialect)


def find_config(model: str, trust_remote_code: bool = False) -> tuple[Any, str]:
    """A model's configuration, and where it was found: its folder, the Hub, or the plan's table."""
    path = model_path(model)
    local = (Path(path).expanduser() / "config.json").is_file()
    try:
        return (
            AutoConfig.from_pretrained(path, trust_remote_code=trust_remote_code),
            "its folder" if local else "the Hub",
        )
    except (OSError, ValueError) as error:
        if local or model not in MODELS:
            raise InputError(
                f"The configuration of '{model}' cannot be read: {str(error).strip().splitlines()[0]} "
                f"Give a folder with a config.json, or one of {', '.join(MODELS)}."
            ) from error
        return real_config(MODELS[model]), "the plan's table"


def find_tokenizer(model: str, trust_remote_code: bool = False) -> tuple[PreTrainedTokenizerBase, str]:
    """A model's tokenizer if it can be had, else the embedded base's."""
    try:
        return load_tokenizer(model, trust_remote_code), "the model"
    except InputError:
        return load_tokenizer(EMBEDDED), "the embedded base"


def _dialect(kind: str) -> str:
    return "think" if kind.startswith("qwen3") else "gemma" if kind.startswith("gemma4") else "boxed"


def real_config(model: Architecture) -> Any:
    """The configuration that transformers would read for a row of the plan's table."""
    shape: dict[str, Any] = {
        "vocab_size": model.vocab,
        "hidden_size": model.hidden,
        "intermediate_size": model.intermediate,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "tie_word_embeddings": model.tied,
    }
    if model.kind == "qwen2":
        return Qwen2Config(**shape)
    if model.kind == "qwen3":
        return Qwen3Config(**shape, head_dim=model.head_dim)
    if model.kind == "qwen3_5":
        return Qwen3_5TextConfig(**shape, head_dim=model.head_dim, linear_num_value_heads=model.delta_heads)
    gemma = {
        "head_dim": model.head_dim,
        "global_head_dim": model.global_head_dim,
        "num_kv_shared_layers": model.shared_kv_layers,
        "hidden_size_per_layer_input": model.per_layer_input,
        "sliding_window": model.window,
    }
    return Gemma4TextConfig(**{**shape, **gemma})


def random_model(config: Any, dtype: torch.dtype, device: str) -> PreTrainedModel:
    """A model as its configuration initialises it, the same every time on one kind of device."""
    named = (config.architectures or [""])[0]
    kind = getattr(transformers, named, None)
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(0)
        # Built where it will live: 4B parameters are drawn in seconds on a GPU, in minutes on a CPU.
        if kind is not None:
            made: PreTrainedModel = kind._from_config(config, dtype=dtype)
        else:
            made = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return made


def free_memory() -> None:
    """Return to the GPU what nothing refers to any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _refuse_full_disk(folder: Path, needed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"There is no room for the model in {folder}: it takes {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB are "
            "free; set --out or TMPDIR to another disk."
        )
