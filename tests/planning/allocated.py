"""How many bytes a training step really allocates, counted without allocating them.

The tensors are fake: every operation runs on shapes alone, and a dispatch mode adds up the storages
that are alive. Only the decoder layers are run; the output head is TRL's and is tiled.
"""

import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from transformers import PreTrainedModel

from agon.policies import Pair


class _Living(TorchDispatchMode):
    """The bytes of all storages that are alive, and the most there were."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.now = self.peak = 0

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.sizes:
            self.sizes[key] = storage.nbytes()
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self.drop, key)

    def drop(self, key: int) -> None:
        self.now -= self.sizes.pop(key)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        tree_map_only(torch.Tensor, self.add, made)
        return made


def peak_of_a_step(base: PreTrainedModel, rows: int, length: int) -> int:
    """Bytes beyond the weights that forward and backward of one micro-batch need at their peak."""
    for weight in base.parameters():
        weight.data = weight.data.to(torch.bfloat16)
    pair = Pair.create(base)
    pair.model.train()
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    pair.model.enable_input_require_grads()
    pair.activate("A")
    pair.cast_inputs(False)  # as the trainer does under autocast
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    _make_fake(pair.model, fake)
    living = _Living()
    with fake, torch.device("cpu"):
        ids = torch.ones(rows, length, dtype=torch.long)
        with living:
            for weight in pair.model.parameters():
                living.add(weight)
            before = living.now
            with torch.autocast("cpu", dtype=torch.bfloat16):
                hidden = base.model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)
            hidden.last_hidden_state.float().mean().backward()
    return living.peak - before


def _make_fake(model: torch.nn.Module, fake: FakeTensorMode) -> None:
    known: dict[int, torch.nn.Parameter] = {}
    originals = list(model.parameters())  # alive, so that ids stay unique
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                made = torch.nn.Parameter(
                    fake.from_tensor(weight.detach()), requires_grad=weight.requires_grad
                )
                module._parameters[name] = known.setdefault(id(weight), made)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = fake.from_tensor(buffer)
    del originals
