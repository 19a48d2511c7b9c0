"""vLLM in the trainer's own process: both adapters resident, only adapters moved.

    engine = VllmEngine("Qwen/Qwen3-0.6B", pair, chat.decode, stop_ids, VllmOptions(max_model_len=16384))
    engine.sync("A", 0); engine.submit(requests); finished = engine.collect()

Requests for A, B and the base share one continuous batch, and a request submitted while others are
being sampled joins them. Scheduling happens in this process; on a GPU the model runs in a child of it,
so that one step's kernels are launched while the tokens of the step before are dealt with. What it
leaves out: several training processes (use `vllm serve` processes and the vllm-server engine), and
sleep level 2, which throws the base away.
"""

import os
import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import torch

from agon.engines.editions import Edition, Shelf, check_request, largest_rank
from agon.engines.protocol import Capabilities, Finished, Request, Sampling
from agon.errors import InputError
from agon.game.rollout import Rollout
from agon.policies.pair import BASE, Pair

# One more than there are adapters. vLLM's CPU kernels look a request without adapter up in the last
# slot, so that slot has to stay empty.
ADAPTER_SLOTS = 3
# With the cache given in bytes, vLLM uses its share of the card for one thing: it starts only where so
# much is free.
NO_SHARE = 0.01
# The ranks that vLLM reserves room for; anything between is rounded up.
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
# What has finished is handed out when it is this part of what is still under way.
PORTION = 1 / 8
THREADS = "OMP_NUM_THREADS"


@dataclass(frozen=True)
class VllmOptions:
    """How the engine is set up. What is None is left to vLLM."""

    dtype: str = "auto"
    max_model_len: int | None = None  # prompt and completion together
    max_num_seqs: int = 512  # rows of the batch
    # Most tokens of one step, prompts among them. Every step up to this size is a CUDA graph; without
    # one, the hundreds of small launches that adapters need take longer than the step's arithmetic.
    max_num_batched_tokens: int = 2048
    # Most steps that a finished rollout waits for others. New requests bring prompts into the batch, and
    # a step with prompts in it costs more than one without: they had better come several at a time.
    stride: int = 32
    # The model in a child process; None is on a GPU. In one process, the time it takes to launch a step's
    # kernels and the time for its tokens add up; with a small model the GPU waits for both.
    worker_process: bool | None = None
    enforce_eager: bool = False  # no CUDA graphs: starts sooner, samples slower
    # Of every token drawn. A trainer needs them; without them sampling is faster.
    logprobs: bool = True
    # The share of the card for weights and cache. Several engines on one card: give the cache's bytes.
    gpu_memory_utilization: float = 0.3
    kv_cache_memory_bytes: int | None = None
    sleep_mode: bool = False  # `sleep` and `wake` between sampling and training; CUDA only
    adapter_dir: str | None = None  # where adapters pass through; None is memory
    extra: Mapping[str, Any] = field(default_factory=dict)  # anything else that vllm.LLM takes

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_num_batched_tokens", "stride"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}.")


