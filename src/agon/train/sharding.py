"""A base whose layers are sharded over the processes (FSDP2), under adapters that are whole in each of them.

`fully_shard` replaces the parameters that it shards. The adapters are left out: they are a hundredth of the
base, and whole in every process they are exported, saved, fingerprinted and resumed as ever, so that a
checkpoint does not know how many processes wrote it. What FSDP2 then does not do for them is done here:
their gradients are averaged, once per optimizer step. Embeddings, last norm and head are left out too: TRL
reads the head's weight without calling the head, which FSDP2 does not see, and would gather it for every
micro-batch. Every forward gathers the layers of the base, so all processes must run equally many: those
with fewer rows fill up.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy
from transformers import PreTrainedModel

from agon.errors import InputError
from agon.policies import Pair


def shard_on_cpu(accelerator: Accelerator, settings: Mapping[str, Any] | None) -> None:
    """Switch FSDP2 on where accelerate, which does so for GPUs only, ignores it without a word.

    `settings` are the options' own; without them the plugin reads the launcher's variables.
    """
    if accelerator.distributed_type == DistributedType.NO:
        raise InputError(
            "fsdp needs processes that a launcher has started, even if it is one: torchrun or accelerate."
        )
    # Every new AcceleratorState copies what PartialState says.
    PartialState().distributed_type = accelerator.state.distributed_type = DistributedType.FSDP
    accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(**(settings or {}))


def shard_layers_only(accelerator: Accelerator, pair: Pair) -> None:
    """Tell FSDP2 to leave alone what is not a layer of the base, and to cast nothing.

    The base already has the precision that it computes in. accelerate's policy would also round what the
    model returns, which here are log-probs, to that precision.
    """
    plugin = accelerator.state.fsdp_plugin
    plugin.ignored_modules = [*pair.adapter_modules(), *_around_the_layers(pair.model.get_base_model())]
    plugin.mixed_precision_policy = MixedPrecisionPolicy(cast_forward_inputs=False)
    for module in plugin.ignored_modules:
        module.to(accelerator.device)


def _around_the_layers(base: PreTrainedModel) -> list[nn.Module]:
    """Embeddings, head and the norm between the last layer and the head."""
    ends = [base.get_input_embeddings(), base.get_output_embeddings()]
    backbone = base.base_model
    norms = [module for _, module in backbone.named_children() if "Norm" in type(module).__name__]
    return [module for module in (*ends, *norms) if module is not None]


@torch.no_grad()
def average_gradients(weights: Iterable[nn.Parameter], accelerator: Accelerator) -> None:
    """The mean of the processes' gradients, in place, as DDP would leave it."""
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    if not gradients:
        return
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    torch.distributed.all_reduce(flat)
    flat /= accelerator.num_processes
    for gradient, part in zip(gradients, flat.split([each.numel() for each in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def missing_forwards(own: int, accelerator: Accelerator) -> int:
    """How many forwards this process must add to those it needs, so that all run equally many."""
    counts = accelerator.gather(torch.tensor([own], device=accelerator.device))
    return int(counts.max()) - own
