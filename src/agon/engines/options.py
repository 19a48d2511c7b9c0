"""The settings of every engine. Importing them loads no torch and no vLLM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agon.errors import InputError


@dataclass(frozen=True)
class VllmOptions:
    """How vLLM in process is set up. What is None is left to vLLM."""

    dtype: str = "auto"
    max_model_len: int | None = None  # prompt and completion together
    max_num_seqs: int = 512  # rows of the batch
    # Most tokens of one step, prompts included. Every step up to this size is a CUDA graph; without
    # one, the hundreds of small launches that adapters need take longer than the step's arithmetic.
    max_num_batched_tokens: int = 2048
    # Most steps that a finished rollout waits for others. New requests bring prompts into the batch, and
    # a step with prompts in it costs more than one without, so it is better if several come at a time.
    stride: int = 32
    # The model in a child process; None means on a GPU only. In one process, the time to launch a step's
    # kernels and the time to handle its tokens add up; with a small model the GPU waits for both.
    worker_process: bool | None = None
    # A seed of its own for every request; None means on a CPU only, where it makes runs repeatable. On a GPU
    # batches of other sizes round differently, so that it buys nothing, and a batch of 512 requests took
    # 1.107 times as long with seeds as without (docs/engines.md).
    seeded: bool | None = None
    enforce_eager: bool = False  # no CUDA graphs: starts sooner, samples slower
    # Log-probabilities of the tokens drawn. A trainer needs them; without them sampling is faster.
    logprobs: bool = True
    # The share of the GPU for weights and cache. With several engines on one GPU, set the cache's size.
    gpu_memory_utilization: float = 0.3
    kv_cache_bytes: int | None = None
    sleep_mode: bool = False  # `sleep` and `wake` between sampling and training; CUDA only
    adapter_dir: str | None = None  # where adapters are written for vLLM to load; None is shared memory
    extra: Mapping[str, Any] = field(default_factory=dict)  # anything else that vllm.LLM takes

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_num_batched_tokens", "stride"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}.")


@dataclass(frozen=True)
class ServerOptions:
    """How vLLM servers are used."""

    # A folder that trainer and servers see under the same path; None is this host's shared memory.
    adapter_dir: str | None = None
    concurrency: int = 256  # requests in flight on one server
    timeout_s: float = 3600.0  # for one completion
    control_timeout_s: float = 60.0  # for everything else
    heartbeat_s: float = 1.0  # between checks of a server; doubles while it stays unavailable
    patience_s: float = 300.0  # how long to go on without any server
    attempts: int = 6  # at one request, before the request itself is taken to be the cause
    api_key: str | None = None
    # Whether all training processes use the servers together: each version is then loaded once, by the main one.
    shared: bool = False


@dataclass(frozen=True)
class EngineOptions:
    """The settings of every engine; each reads its own."""

    rows: int = 256  # transformers: completions sampled at once
    vllm: VllmOptions = field(default_factory=VllmOptions)
    servers: Sequence[str] = ()  # vllm-server: addresses
    server: ServerOptions = field(default_factory=ServerOptions)
