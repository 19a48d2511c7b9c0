"""`model.train()` that costs nothing where there is nothing to do.

The Trainer calls it in every micro-step, and torch then sets a flag in every module, one by one: an adapted layer has
dozens of them.
"""

from types import MethodType

from torch import nn


def set_mode_once(model: nn.Module) -> None:
    """Let `train` and `eval` of a model that is put together return at once if every part is in that mode."""
    parts = list(model.modules())

    def train(self: nn.Module, mode: bool = True) -> nn.Module:
        if all(part.training == mode for part in parts):
            return self
        return type(self).train(self, mode)

    model.train = MethodType(train, model)  # type: ignore[method-assign]
