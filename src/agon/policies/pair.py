"""The pair: two LoRA adapters, A and B, over one frozen base.

Only this module switches adapters. PEFT's own `set_adapter`, `disable_adapter` and TRL's
`use_adapter` freeze the adapter that is not active; here both stay trainable whichever is active,
so that one optimizer can hold both. Single-policy methods have A alone.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from torch.distributed.tensor import DTensor

from agon.errors import InputError
from agon.policies.adapter_files import check_adapter, check_weights
from agon.policies.fused import FusedLayers, fuse_norms
from agon.policies.targets import target_modules

# Never "default": PEFT saves an adapter of that name at the root of a checkpoint, and the Trainer's
# resume then skips it silently.
NAMES = ("A", "B")
BASE = "base"


@dataclass(frozen=True)
class Adapters:
    """How the adapters are made. `noise` is the standard deviation of B's lora_B, which PEFT leaves at zero."""

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.0
    targets: Sequence[str] | str | None = None
    noise: float = 1e-3
    seed: int = 0

    def lora(self, config: Any) -> LoraConfig:
        """PEFT's configuration for a base model."""
        targets = self.targets if self.targets is not None else target_modules(config)
        return LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            lora_dropout=self.dropout,
            target_modules=targets if isinstance(targets, str) else list(targets),
            task_type="CAUSAL_LM",
        )


