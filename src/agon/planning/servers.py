"""Servers apart from the trainers: how many cards one takes, and what fits on them."""

from dataclasses import dataclass, replace

from agon.errors import InputError
from agon.planning.architectures import Architecture
from agon.planning.estimate import GIB, Gpu, Workload

# What `vllm serve` takes of a card unless it is told otherwise.
SERVER_SHARE = 0.9
# Sequences of full length that a server should hold at least; with fewer, its cards mostly wait.
LEAST_SEQUENCES = 8
CARDS_OF_A_HOST = 8


@dataclass(frozen=True)
class Servers:
    """Equal servers: how many, on how many cards each, and what each card holds."""

    count: int
    cards: int  # of one server: vLLM's tensor parallelism
    weights: int  # bytes on one card
    cache: int  # bytes on one card
    sequences: int  # of full length that one server's cache holds

    @property
    def fits(self) -> bool:
        return self.sequences >= 1


def plan_servers(model: Architecture, work: Workload, gpu: Gpu, cards: int) -> Servers:
    """`cards` GPUs as servers: each the smallest power of two of them that holds the base and some sequences."""
    each = 1
    while True:
        made = _server(model, work, gpu, each)
        if made.sequences >= LEAST_SEQUENCES or 2 * each > min(cards, CARDS_OF_A_HOST):
            break
        each *= 2
    if cards % each:
        raise InputError(
            f"--servers must be a multiple of {each}, the GPUs that one server of this model needs, not {cards}."
        )
    return replace(made, count=cards // each)


def _server(model: Architecture, work: Workload, gpu: Gpu, cards: int) -> Servers:
    weights = (model.parameters + work.policies * model.adapter(work.lora_r)) * work.width // cards
    cache = max(0, int(SERVER_SHARE * gpu.memory * GIB) - weights)
    return Servers(1, cards, weights, cache, cache * cards // model.cache_bytes(work.length))


def sampler_of(servers: Servers, gpu: Gpu) -> Gpu:
    """One server as one card: memory and speed of its cards together."""
    return Gpu(gpu.memory * servers.cards, gpu.tflops * servers.cards, gpu.bandwidth * servers.cards)


def served(work: Workload, trainers: int, servers: Servers) -> Workload:
    """A workload as one server sees it: its share of a round of all trainers."""
    rows = max(work.links, work.round_rows * trainers // servers.count)
    return replace(work, rows_per_sampler=rows, vllm_gpu_memory_utilization=SERVER_SHARE)
