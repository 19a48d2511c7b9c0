"""The numbers of a model that decide its memory and speed, known before anything is downloaded.

A table for the models of the recipes, and the same numbers from any local `config.json`. Only linear
layers and embeddings are counted; norms are a ten-thousandth of a model.

Building the model on torch's meta device instead would count parameters exactly (0.04 to 0.12 s each for
six models of the table, once transformers is loaded). It would still need the model's configuration,
which has to be downloaded first, and it says nothing about caches and activations. So the arithmetic
stays, and `tests/planning/test_estimate.py` holds it to the meta models: those differ from them by
0.005% to 0.03%.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agon.errors import InputError, unknown

# Kinds of models whose attention can be ours (`agon.policies.attention`).
LINE_KINDS = ("qwen2", "qwen3", "llama")


@dataclass(frozen=True)
class Linear:
    """So many linear layers of one shape; `adapted` ones carry a LoRA adapter."""

    count: int
    inputs: int
    outputs: int
    adapted: bool = True


@dataclass(frozen=True)
class Architecture:
    """A decoder. The last group of fields belongs to the families that need them."""

    kind: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool = True
    # Parameters of towers for images and sound that a checkpoint brings along.
    towers: int = 0
    # Qwen3.5: every `full_every`-th layer is attention, the others are gated delta nets.
    full_every: int = 1
    delta_heads: int = 0
    delta_dim: int = 0
    gated: bool = False
    # Gemma 4: every `full_every`-th layer is global, with wider heads; the others see a window.
    global_head_dim: int = 0
    window: int = 0
    shared_kv_layers: int = 0
    per_layer_input: int = 0

    @property
    def in_lines(self) -> bool:
        """Whether rows can be laid one after another: every layer attends to everything before it."""
        return self.kind in LINE_KINDS and self.full_every == 1

    @property
    def full_layers(self) -> int:
        return self.layers // self.full_every

    @property
    def adapter_layers(self) -> tuple[Linear, ...]:
        return tuple(linear for linear in self.linears() if linear.adapted)

    @property
    def parameters(self) -> int:
        """Of the text model and its towers."""
        embeddings = self.vocab * self.hidden * (1 if self.tied else 2)
        per_layer = self.vocab * self.layers * self.per_layer_input
        return self.layer_parameters + embeddings + per_layer + self.towers

    @property
    def layer_parameters(self) -> int:
        """Of all layers, without embeddings, head and towers."""
        return sum(each.count * each.inputs * each.outputs for each in self.linears())

    @property
    def active(self) -> int:
        """Parameters that a token is multiplied with: all but looked-up embeddings and towers."""
        return self.layer_parameters + self.vocab * self.hidden

    def adapter(self, rank: int) -> int:
        """Parameters of one adapter: r x (inputs + outputs) for each adapted layer."""
        return sum(rank * each.count * (each.inputs + each.outputs) for each in self.adapter_layers)

    def cache_bytes(self, tokens: int, rows: int = 1, width: int = 2) -> int:
        """Keys and values of `tokens` tokens in each of `rows` sequences.

        2 x kv heads x head size x bytes for each layer with a cache of its own; a layer with a
        window holds the window at most, a delta net a state of fixed size in float32.
        """
        total = 0
        for layer in range(self.layers):
            full = (layer + 1) % self.full_every == 0
            if layer >= self.layers - self.shared_kv_layers:
                continue
            if full or not self.delta_heads:
                held = tokens if full or not self.window else min(tokens, self.window)
                total += 2 * self.kv_heads * self._head_dim(full) * width * held
            else:
                total += self.delta_heads * self.delta_dim * (self.delta_dim * 4 + 3 * 4 * width)
        return total * rows

    def linears(self) -> Iterator[Linear]:
        """Every linear layer but the output head."""
        yield Linear(2 * self.layers, self.hidden, self.intermediate)
        yield Linear(self.layers, self.intermediate, self.hidden)
        for full in (True, False):
            count = self.full_layers if full else self.layers - self.full_layers
            if not count:
                continue
            if not full and self.delta_heads:
                yield from self._delta_net(count)
            else:
                yield from self._attention(count, full)
        if self.per_layer_input:
            yield Linear(self.layers, self.hidden, self.per_layer_input, adapted=False)
            yield Linear(self.layers, self.per_layer_input, self.hidden, adapted=False)
            yield Linear(1, self.hidden, self.layers * self.per_layer_input, adapted=False)

    def _attention(self, count: int, full: bool) -> Iterator[Linear]:
        wide = self.heads * self._head_dim(full)
        own = sum(
            1
            for layer in range(self.layers - self.shared_kv_layers)
            if ((layer + 1) % self.full_every == 0) == full
        )
        yield Linear(count, self.hidden, wide * (2 if self.gated else 1))
        yield Linear(2 * own, self.hidden, self.kv_heads * self._head_dim(full))
        yield Linear(count, wide, self.hidden)

    def _delta_net(self, count: int) -> Iterator[Linear]:
        wide = self.delta_heads * self.delta_dim
        yield Linear(count, self.hidden, 3 * wide)
        yield Linear(count, self.hidden, wide)
        yield Linear(2 * count, self.hidden, self.delta_heads)
        yield Linear(count, wide, self.hidden)

    def _head_dim(self, full: bool) -> int:
        return self.global_head_dim if full and self.global_head_dim else self.head_dim


_QWEN3 = Architecture("qwen3", 28, 1024, 16, 8, 128, 3072, 151_936)
MODELS: dict[str, Architecture] = {
    "Qwen/Qwen2.5-0.5B-Instruct": Architecture("qwen2", 24, 896, 14, 2, 64, 4864, 151_936),
    "Qwen/Qwen3-0.6B": _QWEN3,
    "Qwen/Qwen3-1.7B": replace(_QWEN3, hidden=2048, intermediate=6144),
    "Qwen/Qwen3-4B": replace(_QWEN3, layers=36, hidden=2560, heads=32, intermediate=9728),
    "Qwen/Qwen3-8B": replace(_QWEN3, layers=36, hidden=4096, heads=32, intermediate=12_288, tied=False),
    "Qwen/Qwen3-14B": replace(_QWEN3, layers=40, hidden=5120, heads=40, intermediate=17_408, tied=False),
    "Qwen/Qwen3-32B": replace(_QWEN3, layers=64, hidden=5120, heads=64, intermediate=25_600, tied=False),
    "Qwen/Qwen3.5-2B": Architecture(
        *("qwen3_5", 24, 2048, 8, 2, 256, 6144, 248_320),
        towers=330_000_000,
        full_every=4,
        delta_heads=16,
        delta_dim=128,
        gated=True,
    ),
    "google/gemma-4-E4B-it": Architecture(
        *("gemma4", 42, 2560, 8, 2, 256, 10_240, 262_144),
        towers=470_000_000,
        full_every=6,
        global_head_dim=512,
        window=512,
        shared_kv_layers=18,
        per_layer_input=256,
    ),
}


def architecture(model: str) -> Architecture:
    """The numbers of a model: from the table, or from the config.json of a local folder."""
    if model in MODELS:
        return MODELS[model]
    file = Path(model).expanduser() / "config.json"
    if not file.is_file():
        near = unknown("model", model, MODELS)
        raise InputError(f"{near} Or give a local folder that has a config.json.")
    try:
        config = json.loads(file.read_text("utf-8"))
        return from_config(config)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} does not describe a decoder that can be planned: {error!r}.") from error


def from_config(config: Mapping[str, Any]) -> Architecture:
    """The numbers that a `config.json` gives."""
    text = config.get("text_config", config)
    heads, hidden = text["num_attention_heads"], text["hidden_size"]
    types = text.get("layer_types") or []
    full_every = types.index("full_attention") + 1 if "full_attention" in types else 1
    if text["model_type"].startswith("qwen3_5") and not types:
        full_every = text.get("full_attention_interval", 4)
    gemma = text["model_type"].startswith("gemma4")
    delta = text["model_type"].startswith("qwen3_5")
    return Architecture(
        kind=text["model_type"],
        layers=text["num_hidden_layers"],
        hidden=hidden,
        heads=heads,
        kv_heads=text.get("num_key_value_heads") or heads,
        head_dim=text.get("head_dim") or hidden // heads,
        intermediate=text["intermediate_size"],
        vocab=text["vocab_size"],
        tied=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
        full_every=full_every if gemma or delta else 1,
        delta_heads=text.get("linear_num_value_heads", 0) if delta else 0,
        delta_dim=text.get("linear_value_head_dim", 0) if delta else 0,
        gated=delta,
        global_head_dim=_global_head_dim(text) if gemma else 0,
        window=text.get("sliding_window") or 0 if gemma else 0,
        shared_kv_layers=text.get("num_kv_shared_layers") or 0,
        per_layer_input=text.get("hidden_size_per_layer_input") or 0,
    )


def _global_head_dim(text: Mapping[str, Any]) -> int:
    """The head size of Gemma's global layers: a field of its own, or an exception layer by layer."""
    exceptions = [layer.get("head_dim", 0) for layer in (text.get("per_layer_config") or {}).values()]
    return int(text.get("global_head_dim") or max(exceptions, default=0))