class Pair:
    """The policies over one base: activate, save, load, fingerprint, measure."""

    def __init__(self, model: PeftModel, names: Sequence[str]) -> None:
        self.model = model
        self.names = tuple(names)
        self._layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
        self._parameters = {name: _adapter_parameters(model, name) for name in self.names}
        self._fused = FusedLayers(self._layers, self.names)
        self._enable_gradients()

    @staticmethod
    def create(base: nn.Module, adapters: Adapters | None = None, policies: int = 2) -> "Pair":
        """New adapters: A as LoRA starts (lora_B zero), B with small Gaussian noise in lora_B."""
        adapters = adapters or Adapters()
        names = NAMES[:policies]
        for position, name in enumerate(names):
            # Each adapter's lora_A is drawn from its own seed, so that A is the same with or without B.
            with torch.random.fork_rng():
                torch.manual_seed(adapters.seed + position)
                if position == 0:
                    model = get_peft_model(base, adapters.lora(base.config), adapter_name=name)
                else:
                    model.add_adapter(name, adapters.lora(base.config))
        pair = Pair(model, names)
        if "B" in names:
            generator = torch.Generator().manual_seed(adapters.seed)
            with torch.no_grad():
                for key, weight in pair.weights("B"):
                    if "lora_B" in key:
                        noise = torch.randn(weight.shape, generator=generator) * adapters.noise
                        weight.copy_(noise.to(weight))
        return pair

    @staticmethod
    def load(base: nn.Module, folder: str | Path, names: Sequence[str] | None = None) -> "Pair":
        """The adapters of a folder that has one PEFT folder per policy, as `save` wrote it."""
        folder = Path(folder)
        found = saved_policies(folder)
        names = tuple(names or found)
        if not names or not set(names) <= set(found):
            raise InputError(
                f"No adapters in '{folder}': expected the PEFT folders {', '.join(names or NAMES)}, "
                f"found {', '.join(found) or 'none'}."
            )
        for name in names:
            check_adapter(folder / name)
        first, *rest = names
        try:
            model = PeftModel.from_pretrained(
                base, str(folder / first), adapter_name=first, is_trainable=True
            )
            for name in rest:
                model.load_adapter(str(folder / name), name, is_trainable=True)
        except (ValueError, RuntimeError, TypeError, KeyError, SafetensorError) as error:
            raise InputError(
                f"The adapters in '{folder}' do not fit their base: {' '.join(str(error).split())[:200]}"
            ) from error
        pair = Pair(model, names)
        for name in names:
            check_weights(
                folder / name,
                ((key.replace(f".{name}.", "."), tuple(weight.shape)) for key, weight in pair.weights(name)),
            )
        return pair

    def weights(self, name: str) -> list[tuple[str, nn.Parameter]]:
        """The adapter's parameters by name."""
        if name not in self._parameters:
            raise InputError(f"There is no policy '{name}' here, only {', '.join(self.names)}.")
        return self._parameters[name]

    def adapter_modules(self) -> list[nn.Module]:
        """The modules that hold the adapters' weights and nothing of the base."""
        owners = {key.rpartition(".")[0] for name in self.names for key, _ in self.weights(name)}
        return [self.model.get_submodule(owner) for owner in sorted(owners)]

    def activate(self, name: str) -> None:
        """Make one policy the active one. Costs a loop over the adapted layers, 10 ms for 28 decoder layers."""
        self.weights(name)
        self.end_rows()
        for layer in self._layers:
            if layer.active_adapters != [name]:
                layer.set_adapter(name)
        self.model.active_adapter = name
        self._enable_gradients()

    def fuse(self) -> None:
        """Compute adapted layers and norms in one function each, where they are plain (`agon.policies.fused`)."""
        self._fused.fused = True
        fuse_norms(self.model)

    def activate_rows(self, policies: torch.Tensor) -> None:
        """Give every row its own policy, by its number among `names`, until one policy is activated again.

        `policies` has the shape [rows, 1], or [1, tokens] for rows that are laid one after another.
        """
        self.refuse_unlike_rows()
        self._fused.mix(policies)

    def refuse_unlike_rows(self) -> None:
        """Refuse adapters for which `activate_rows` was not made."""
        self._fused.refuse_unlike()

    def end_rows(self) -> None:
        """Every row under the active policy again."""
        self._fused.end_mix()

    @contextmanager
    def sampling_as(self, name: str) -> Iterator[None]:
        """As `using`, with base and adapter in one matrix where that is exact enough: for many small forwards."""
        with self.using(name):
            self._fused.fold()
            try:
                yield
            finally:
                self._fused.unfold()

    @contextmanager
    def using(self, name: str) -> Iterator[None]:
        """Activate one policy, or the base alone, within a block; then the one that was active before."""
        before = self.model.active_adapter
        self.end_rows()
        if name == BASE:
            try:
                with self.model.disable_adapter():
                    yield
            finally:
                self._enable_gradients()
            return
        self.activate(name)
        try:
            yield
        finally:
            self.activate(before)

    def cast_inputs(self, wanted: bool) -> None:
        """Whether the adapters' layers cast their inputs to their own precision.

        Under autocast that is wasted work, up to float32 and straight down again. Without autocast a
        float32 adapter over a bfloat16 base needs it.
        """
        for layer in self._layers:
            layer.cast_input_dtype_enabled = wanted

    def snapshot(self, name: str) -> list[torch.Tensor]:
        """A copy of a policy's weights, for `restore` and `holding`."""
        return [weight.detach().clone() for _, weight in self.weights(name)]

    @torch.no_grad()
    def restore(self, name: str, snapshot: Sequence[torch.Tensor]) -> None:
        """Put a policy's weights back, in place."""
        for (_, weight), saved in zip(self.weights(name), snapshot, strict=True):
            weight.copy_(saved)

    @contextmanager
    def holding(self, name: str, snapshot: Sequence[torch.Tensor]) -> Iterator[None]:
        """A policy with other weights for the length of a block."""
        present = self.snapshot(name)
        self.restore(name, snapshot)
        try:
            yield
        finally:
            self.restore(name, present)

    @torch.no_grad()
    def add_noise(self, name: str, deviation: float) -> None:
        """Gaussian noise on a policy's lora_B, the same every time."""
        generator = torch.Generator().manual_seed(0)
        for key, weight in self.weights(name):
            if "lora_B" in key:
                weight.add_((torch.randn(weight.shape, generator=generator) * deviation).to(weight))

    def save(self, folder: str | Path) -> None:
        """One plain PEFT folder per policy: `folder/A`, `folder/B`."""
        for name in self.names:
            self.save_one(name, Path(folder) / name)

    def save_one(self, name: str, folder: str | Path) -> None:
        """One policy as a PEFT folder that PeftModel and vLLM load as it is."""
        self.weights(name)
        folder = Path(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            # PEFT puts an adapter that is not called "default" into a subfolder of its name, and a
            # template of a model card next to it.
            self.model.save_pretrained(temporary, selected_adapters=[name])
            shutil.rmtree(folder, ignore_errors=True)
            (Path(temporary) / name).rename(folder)

    def export(self, name: str, folder: str | Path) -> None:
        """One policy as `save_one` writes it, but fast and in the base's precision, for an engine to load.

        An engine computes adapters in the base's precision, so nothing is lost. The weights leave the
        device in one copy instead of hundreds.
        """
        weights = self.weights(name)
        dtype = next(weight.dtype for key, weight in self.model.named_parameters() if "lora_" not in key)
        with torch.no_grad():
            flat = torch.cat([weight.detach().flatten().to(dtype) for _, weight in weights]).cpu()
        parts = flat.split([weight.numel() for _, weight in weights])
        tensors = {
            key.replace(f".{name}.weight", ".weight"): part.view(weight.shape)
            for (key, weight), part in zip(weights, parts, strict=True)
        }
        Path(folder).mkdir(parents=True)
        self.model.peft_config[name].save_pretrained(str(folder))
        save_file(tensors, Path(folder) / "adapter_model.safetensors", metadata={"format": "pt"})

    def load_weights(self, folder: str | Path) -> None:
        """Overwrite the adapters' weights with those of a folder written by `save`, in place."""
        for name in self.names:
            self.load_one(name, Path(folder) / name)

    def load_one(self, name: str, folder: str | Path) -> None:
        """Overwrite one policy's weights with those of a PEFT folder, in place."""
        from peft import set_peft_model_state_dict

        file = Path(folder) / "adapter_model.safetensors"
        if not file.is_file():
            raise InputError(f"The adapter '{folder}' has no weights: there is no {file.name} in it.")
        tensors = load_file(file)
        try:
            loaded = set_peft_model_state_dict(self.model, tensors, adapter_name=name)
        except RuntimeError as error:  # torch lists every tensor of another size
            raise InputError(
                f"The adapter '{folder}' has other shapes than policy {name}: set lora_r and lora_target_modules "
                "as it was made with."
            ) from error
        missing = [key for key in loaded.missing_keys if f".{name}." in key and "lora_" in key]
        if missing or loaded.unexpected_keys:
            raise InputError(
                f"The adapter '{folder}' has other layers than policy {name}: set lora_target_modules as it was "
                "made with."
            )
        self._enable_gradients()

    def fingerprint(self, name: str) -> str:
        """A hash of a policy's weights, or of the frozen base's.

        A sharded base is gathered weight by weight: then all processes must ask together.
        """
        if name == BASE:
            weights: Sequence[tuple[str, torch.Tensor]] = [
                (key, weight) for key, weight in self.model.named_parameters() if "lora_" not in key
            ]
        else:
            weights = self.weights(name)
        digest = hashlib.sha256()
        for key, weight in weights:
            raw = _whole(weight.detach()).cpu().contiguous().flatten().view(torch.uint8).numpy()
            digest.update(json.dumps([key, list(weight.shape)]).encode())
            digest.update(raw.tobytes())
        return digest.hexdigest()[:16]

    def distance(self) -> float:
        """How much the policies' weight updates differ: ‖ΔA − ΔB‖ / (‖ΔA‖ + ‖ΔB‖), from 0 to 1."""
        if len(self.names) < 2:
            return 0.0
        factors = {name: dict(_factors(self.weights(name), name)) for name in NAMES}
        squared_difference = norms = 0.0
        for key, (down_a, up_a) in factors["A"].items():
            down_b, up_b = factors["B"][key]
            up, down = torch.cat([up_a, -up_b], 1), torch.cat([down_a, down_b], 0)
            squared_difference += _product_norm(up, down) ** 2
        for name in NAMES:
            norms += sum(_product_norm(up, down) ** 2 for down, up in factors[name].values()) ** 0.5
        return squared_difference**0.5 / norms if norms else 0.0

    def _enable_gradients(self) -> None:
        for parameters in self._parameters.values():
            for _, weight in parameters:
                weight.requires_grad_(True)


def saved_policies(folder: Path) -> tuple[str, ...]:
    """The policies whose adapters a folder holds."""
    return tuple(name for name in NAMES if (folder / name / "adapter_config.json").is_file())


def _adapter_parameters(model: nn.Module, name: str) -> list[tuple[str, nn.Parameter]]:
    marks = (f".lora_A.{name}.", f".lora_B.{name}.")
    found = [(key, weight) for key, weight in model.named_parameters() if any(mark in key for mark in marks)]
    if not found:
        raise InputError(f"The model has no adapter named '{name}'.")
    return found


def _whole(weight: torch.Tensor) -> torch.Tensor:
    """A weight, or all of one that is sharded over the processes."""
    return weight.full_tensor() if isinstance(weight, DTensor) else weight


def _factors(
    weights: Sequence[tuple[str, nn.Parameter]], name: str
) -> Iterator[tuple[str, tuple[torch.Tensor, torch.Tensor]]]:
    down = {key.split(".lora_A.")[0]: weight for key, weight in weights if f".lora_A.{name}." in key}
    up = {key.split(".lora_B.")[0]: weight for key, weight in weights if f".lora_B.{name}." in key}
    for key in down:
        yield key, (down[key].detach().float(), up[key].detach().float())


def _product_norm(up: torch.Tensor, down: torch.Tensor) -> float:
    """The Frobenius norm of `up @ down`, computed from two small Gram matrices."""
    return float(((up.T @ up) * (down @ down.T)).sum().clamp(min=0.0).sqrt())