class VllmEngine:
    """Samples with vLLM from its own copy of the base and the newest edition of each adapter."""

    def __init__(
        self,
        model_path: str,
        pair: Pair,
        decode: Callable[[Sequence[int]], str],
        stop_ids: Sequence[int],
        options: VllmOptions | None = None,
    ) -> None:
        self._options = options or VllmOptions()
        self.capabilities = Capabilities(
            "vllm", streams=True, live_weights=False, logprobs=self._options.logprobs
        )
        self._decode = decode
        self._stop_ids = sorted(set(stop_ids))
        self._shelf = Shelf(pair, self._options.adapter_dir)
        self._editions: dict[str, Edition] = {}
        self._versions: dict[str, int] = {BASE: 0}
        self._pending: dict[str, Request] = {}
        self._numbers = count()
        self._asleep = False
        self.stride = self._options.stride
        self.steps = 0  # taken so far, each a token for everything in the batch
        with _undisturbed():
            self._llm = _start(model_path, largest_rank(pair), self._options)
        self._engine = self._llm.llm_engine
        self._child = _child_of(self._engine)
        if self._child is not None:
            self._child.collective_rpc(_leave_interrupts_to_the_parent)
        self.max_model_len: int = self._engine.model_config.max_model_len

    def sync(self, policy: str, version: int) -> None:
        if policy == BASE:  # never changes
            self._versions[BASE] = version
            return
        under_way = sum(request.policy == policy for request in self._pending.values())
        if under_way:
            raise RuntimeError(f"Policy '{policy}' cannot change while {under_way} of its requests run.")
        edition = self._shelf.publish(policy, version)
        old = self._editions.pop(policy, None)
        self._versions.pop(policy, None)
        if old is not None:  # first, so that the last slot stays empty
            self._engine.remove_lora(old.number)
            self._shelf.withdraw(old)
        self._engine.add_lora(_lora_request(edition))
        if edition.number not in self._engine.list_loras():
            raise RuntimeError(f"vLLM did not keep the adapter '{edition.name}'.")
        self._editions[policy] = edition
        self._versions[policy] = version

    def submit(self, requests: Sequence[Request]) -> None:
        for request in requests:
            check_request(request, self._versions, self.max_model_len)
        from vllm.inputs import tokens_input

        for request in requests:
            name = str(next(self._numbers))
            edition = self._editions.get(request.policy)
            self._engine.add_request(
                name,
                tokens_input(list(request.prompt_ids)),
                self._sampling_params(request.sampling, request.seed),
                lora_request=_lora_request(edition) if edition else None,
            )
            self._pending[name] = request

    def collect(self) -> list[Finished]:
        """What has finished, as soon as that is enough to be worth handing out (see `stride`)."""
        finished: list[Finished] = []
        waited = 0
        while self._pending:
            finished += self._step()
            waited += bool(finished)
            if finished and (len(finished) >= PORTION * len(self._pending) or waited >= self.stride):
                break
        return finished

    def _step(self) -> list[Finished]:
        """One token for every request in the batch; what ended with it."""
        finished = []
        self.steps += 1
        try:
            outputs = self._engine.step()
        except RuntimeError as fault:
            if self._child is not None and self._child.is_failed:
                raise RuntimeError("vLLM's worker process died; what it said last is above.") from fault
            raise
        for output in outputs:
            if output.finished:
                request = self._pending.pop(output.request_id)
                finished.append(Finished(request, self._rollout(request, output.outputs[0])))
        return finished

    def sleep(self) -> None:
        """Give the card back until `wake`: the cache is dropped, the base waits in main memory."""
        if not self._options.sleep_mode:
            raise InputError("This engine was started without sleep_mode; set it in VllmOptions.")
        if self._pending:
            raise RuntimeError(f"The engine cannot sleep with {len(self._pending)} requests under way.")
        if not self._asleep:
            # Level 2 would discard the base, and adapter-only syncs never bring it back.
            self._llm.sleep(level=1)
            self._asleep = True

    def wake(self) -> None:
        if self._asleep:
            self._llm.wake_up()
            self._asleep = False

    def close(self) -> None:
        if self._pending:
            self._engine.abort_request(list(self._pending))
            self._pending.clear()
        self._shelf.close()
        if self._child is not None:
            self._child.shutdown()
        # vLLM frees the card when its last reference goes.
        del self._child, self._engine, self._llm

    def _sampling_params(self, sampling: Sampling, seed: int) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            repetition_penalty=sampling.repetition_penalty,
            seed=seed,
            stop_token_ids=self._stop_ids,
            logprobs=0 if self._options.logprobs else None,  # 0: of the token that was drawn alone
            detokenize=False,  # text is the chat's business, the same for every engine
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_clone=True,  # nobody else has these
        )

    def _rollout(self, request: Request, output: Any) -> Rollout:
        token_ids = tuple(output.token_ids)
        if output.finish_reason not in ("stop", "length"):
            raise RuntimeError(f"vLLM ended request '{request.key}' with '{output.finish_reason}'.")
        logprobs: tuple[float, ...] = ()
        if self._options.logprobs:
            entries = zip(token_ids, output.logprobs, strict=True)
            logprobs = tuple(entry[token].logprob for token, entry in entries)
        return Rollout(
            text=self._decode(token_ids),
            length=len(token_ids),
            finish_reason=output.finish_reason,
            policy=request.policy,
            version=request.version,
            token_ids=token_ids,
            logprobs=logprobs,
        )


