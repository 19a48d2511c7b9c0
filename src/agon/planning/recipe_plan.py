"""What a recipe needs, put together for people and scripts: memory by part, tokens, time, does it fit."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from agon.embedded import model_path
from agon.errors import InputError, unknown
from agon.planning.architectures import Architecture, architecture
from agon.planning.card_fit import fit
from agon.planning.estimate import GIB, GPUS, Workload, hours, memory, tokens
from agon.planning.servers import Servers, plan_servers, sampler_of, served
from agon.tasks.benchmarks import BENCHMARKS
from agon.tasks.gym import SIZES

# Training problems that a benchmark without a fixed size leaves after its filters.
KNOWN_SIZES = {"gsm8k": 7168, "math": 6843, "mbpp": 372}


@dataclass(frozen=True)
class Hardware:
    """What a recipe is planned for: GPUs that train, and GPUs that serve beside them (engine vllm-server)."""

    gpu: str = "H100"
    gpus: int = 1
    servers: int | None = None  # as many as train, if unset

    def __post_init__(self) -> None:
        if self.gpu not in GPUS:
            raise unknown("GPU", self.gpu, GPUS)
        if self.gpus < 1:
            raise InputError(f"--gpus is a positive number, not {self.gpus}.")
        if self.servers is not None and self.servers < 1:
            raise InputError(f"--servers is a positive number, not {self.servers}.")


def plan_recipe(
    model: str,
    task: str,
    config: Any,
    hardware: Hardware,
    prompt_tokens: int = 400,
    problems: int | None = None,
    sizes: Sequence[int] = (),
) -> dict[str, Any]:
    """All that `agon plan` says of a recipe; `config` is its `AgonConfig`.

    `sizes` are the tokens of a micro-batch that a run would choose from, in lines.
    """
    if prompt_tokens < 1:
        raise InputError(f"--prompt-tokens is a positive number, not {prompt_tokens}.")
    shape = architecture(model_path(model))
    work = workload(config, problems or training_problems(task), prompt_tokens)
    sizes = sizes if shape.in_lines else ()
    if config.gradient_checkpointing is None or sizes:
        there, said = int(GPUS[hardware.gpu].memory * GIB), config.gradient_checkpointing
        work = fit(shape, work, there, hardware.gpus, checkpointing=said, sizes=sizes).applied(work)
    return {"model": model, "task": task, **plan_workload(shape, work, hardware)}


def training_problems(task: str) -> int:
    """How many problems a task trains on, from its row or from the size written after its name."""
    name, *pairs = task.split(",")
    written = dict(pair.partition("=")[::2] for pair in pairs)
    if written.get("train", "").isdigit():
        return int(written["train"])
    if name.startswith("gym:"):
        return SIZES["train"]
    if name in BENCHMARKS:
        if not BENCHMARKS[name].train_sources:
            raise InputError(
                f"Task '{name}' is for evaluation only: it has no training problems to plan for."
            )
        return BENCHMARKS[name].sizes.get("train") or KNOWN_SIZES[name]
    raise InputError(f"The size of task '{task}' is not known: say how many problems with --problems.")


def workload(config: Any, problems: int, prompt_tokens: int) -> Workload:
    """The sizes of a configuration; those that it does not have keep their defaults."""
    named = {each.name: getattr(config, each.name) for each in fields(Workload) if hasattr(config, each.name)}
    own = {
        "problems": problems,
        "prompt_tokens": prompt_tokens,
        "policies": config.game.policies,
        "readers": 2 if config.game.learns_from == "both" else 1,
        "fsdp": bool(config.fsdp),
        "links": 2 if config.game.challenges and config.game.shows_attempt else 1,
        # Left open, it is chosen for a card; where none is known yet, memory is what to be careful with.
        "gradient_checkpointing": config.gradient_checkpointing is not False,
    }
    return Workload(**{**named, **own})


def plan_workload(model: Architecture, work: Workload, hardware: Hardware) -> dict[str, Any]:
    """What a workload needs on this hardware."""
    gpu, spent = GPUS[hardware.gpu], tokens(work, hardware.gpus)
    parts = memory(model, work, hardware.gpus)
    servers = None
    if work.engine == "vllm-server":
        servers = plan_servers(model, work, gpu, hardware.servers or hardware.gpus)
    elif hardware.servers is not None:
        raise InputError(f"--servers is for engine vllm-server, not '{work.engine}'.")
    sampler = 0.0
    if work.engine == "vllm":
        # vLLM fills its share of the card, unless its cache has a size of its own beside the weights.
        own = work.vllm_kv_cache_bytes + model.parameters * work.width if work.vllm_kv_cache_bytes else None
        sampler = own or work.vllm_gpu_memory_utilization * gpu.memory * GIB
    needed = parts.peak + sampler
    took = hours(
        model,
        served(work, hardware.gpus, servers) if servers else work,
        gpu,
        hardware.gpus,
        sampler_of(servers, gpu) if servers else None,
    )
    return {
        "parameters": model.parameters,
        "adapter_parameters": model.adapter(work.lora_r),
        "policies": work.policies,
        "memory_bytes": {
            **asdict(parts),
            "training_peak": parts.training_peak,
            "sampling_peak": parts.sampling_peak if work.engine == "transformers" else None,
            "process_peak": int(needed),
            "vllm": int(sampler),
            "cache_per_sequence": model.cache_bytes(work.length),
        },
        "tokens": asdict(spent),
        "gpu": {"name": hardware.gpu, "count": hardware.gpus, "memory_gib": gpu.memory},
        "servers": asdict(servers) if servers else None,
        "fits": needed <= gpu.memory * GIB and (servers is None or servers.fits),
        "hours": {**asdict(took), "total": took.total},
        "assumes": {
            "prompt_tokens": work.prompt_tokens,
            "length": work.length,
            "engine": work.engine,
            "fsdp": work.fsdp,
            "gradient_checkpointing": work.gradient_checkpointing,
            "micro_batch_tokens": work.micro_batch_tokens,
        },
    }


def plan_text(facts: dict[str, Any]) -> str:
    """The same facts as lines of text."""
    parts, spent, took, gpu = facts["memory_bytes"], facts["tokens"], facts["hours"], facts["gpu"]
    assumes = facts["assumes"]
    shared = f", its share of {gpu['count']}" if assumes["fsdp"] else ""
    size = f" of {assumes['micro_batch_tokens']} tokens" if assumes["micro_batch_tokens"] else ""
    rows = [
        (f"base, frozen{shared}", parts["base"]),
        (f"{facts['policies']} adapters of {facts['adapter_parameters'] / 1e6:.1f}M", parts["adapters"]),
        ("gradients", parts["gradients"]),
        ("optimizer", parts["optimizer"]),
        (
            f"activations of a micro-batch{size}, checkpointing {'on' if assumes['gradient_checkpointing'] else 'off'}",
            parts["activations"],
        ),
        ("layers of the base, gathered", parts["gathered"]),
        ("gradients on their way", parts["exchanged"]),
        ("training, at its peak", parts["training_peak"]),
    ]
    rows = [row for row in rows if row[1]]
    if assumes["engine"] == "transformers":
        rows += [
            ("cache and scores while sampling", parts["sampling"]),
            ("sampling, at its peak", parts["sampling_peak"]),
        ]
    if parts["vllm"]:
        rows.append(("vLLM beside it, weights and cache", parts["vllm"]))
    rows.append(("one process, at its peak", parts["process_peak"]))
    rows.append((f"cache of one sequence of {assumes['length']} tokens", parts["cache_per_sequence"]))
    lines = [f"{facts['model']} on {facts['task']}: {facts['parameters'] / 1e9:.2f}B parameters", ""]
    lines += [f"{size / GIB:>9.2f} GiB  {what}" for what, size in rows]
    if facts["servers"]:
        lines += ["", *_server_lines(Servers(**facts["servers"]))]
    verdict = "fits" if facts["fits"] else "does NOT fit"
    lines += [
        "",
        f"{spent['steps']} steps of {spent['problems_per_step']:g} problems, {spent['rollouts']:,} rollouts,",
        f"{spent['mean'] / 1e6:,.0f}M tokens if completions are 0.4 of the cap on average, "
        f"{spent['most'] / 1e6:,.0f}M at most.",
        "",
        f"{_cards(facts)} x {gpu['name']} ({gpu['memory_gib']:g} GiB each): it {verdict}. Estimate: "
        f"{took['total']:.1f} h ({took['sampling']:.1f} h sampling, {took['training']:.1f} h training).",
    ]
    return "\n".join(lines)


def _cards(facts: dict[str, Any]) -> str:
    if not facts["servers"]:
        return str(facts["gpu"]["count"])
    serving = facts["servers"]["count"] * facts["servers"]["cards"]
    return f"{facts['gpu']['count']} + {serving}"


def _server_lines(servers: Servers) -> list[str]:
    each = f"{servers.cards} cards" if servers.cards > 1 else "one card"
    return [
        f"{servers.count} servers on {each} each, apart from the trainers; on every card of theirs:",
        f"{servers.weights / GIB:>9.2f} GiB  base and adapters",
        f"{servers.cache / GIB:>9.2f} GiB  cache, in all for {servers.sequences} sequences of full length",
    ]
