"""How a run is spread over processes: what the launcher says of it, and what is refused.

No torch is needed, so that a wrong combination is one sentence before anything is loaded. What works:
one process per GPU as accelerate, torchrun or srun start them, with the base whole in each of them (DDP)
or sharded over all of them (FSDP2). What each of the others lacks is in its sentence below.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.errors import InputError

Options = Mapping[str, Any]
Environment = Mapping[str, str]

TORCHRUN = "torchrun --nproc_per_node N -m agon.cli train ..."
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
# What accelerate's launcher tells its processes of FSDP, by the names that fsdp_config has for it.
FSDP_VARIABLES = {
    "version": "FSDP_VERSION",
    "cpu_ram_efficient_loading": "FSDP_CPU_RAM_EFFICIENT_LOADING",
    "activation_checkpointing": "FSDP_ACTIVATION_CHECKPOINTING",
    "cpu_offload": "FSDP_OFFLOAD_PARAMS",
}


@dataclass(frozen=True)
class Launched:
    """The processes of this run, as their launcher has set them up."""

    processes: int = 1
    rank: int = 0
    local_rank: int = 0

    @property
    def main(self) -> bool:
        return self.rank == 0

    @staticmethod
    def read(environment: Environment = os.environ) -> "Launched":
        return Launched(*(_number(environment, *names) for names in VARIABLES))


# torchrun's names; srun's own are turned into these by the script in recipes/launch.
VARIABLES = (("WORLD_SIZE", 1), ("RANK", 0), ("LOCAL_RANK", 0))


def _number(environment: Environment, name: str, default: int) -> int:
    text = environment.get(name, str(default))
    if not text.isdigit():
        raise InputError(f"The launcher's variable {name} must be a whole number, not '{text}'.")
    return int(text)


def wants_fsdp(options: Options) -> bool:
    """Whether the run's own options ask for FSDP; on a command line true and false are words."""
    asked = options.get("fsdp")
    return bool(asked) and str(asked).lower() not in NO


def sharding(options: Options, environment: Environment) -> dict[str, Any] | None:
    """The settings of FSDP, from the options or from accelerate's launcher; None without FSDP."""
    if wants_fsdp(options):
        given = _read_config(options.get("fsdp_config"))
        return {"version": 2, **{key.removeprefix("fsdp_"): value for key, value in given.items()}}
    if not _yes(environment.get("ACCELERATE_USE_FSDP")):
        return None
    told = {key: environment[name] for key, name in FSDP_VARIABLES.items() if name in environment}
    return {"version": 1, **told}  # accelerate's own default


def _read_config(given: Any) -> dict[str, Any]:
    if isinstance(given, str) and given:
        try:
            given = json.loads(Path(given).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                f"fsdp_config must be a mapping or a JSON file, not '{given}': {error}"
            ) from error
    return dict(given or {})


def refuse_processes(options: Options, environment: Environment = os.environ) -> None:
    """Refuse a way of spreading a run that does not work, with what to use instead."""
    for refusals in (launch_refusals, parallel_refusals):
        for refusal in refusals(options, environment):
            raise InputError(refusal)


def launch_refusals(options: Options, environment: Environment) -> Iterator[str]:
    """What the launcher has set up and what Agon would make of it."""
    by_accelerate = "ACCELERATE_MIXED_PRECISION" in environment
    # Its launcher for CPUs sets an address for several processes and then starts one, unless MPI does.
    by_mpi = any(name.startswith(("OMPI_COMM_WORLD_", "PMI_", "MV2_COMM_")) for name in environment)
    if by_accelerate and "MASTER_ADDR" in environment and "WORLD_SIZE" not in environment and not by_mpi:
        yield (
            "accelerate launch was asked for several processes and has started one, as it does on CPUs: start them "
            f"with ACCELERATE_USE_CPU=true {TORCHRUN}"
        )
    launched = Launched.read(environment)
    if not launched.rank < launched.processes:
        yield (
            f"The launcher's RANK is {launched.rank} of WORLD_SIZE {launched.processes}: ranks count from 0, and "
            "every process needs both."
        )
    if launched.processes > 1:
        yield from _with_several_processes(options)


def _with_several_processes(o: Options) -> Iterator[str]:
    if engine_of(o) == "vllm" and o.get("vllm_worker_process") is False:
        yield (
            "vllm_worker_process must not be false with several processes: vLLM's own process group would be mixed "
            "up with the trainer's; leave it unset."
        )
    if o.get("ddp_find_unused_parameters") is False:
        yield (
            "ddp_find_unused_parameters must not be false with several processes: a micro-batch passes through one "
            "adapter, and DDP would wait for the other's gradients; leave it unset."
        )
    if o.get("auto_find_batch_size"):
        yield (
            "auto_find_batch_size must be false with several processes: one of them would shrink its batch and the "
            "others wait; `agon plan` says what fits."
        )