def capture_sizes(largest: int) -> list[int]:
    """The batch sizes, in tokens, that get a CUDA graph: up to `largest`, each at most a quarter above the last.

    A step is padded to the next of them. vLLM's own list ends at 512, and beyond it a step has no graph.
    """
    sizes = [1]
    while (last := sizes[-1]) < largest:
        step = last if last < 4 else max(4, 2 ** (last.bit_length() - 3))
        sizes.append(min(last + step, largest))
    return sizes


def reserved_rank(rank: int) -> int:
    """The smallest rank that vLLM has room for and that fits."""
    fitting = [room for room in RANKS if room >= rank]
    if not fitting:
        raise InputError(f"vLLM serves adapters up to rank {RANKS[-1]}; this one has rank {rank}.")
    return fitting[0]


def _start(model_path: str, rank: int, options: VllmOptions) -> Any:
    # Read when vLLM is imported: the engine belongs into this process, not into a child of it.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    from vllm import LLM

    return LLM(model_path, **settings(options, rank, torch.cuda.is_available()))


def settings(options: VllmOptions, rank: int, cuda: bool) -> dict[str, Any]:
    """What `vllm.LLM` is started with."""
    chosen: dict[str, Any] = {
        "dtype": options.dtype,
        "max_model_len": options.max_model_len,
        "max_num_seqs": options.max_num_seqs,
        "enforce_eager": options.enforce_eager,
        "gpu_memory_utilization": options.gpu_memory_utilization,
        "kv_cache_memory_bytes": options.kv_cache_memory_bytes,
        "enable_sleep_mode": options.sleep_mode,
        "enable_prefix_caching": True,
        "enable_lora": True,
        "max_loras": ADAPTER_SLOTS,
        "max_lora_rank": reserved_rank(rank),
        # After temperature and truncation: what the token was really drawn from.
        "logprobs_mode": "processed_logprobs",
        "disable_log_stats": True,
    }
    if cuda if options.worker_process is None else options.worker_process:
        chosen["distributed_executor_backend"] = "mp"
    if cuda:
        chosen["max_num_batched_tokens"] = options.max_num_batched_tokens
        if options.kv_cache_memory_bytes is not None:
            chosen["gpu_memory_utilization"] = NO_SHARE
        if not options.enforce_eager:
            sizes = capture_sizes(options.max_num_batched_tokens)
            chosen["compilation_config"] = {"cudagraph_capture_sizes": sizes}
    return {**chosen, **options.extra}


def _child_of(engine: Any) -> Any:
    """vLLM's executor where it runs the model in a child of this process; otherwise None."""
    executor = getattr(engine, "model_executor", None)
    return executor if hasattr(executor, "workers") else None


def _leave_interrupts_to_the_parent(worker: Any) -> None:
    """Ctrl-C reaches every process of a terminal, and the trainer finishes its step first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _lora_request(edition: Edition) -> Any:
    from vllm.lora.request import LoRARequest

    return LoRARequest(edition.name, edition.number, edition.path)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Starting vLLM seeds every global generator and takes torch's threads; both are put back."""
    python, numpy = random.getstate(), np.random.get_state()
    threads, setting = torch.get_num_threads(), os.environ.get(THREADS)
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        os.environ.pop(THREADS, None)
        if setting is not None:
            os.environ[THREADS] = setting
