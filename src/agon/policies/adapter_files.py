"""What an adapter's folder may hold before PEFT is asked to load it.

PEFT builds whatever kind of adapter a configuration names, and some of its fields name modules to import
(`megatron_core`), files to read (`corda_config`) or tokenizers to fetch. The adapters of a run are plain LoRA, so any
other configuration is refused, and so are weights that are not exactly those which it describes: PEFT would leave what
is missing at random and say so in a warning.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from peft import LoraConfig
from safetensors import SafetensorError, safe_open

from agon.errors import InputError

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
# What a plain LoRA adapter is described by; every other field must be as LoRA has it by itself.
DESCRIBES = {
    *("peft_type", "task_type", "r", "lora_alpha", "lora_dropout", "target_modules", "peft_version"),
    *("base_model_name_or_path", "revision", "bias", "inference_mode", "init_lora_weights", "auto_mapping"),
}


def check_adapter(folder: Path) -> None:
    """Refuse an adapter that is no plain LoRA adapter with weights as safetensors."""
    found = _configuration(folder / CONFIG)
    if found.get("peft_type") != "LORA":
        raise InputError(f"'{folder}' holds no LoRA adapter: its peft_type is {found.get('peft_type')!r}.")
    usual = LoraConfig().to_dict()
    odd = [
        name
        for name, value in found.items()
        if name not in DESCRIBES and _plain(value) != _plain(usual.get(name))
    ]
    if odd or found.get("bias", "none") != "none" or not _usual_start(found.get("init_lora_weights", True)):
        fields = ", ".join(odd) or "bias or init_lora_weights"
        raise InputError(
            f"The adapter '{folder}' is no plain LoRA adapter ({fields} in {CONFIG}): only such are loaded."
        )
    for name, kind in (("r", int), ("lora_alpha", int | float), ("lora_dropout", int | float)):
        if not isinstance(found.get(name), kind) or isinstance(found.get(name), bool) or found[name] < 0:
            raise InputError(f"{name} in {folder / CONFIG} must be a number, not {found.get(name)!r}.")
    targets = found.get("target_modules")
    named = targets if isinstance(targets, list) else [targets]
    if not named or not all(isinstance(one, str) and one for one in named):
        raise InputError(f"target_modules in {folder / CONFIG} must be names of layers, not {targets!r}.")
    if not (folder / WEIGHTS).is_file():
        raise InputError(f"'{folder}' has no {WEIGHTS}: other formats are not loaded.")


def check_weights(folder: Path, wanted: Iterable[tuple[str, tuple[int, ...]]]) -> None:
    """Refuse weights that are not exactly those of the adapter they are for."""
    path = folder / WEIGHTS
    try:
        with safe_open(path, "pt") as file:
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): restore it.") from error
    expected = dict(wanted)
    for name in sorted(expected.keys() ^ found.keys()):
        has = "has no" if name in expected else "has a"
        raise InputError(f"{path} does not fit its base: it {has} weight {name}.")
    for name, shape in expected.items():
        if found[name] != shape:
            raise InputError(f"{path} does not fit its configuration: {name} is {found[name]}, not {shape}.")


def scale_of(folder: Path) -> Any:
    """The number by which an adapter's update is scaled, over its rank."""
    return _configuration(folder / CONFIG).get("lora_alpha")


def rank_of(folder: Path) -> int:
    """The rank of an adapter."""
    rank = _configuration(folder / CONFIG).get("r")
    if not isinstance(rank, int) or rank < 1:
        raise InputError(f"{folder / CONFIG} names the rank {rank!r}; expected a whole number of at least 1.")
    return rank


def _configuration(path: Path) -> dict[str, Any]:
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe would be waited for
        raise InputError(f"{path} is no plain file: restore it.")
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}): restore it.") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no object: restore it.")
    return found


def _usual_start(value: Any) -> bool:
    return isinstance(value, bool) or value == "gaussian"


def _plain(value: Any) -> Any:
    """A value as JSON gives it back; nothing, an empty list and an empty mapping say the same."""
    if isinstance(value, set):
        value = sorted(value)
    return value or None
