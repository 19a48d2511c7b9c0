"""Adapted layers, and norms, with fewer kernels: less to launch, fewer tensors of full size to read, write and keep.

PEFT computes W x, A x, B A x, its product with the scale and the sum one after another, and autograd as many steps
back. Here one function has all of it: the adapter is added onto the base's product as it is computed, and its gradient
onto that of the base. The results are PEFT's but for the order of sums.

Rows of both policies in one pass are computed in the same way. PEFT mixes adapters in a batch (`adapter_names`) only
where nothing is trained. Here the adapters of a layer are stacked: all rows pass through [A_A; A_B] at once, what
belongs to the other policy is set to zero row by row, and [B_A, B_B] follows. A zero adds nothing to the result and
nothing to a gradient, so each row has the log-probs and each adapter the gradient that it would have alone. The stacked
product is 2r columns wide instead of r, which is little beside the base's. A mix lasts until it is ended: gradient
checkpointing runs the forward again in the backward pass.

For plain LoRA on linear layers, where everything is computed in one precision; anything else (an adapter that is
merged or disabled, a variant, dropout, a base in another precision) goes PEFT's way.
"""

from collections.abc import Sequence
from types import MethodType
from typing import Any

import torch
from peft.tuners.lora.layer import Linear
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn
from torch.distributed.tensor import DTensor

from agon.errors import InputError

# Parameters of a base's adapted layers up to which copies of them are made for sampling.
MOST_FOLDED = 50_000_000
# Norms computed in float32 and returned in the precision of their input, with no offset to their weight.
RMS_NORMS = ("LlamaRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm")


