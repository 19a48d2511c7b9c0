"""What can only be checked with torch at hand, still before a model is loaded or a folder is made.

The optimizer and its schedule are tried on one weight; the layers that are to have adapters are looked up
in an empty model of the same shape.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, get_scheduler

from agon.embedded import model_path
from agon.errors import InputError, unknown
from agon.train.config import ALL_LINEAR, AgonConfig
from agon.train.option_combinations import OPTIMIZERS
from agon.train.processes import refuse_several_gpus


def refuse_unusable(model: str, config: AgonConfig) -> None:
    """Refuse what would fail only after the model has been loaded."""
    refuse_several_gpus(config.n_gpu, config.world_size)
    if config.fp16 and not torch.cuda.is_available():
        raise InputError("fp16 must be false without a GPU: half precision is not computed on a CPU.")
    if config.torch_compile and config.torch_compile_backend not in torch.compiler.list_backends(()):
        raise unknown(
            "torch_compile_backend", str(config.torch_compile_backend), torch.compiler.list_backends(())
        )
    _try_optimizer(config)
    if config.lora_target_modules and config.lora_target_modules != [ALL_LINEAR]:
        _look_up_layers(model, config)


def refuse_too_few_problems(task: str, problems: Sequence[object], config: AgonConfig) -> None:
    """A round that the task cannot fill would be dropped, and the run would end without a step."""
    rows = config.per_device_train_batch_size * config.steps_per_generation * config.world_size
    wanted = rows // config.num_generations
    if len(problems) < wanted:
        raise InputError(
            f"Task '{task}' has {len(problems)} training problems, and one round of rollouts needs {wanted}: "
            "give more problems, or lower per_device_train_batch_size or gradient_accumulation_steps."
        )


@contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    """Remove the empty folders that were made for a run that never began."""
    absolute = folder.absolute()
    missing = [path for path in (absolute, *absolute.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        for path in missing:
            if not path.is_dir() or any(path.iterdir()):
                break
            path.rmdir()
        raise


def _try_optimizer(config: AgonConfig) -> None:
    if any(config.optim in names for names in OPTIMIZERS.values()):
        return  # some of these want the model itself
    try:
        kind, settings = Trainer.get_optimizer_cls_and_kwargs(config)
    except (ValueError, TypeError, KeyError, ImportError) as error:
        raise InputError(
            f"optim {config.optim.value} does not work with optim_args {config.optim_args!r}: {error}"
        ) from error
    optimizer = kind([nn.Parameter(torch.zeros(1))], **settings)
    try:
        get_scheduler(
            config.lr_scheduler_type,
            optimizer,
            num_warmup_steps=1,
            num_training_steps=10,
            scheduler_specific_kwargs=config.lr_scheduler_kwargs,
        )
    except (ValueError, TypeError, KeyError, AssertionError) as error:
        raise InputError(
            f"lr_scheduler_type {config.lr_scheduler_type.value} does not work with lr_scheduler_kwargs "
            f"{config.lr_scheduler_kwargs!r}: {' '.join(str(error).split())}"
        ) from error


def _look_up_layers(model: str, config: AgonConfig) -> None:
    try:
        shape = AutoConfig.from_pretrained(model_path(model), trust_remote_code=config.trust_remote_code)
        with torch.device("meta"):
            empty = AutoModelForCausalLM.from_config(shape, trust_remote_code=config.trust_remote_code)
    except (OSError, ValueError):
        return  # whoever loads the model says what is wrong with it
    names = [name for name, module in empty.named_modules() if isinstance(module, nn.Linear)]
    for wanted in config.lora_target_modules or ():
        if not any(name == wanted or name.endswith(f".{wanted}") for name in names):
            have = ", ".join(sorted({name.rpartition(".")[2] for name in names}))
            raise InputError(
                f"lora_target_modules must be names of layers that '{model}' has ({have}); not '{wanted}'."
            )
