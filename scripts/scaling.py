"""The tables of docs/scaling.md: what fits on a card at each size, and what a step waits for at each number of GPUs.

    python scripts/scaling.py

Memory is `agon plan`'s arithmetic. The second table is a simulation: every step of a run is sync, sampling
(the judges work meanwhile), scoring and training, one after the other; completions are drawn from the
lognormal of `agon.planning.lengths`. What is assumed and not measured stands in the constants below.
"""

from dataclasses import dataclass, replace

from agon.planning.architectures import MODELS, Architecture
from agon.planning.estimate import GIB, GPUS, Workload, hours, memory, round_seconds, tokens
from agon.planning.servers import Servers, plan_servers, sampler_of, served

CARD = "H100"
GPU = GPUS[CARD]
# The paper's workload: 16 rollouts a problem, 15,000 tokens at most and 6,100 on average.
WORK = Workload(
    problems=1024,
    max_steps=1,
    num_generations=16,
    per_device_train_batch_size=1,
    gradient_accumulation_steps=64,
    steps_per_generation=64,
    max_completion_length=15_000,
    mean_completion_length=6100,
    engine="vllm",
    vllm_gpu_memory_utilization=0.4,
)

# Measured (docs/engines.md): both adapters of a 0.5B model into one engine.
SYNC_SECONDS = 0.161
# Assumed: a folder that all hosts share, links between hosts and inside one (bytes a second for one GPU), a
# verdict's CPU time (math) and the judges' processes for each training process.
FOLDER, NETWORK, INSIDE = 2e9, 25e9, 300e9
VERDICT_SECONDS, JUDGE_WORKERS = 0.05, 2
GPUS_OF_A_HOST = 8
PROBLEMS = 1024  # of a step: one for each process of the largest layout


@dataclass(frozen=True)
class Layout:
    """A model on so many cards: those that train, those that serve, and whether the base is sharded."""

    model: str
    trainers: int
    servers: int = 0
    sharded: bool = False

    @property
    def shape(self) -> Architecture:
        return MODELS[f"Qwen/Qwen3-{self.model}"]

    @property
    def work(self) -> Workload:
        return replace(WORK, fsdp=self.sharded, engine="vllm-server" if self.servers else "vllm")

    @property
    def words(self) -> str:
        spread = "FSDP2" if self.sharded else "DDP" if self.trainers > 1 else "one process"
        return f"{self.trainers} train ({spread}), " + (
            f"{self.servers} serve" if self.servers else "each with an engine"
        )


SIZES = (
    Layout("0.6B", 1),
    Layout("1.7B", 1),
    Layout("4B", 8),
    Layout("8B", 8, 8),
    Layout("14B", 8, 8),
    Layout("14B", 8, 8, sharded=True),
    Layout("32B", 8, 8),
    Layout("32B", 8, 8, sharded=True),
    Layout("32B", 16, 16, sharded=True),
)


def size_rows() -> list[list[str]]:
    """What every card of a layout holds, in GiB."""
    rows = []
    for layout in SIZES:
        shape, work = layout.shape, layout.work
        parts = memory(shape, work, layout.trainers)
        pair = parts.adapters + parts.gradients + parts.optimizer + parts.exchanged
        engine = 0.0 if layout.servers else work.vllm_gpu_memory_utilization * GPU.memory * GIB
        needed = parts.training_peak + engine
        served_by = plan_servers(shape, work, GPU, layout.servers) if layout.servers else None
        fits = needed <= GPU.memory * GIB and (served_by is None or served_by.fits)
        rows.append(
            [
                layout.model,
                layout.words,
                *(
                    f"{size / GIB:.1f}"
                    for size in (parts.base, parts.gathered, pair, parts.activations, engine)
                ),
                f"{needed / GIB:.1f}",
                _served(served_by),
                "yes" if fits else "no",
            ]
        )
    return rows


def _served(servers: Servers | None) -> str:
    if servers is None:
        return ""
    on = f"{servers.cards} cards" if servers.cards > 1 else "1 card"
    return f"{servers.count} on {on}, {servers.sequences} sequences each"


@dataclass(frozen=True)
class Step:
    """Seconds of one optimizer step, by what it waits for."""

    sampler: float
    judge: float
    sync: float
    trainer: float

    @property
    def seconds(self) -> float:
        return self.sync + max(self.sampler, self.judge) + self.trainer

    @property
    def bottleneck(self) -> str:
        return max(("sampler", "judge", "sync", "trainer"), key=lambda name: getattr(self, name))