def engine_of(o: Options) -> str:
    """The engine's name, which TRL's own options may say in their way."""
    if o.get("use_vllm"):
        return "vllm" if o.get("vllm_mode") == "colocate" else "vllm-server"
    return str(o.get("engine"))


def parallel_refusals(options: Options, environment: Environment) -> Iterator[str]:
    """Frameworks, sharding and quantisation that the pair does not work with."""
    if options.get("deepspeed") or _yes(environment.get("ACCELERATE_USE_DEEPSPEED")):
        yield (
            "Agon does not take deepspeed: its engine would own the one optimizer and clip both policies together; "
            "use fsdp, which shards the base (docs/scaling.md)."
        )
    for name, variable in (
        ("Megatron-LM", "ACCELERATE_USE_MEGATRON_LM"),
        ("tensor or context parallelism of accelerate", "ACCELERATE_USE_PARALLELISM_CONFIG"),
    ):
        if _yes(environment.get(variable)):
            yield f"Agon does not take {name}: use one process per GPU, with fsdp for a large base."
    if (options.get("vllm_tensor_parallel_size") or 1) > 1:
        yield (
            "Agon does not take vllm_tensor_parallel_size: an engine in a training process has that process's GPU. "
            "Start `vllm serve MODEL --tensor-parallel-size N` and set engine to vllm-server."
        )
    quantised = {"quantization_config", "load_in_4bit", "load_in_8bit"} & set(
        options.get("model_init_kwargs") or {}
    )
    for name in sorted(quantised):
        yield (
            f"Agon does not take {name} in model_init_kwargs: the engine would sample from another base than the one "
            "that is trained; take a smaller base, or shard it with fsdp."
        )
    if wants_fsdp(options) and not _yes(options["fsdp"]):
        yield f"fsdp must be true or false, not {options['fsdp']!r}: anything else about it belongs into fsdp_config."
    fsdp = sharding(options, environment)
    if fsdp is not None:
        yield from _fsdp_refusals(options, fsdp)


def _fsdp_refusals(o: Options, fsdp: Options) -> Iterator[str]:
    if str(fsdp["version"]) != "2":
        yield (
            f"fsdp must be version 2, not {fsdp['version']}: set version in fsdp_config, or fsdp_version in the file "
            "that accelerate is started with."
        )
    if engine_of(o) == "transformers":
        yield (
            "fsdp needs engine vllm or vllm-server: engine transformers samples from the trainer's own weights, and a "
            "sharded base computes only while all processes compute together."
        )
    if o.get("fp16"):
        yield "fsdp does not go with fp16: use bf16."
    for name, instead in (
        ("cpu_ram_efficient_loading", "every process loads the base, so that both adapters start whole"),
        ("activation_checkpointing", "set gradient_checkpointing, which keeps the names of the layers"),
        ("cpu_offload", "give it more GPUs, or a smaller base"),
        ("xla", "FSDP of torch is what is supported"),
    ):
        if _yes(fsdp.get(name)):
            yield f"fsdp does not go with {name} here: {instead}."
    for name in ("torch_compile", "use_liger_kernel", "auto_find_batch_size"):
        if o.get(name):
            yield f"fsdp does not go with {name} here."


def refuse_other_number(before: int, launched: Launched) -> None:
    """A run goes on with as many processes as it was started with."""
    if before != launched.processes:
        raise InputError(
            f"The run was started with {before} process{'es' * (before != 1)}, and this is {launched.processes}: "
            "a step would hold other problems and the schedule another number of steps. Start as many as before."
        )


def refuse_strangers(launched: Launched, joined: int) -> None:
    """Processes that did not find one another would each make the whole run, in the same folder."""
    if launched.processes != joined:
        raise InputError(
            f"The launcher has started {launched.processes} processes, and {joined} of them found together: check that "
            "RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set in each."
        )


def refuse_several_gpus(gpus: int, processes: int) -> None:
    """One process that sees several GPUs would split each micro-batch over them, or the model."""
    if gpus > 1 and processes == 1:
        raise InputError(
            f"This process sees {gpus} GPUs and uses one: start a process for each (accelerate launch --num_processes "
            f"{gpus} -m agon.cli train ...), or choose one with CUDA_VISIBLE_DEVICES=0."
        )


def _yes(value: Any) -> bool:
    return str(value or "").lower() in YES
