"""Which modules of a model get adapters, by architecture."""

from typing import Any

from agon.errors import InputError

_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_MLP = ("gate_proj", "up_proj", "down_proj")
# Qwen3.5 mixes full attention with gated delta-net layers, whose projections have other names; a
# plain q/k/v/o list would leave three layers of four without an adapter.
_DELTA_NET = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj")

_DENSE = _ATTENTION + _MLP
TARGETS: dict[str, tuple[str, ...]] = {
    "llama": _DENSE,
    "qwen2": _DENSE,
    "qwen3": _DENSE,
    "qwen3_5": _DENSE + _DELTA_NET,
    "qwen3_5_text": _DENSE + _DELTA_NET,
    "gemma4": _DENSE,
    "gemma4_text": _DENSE,
}
# In these models other towers use the same module names: only the text tower gets adapters.
_TEXT_TOWER = {"qwen3_5": r".*language_model\..*", "gemma4": r".*language_model\..*"}


def target_modules(config: Any) -> list[str] | str:
    """PEFT's `target_modules` for a model's configuration: names, or a pattern for a text tower."""
    kind = config.model_type
    if kind not in TARGETS:
        raise InputError(
            f"No adapter targets are known for the architecture '{kind}' (known: {', '.join(TARGETS)}); "
            "pass `lora_target_modules` with the names of its linear layers."
        )
    names = TARGETS[kind]
    if kind in _TEXT_TOWER:
        return rf"{_TEXT_TOWER[kind]}\.?({'|'.join(names)})"
    return list(names)