def step(layout: Layout) -> Step:
    """One step of `PROBLEMS` problems, each training process with its share of them."""
    shape, work, trainers = layout.shape, _shared(layout), layout.trainers
    servers = plan_servers(shape, work, GPU, layout.servers) if layout.servers else None
    sampled = served(work, trainers, servers) if servers else work
    card = sampler_of(servers, GPU) if servers else GPU
    training = hours(shape, work, GPU, trainers).training * 3600 / tokens(work, trainers).steps
    adapters = work.policies * shape.adapter(work.lora_r) * work.width
    engines = servers.count if servers else 0
    # Written once and read by every server from one folder; each loads it in the time that was measured, scaled
    # by its size. In process every engine has a folder of its own in memory.
    relative = shape.adapter(16) / MODELS["Qwen/Qwen2.5-0.5B-Instruct"].adapter(16)
    sync = SYNC_SECONDS * relative + adapters * engines / FOLDER
    return Step(
        sampler=round_seconds(shape, sampled, card),
        judge=work.round_rows * VERDICT_SECONDS / JUDGE_WORKERS,
        sync=sync,
        trainer=training + _exchanged(layout) + _gathering_beyond(layout, training),
    )


def _shared(layout: Layout) -> Workload:
    rows = PROBLEMS // layout.trainers * WORK.num_generations
    return replace(layout.work, gradient_accumulation_steps=rows, steps_per_generation=rows)


def _exchanged(layout: Layout) -> float:
    """Averaging the gradients of both adapters, in float32, around a ring."""
    if layout.trainers == 1:
        return 0.0
    size = layout.work.policies * layout.shape.adapter(layout.work.lora_r) * 4
    return 2 * size * (1 - 1 / layout.trainers) / _link(layout)


def _gathering_beyond(layout: Layout, training: float) -> float:
    """Gathering a sharded base three times a micro-batch, as far as it takes longer than the arithmetic."""
    if not layout.sharded:
        return 0.0
    base = layout.shape.parameters * layout.work.width * (1 - 1 / layout.trainers)
    return max(0.0, 3 * base * _shared(layout).gradient_accumulation_steps / _link(layout) - training)


def _link(layout: Layout) -> float:
    return INSIDE if layout.trainers <= GPUS_OF_A_HOST else NETWORK


def step_rows() -> list[list[str]]:
    """A step at 8, 64 and 1,024 GPUs; efficiency is against the same per GPU at 8."""
    rows = []
    for model, sharded in (("0.6B", None), ("4B", False), ("32B", True)):
        first = 0.0
        for gpus in (8, 64, 1024):
            half = gpus // 2
            layout = Layout(model, gpus) if sharded is None else Layout(model, half, half, sharded)
            made = step(layout)
            rate = 1 / made.seconds / gpus
            first = first or rate
            rows.append(
                [
                    model,
                    f"{gpus:,}",
                    layout.words,
                    *(f"{value:.1f}" for value in (made.sampler, made.judge, made.sync, made.trainer)),
                    f"{made.seconds:.0f}",
                    made.bottleneck,
                    f"{rate / first:.0%}",
                ]
            )
    return rows


def adapter_sizes() -> list[tuple[str, float]]:
    """Megabytes of both adapters in the precision that samplers load."""
    sizes = dict.fromkeys(layout.model for layout in SIZES)
    return [
        (name, WORK.policies * Layout(name, 1).shape.adapter(WORK.lora_r) * WORK.width / 1e6)
        for name in sizes
    ]


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    print(f"{CARD}, {GPU.memory:g} GiB a card; GiB on every training card; completions up to 15,000 tokens\n")
    head = ["model", "cards", "base", "gathered", "adapters", "activations", "engine", "in all"]
    print(table([*head, "servers", "fits"], size_rows()))
    print(f"\nSeconds of a step of {PROBLEMS:,} problems of 16 rollouts on {CARD} cards\n")
    head = ["model", "GPUs", "layout", "sampler", "judge", "sync", "trainer", "step", "bottleneck"]
    print(table([*head, "per GPU, against 8"], step_rows()))
    print("\nBoth adapters, in MB: " + ", ".join(f"{name} {size:.0f}" for name, size in adapter_sizes()))
    chains = ", ".join(f"{WORK.lengths.longest_chain(count, 2):,} of {count}" for count in (8, 128, 1024))
    print(f"The longest draft with its challenge, in tokens: {chains}")


if __name__ == "__main__":
    main()
