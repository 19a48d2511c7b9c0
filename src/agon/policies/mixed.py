"""Rows of both policies in one pass: the base's products once for all rows, each row under its own adapter.

PEFT mixes adapters in a batch (`adapter_names`) only where nothing is trained. Here the adapters of a layer are
stacked: all rows pass through [A_A; A_B] at once, what belongs to the other policy is set to zero row by row, and
[B_A, B_B] follows. A zero adds nothing to the result and nothing to a gradient, so each row has the log-probs and
each adapter the gradient that it would have alone; only the order of sums differs. The stacked product is 2r columns
wide instead of r, which is little beside the base's.

A mix lasts until it is ended: gradient checkpointing runs the forward again in the backward pass. Plain LoRA on
linear layers only, with one rank and scale for all policies; dropout falls on every row as it would alone.
"""

from collections.abc import Sequence
from types import MethodType
from typing import Any

import torch
from peft.tuners.lora.layer import Linear
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn

from agon.errors import InputError


class MixedRows:
    """Lets the adapted layers of a model compute rows of several policies at once."""

    def __init__(self, layers: Sequence[BaseTunerLayer], names: Sequence[str]) -> None:
        self._layers = [_plain(layer, names) for layer in layers]
        self._names = tuple(names)
        self._rank = {layer.r[name] for layer in self._layers for name in names}
        if len(self._rank) != 1:
            raise InputError("Both policies at once need adapters of one rank in all layers.")
        self._own: torch.Tensor | None = None

    def begin(self, policies: torch.Tensor) -> None:
        """Compute under these policies from now on: the number of each row's, in the shape of rows by tokens.

        [rows, 1] for padded rows, [1, tokens] for rows that are laid one after another.
        """
        rank = next(iter(self._rank))
        chosen = nn.functional.one_hot(policies, len(self._names))
        self._own = chosen.repeat_interleave(rank, dim=-1)
        for layer in self._layers:
            layer.forward = MethodType(self._forward, layer)

    def end(self) -> None:
        """Back to one active adapter."""
        if self._own is None:
            return
        self._own = None
        for layer in self._layers:
            del layer.forward  # that of the class shows again

    def _forward(self, layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        result: torch.Tensor = layer.base_layer(x, *args, **kwargs)
        down = torch.cat([layer.lora_A[name].weight for name in self._names])
        up = torch.cat([layer.lora_B[name].weight for name in self._names], dim=1)
        first = self._names[0]
        x = layer._cast_input_dtype(x, down.dtype)
        inner = nn.functional.linear(layer.lora_dropout[first](x), down)
        assert self._own is not None
        added = nn.functional.linear(inner * self._own.to(inner.dtype), up)
        return torch.add(result, added, alpha=layer.scaling[first]).to(result.dtype)


def _plain(layer: BaseTunerLayer, names: Sequence[str]) -> Any:
    """A layer that can be mixed, or one sentence."""
    if (
        not isinstance(layer, Linear)
        or layer.lora_variant
        or any(layer.lora_bias.get(name) for name in names)
        or len({layer.scaling[name] for name in names}) != 1
        or len({_dropout(layer.lora_dropout[name]) for name in names}) != 1
    ):
        raise InputError(
            "both_policies_at_once is for plain LoRA on linear layers, alike for both policies; "
            f"this model has a {type(layer).__name__} that is not."
        )
    return layer


def _dropout(module: nn.Module) -> float:
    return float(getattr(module, "p", 0.0))