class FusedLayers:
    """The adapted layers of a model; those that are plain can compute in one function."""

    def __init__(self, layers: Sequence[BaseTunerLayer], names: Sequence[str]) -> None:
        self._layers = list(layers)
        self._names = tuple(names)
        self._own: torch.Tensor | None = None
        self.fused = False  # PEFT's way, until it is asked for
        self._folded: dict[int, torch.Tensor] = {}  # by the layer's id
        for layer in self._layers:
            if _plain(layer, names):
                layer.forward = MethodType(self._forward, layer)

    def refuse_unlike(self) -> None:
        """Rows can be mixed where all layers are plain and the adapters of a layer are alike."""
        for layer in self._layers:
            if not _plain(layer, self._names) or not _alike(layer, self._names):
                raise InputError(
                    "both_policies_at_once is for plain LoRA on linear layers, alike for both policies; "
                    f"this model has a {type(layer).__name__} that is not."
                )
        if len({layer.r[name] for layer in self._layers for name in self._names}) != 1:
            raise InputError("Both policies at once need adapters of one rank in all layers.")

    def mix(self, policies: torch.Tensor) -> None:
        """Compute under these policies from now on: the number of each row's, in the shape of rows by tokens.

        [rows, 1] for padded rows, [1, tokens] for rows that are laid one after another.
        """
        rank: int = self._layers[0].r[self._names[0]]
        self._own = nn.functional.one_hot(policies, len(self._names)).repeat_interleave(rank, dim=-1)

    def end_mix(self) -> None:
        """Back to one active adapter."""
        self._own = None

    @torch.no_grad()
    def fold(self) -> None:
        """Let every layer compute with one matrix, base and active adapter in one, until `unfold`.

        For sampling, where a layer computes hundreds of times with the same weights. The base itself is not touched.
        Only in float32, where the sum loses nothing that a sampler would notice, and while the copies are small.
        """
        plain = [layer for layer in self._layers if _plain(layer, self._names) and _one_active(layer)]
        weights = [layer.base_layer.weight for layer in plain]
        small = sum(weight.numel() for weight in weights) <= MOST_FOLDED
        if self._own is not None or not small or any(weight.dtype != torch.float32 for weight in weights):
            return
        for layer, weight in zip(plain, weights, strict=True):
            (name,) = layer.active_adapters
            down, up = layer.lora_A[name].weight, layer.lora_B[name].weight
            if isinstance(weight, DTensor) or not down.dtype == up.dtype == weight.dtype:
                self.unfold()
                return
            self._folded[id(layer)] = torch.addmm(weight, up, down, alpha=layer.scaling[name])

    def unfold(self) -> None:
        self._folded.clear()

    def _forward(self, layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if (
            self._folded
            and not torch.is_grad_enabled()
            and (folded := self._folded.get(id(layer))) is not None
        ):
            return nn.functional.linear(x, folded, layer.base_layer.bias)
        dtype = _dtype_of(layer, x)
        alone = not self.fused or args or kwargs or dtype is None or not _one_active(layer)
        if self._own is None and alone:
            result: torch.Tensor = type(layer).forward(layer, x, *args, **kwargs)
            return result
        names = layer.active_adapters if self._own is None else self._names
        downs, ups = ([part[name].weight for name in names] for part in (layer.lora_A, layer.lora_B))
        down, up = (downs[0], ups[0]) if len(names) == 1 else (torch.cat(downs), torch.cat(ups, dim=1))
        scale = layer.scaling[names[0]]
        if dtype is None or _drops(layer, names[0]):
            return _in_steps(layer, x, down, up, scale, self._own, names[0])
        base = layer.base_layer
        added: torch.Tensor = _Adapted.apply(
            x.to(dtype), base.weight, base.bias, down.to(dtype), up.to(dtype), scale, self._own
        )
        return added


def fuse_norms(model: nn.Module) -> None:
    """Let the norms of a model compute in torch's one kernel, where they are its plain root mean square."""
    for module in model.modules():
        if type(module).__name__ in RMS_NORMS:
            module.forward = MethodType(_norm, module)


def _norm(module: Any, x: torch.Tensor) -> torch.Tensor:
    if x.dtype != module.weight.dtype:
        result: torch.Tensor = type(module).forward(module, x)
        return result
    with torch.autocast(x.device.type, enabled=False):  # which would take it for float32
        return nn.functional.rms_norm(x, x.shape[-1:], module.weight, module.variance_epsilon)


class _Adapted(torch.autograd.Function):
    """W x + b + scale · B (A x), with the columns of A x that are another policy's set to zero."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        down: torch.Tensor,
        up: torch.Tensor,
        scale: float,
        own: torch.Tensor | None,
    ) -> torch.Tensor:
        inner = nn.functional.linear(x, down)
        if own is not None:
            inner *= own
        result = nn.functional.linear(x, weight, bias)
        _lines(result).addmm_(_lines(inner), up.T, alpha=scale)
        ctx.save_for_backward(x, weight, down, up, inner)
        ctx.scale, ctx.own = scale, own
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (gradient,) = gradients
        x, weight, down, up, inner = ctx.saved_tensors
        through = gradient @ up
        if ctx.own is not None:
            through *= ctx.own
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = gradient @ weight
            _lines(of_x).addmm_(_lines(through), down, alpha=ctx.scale)
        of_down = ctx.scale * (_lines(through).T @ _lines(x)) if ctx.needs_input_grad[3] else None
        of_up = ctx.scale * (_lines(gradient).T @ _lines(inner)) if ctx.needs_input_grad[4] else None
        return of_x, None, None, of_down, of_up, None, None


def _lines(values: torch.Tensor) -> torch.Tensor:
    """All rows one after another; a view, where the tensor is in one piece."""
    return values.reshape(-1, values.shape[-1])


def _in_steps(
    layer: Any,
    x: torch.Tensor,
    down: torch.Tensor,
    up: torch.Tensor,
    scale: float,
    own: torch.Tensor | None,
    name: str,
) -> torch.Tensor:
    """The same with autograd's steps, where precisions differ or there is dropout."""
    result: torch.Tensor = layer.base_layer(x)
    x = layer._cast_input_dtype(x, down.dtype)
    inner = nn.functional.linear(layer.lora_dropout[name](x), down)
    if own is not None:
        inner = inner * own.to(inner.dtype)
    return torch.add(result, nn.functional.linear(inner, up), alpha=scale).to(result.dtype)


def _dtype_of(layer: Any, x: torch.Tensor) -> torch.dtype | None:
    """The precision in which everything of a layer is computed; None if there are several."""
    base, device = layer.base_layer.weight.dtype, x.device.type
    if torch.is_autocast_enabled(device):
        return base if base == torch.get_autocast_dtype(device) else None
    adapters = {layer.lora_A[name].weight.dtype for name in layer.active_adapters}
    return base if adapters | {x.dtype} == {base} else None


def _one_active(layer: Any) -> bool:
    return not (layer.disable_adapters or layer.merged_adapters) and len(layer.active_adapters) == 1


def _drops(layer: Any, name: str) -> bool:
    return layer.training and _dropout(layer.lora_dropout[name]) > 0.0


def _plain(layer: BaseTunerLayer, names: Sequence[str]) -> bool:
    return (
        isinstance(layer, Linear)
        and type(layer.get_base_layer()) is nn.Linear
        and not layer.lora_variant
        and not any(layer.lora_bias.get(name) for name in names)
    )


def _alike(layer: Any, names: Sequence[str]) -> bool:
    scales = {layer.scaling[name] for name in names}
    return len(scales) == 1 and len({_dropout(layer.lora_dropout[name]) for name in names}) == 1


def _dropout(module: nn.Module) -> float:
    return float(getattr(module, "p", 0.0))
