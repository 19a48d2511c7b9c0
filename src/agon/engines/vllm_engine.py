"""vLLM in the trainer's own process: both adapters resident, only adapters moved.

    engine = VllmEngine("Qwen/Qwen3-0.6B", pair, chat.decode, stop_ids, VllmOptions(max_model_len=16384))
    engine.sync("A", 0); engine.submit(requests); finished = engine.collect()

Requests for A, B and the base share one continuous batch, and a request submitted while others are
being sampled joins them. Scheduling happens in this process; on a GPU the model runs in a child
process, so that one step's kernels are launched while the tokens of the step before are handled. Each
of several training processes has an engine of its own: its child sees this process's GPU as the only
one, and nothing of the launcher's variables. What it leaves out: an engine over several GPUs (use `vllm
serve` and the vllm-server engine), and sleep level 2, which discards the base.
"""

import gc
import os
import random
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from agon.engines import peers
from agon.engines.adapter_store import AdapterStore, StoredAdapter, largest_rank
from agon.engines.options import VllmOptions
from agon.engines.protocol import Capabilities, Finished, Request, Sampling, check_request
from agon.engines.worker_fork import forked_worker
from agon.errors import InputError
from agon.game.rollout import Rollout
from agon.policies.pair import BASE, Pair

if TYPE_CHECKING:
    from agon.engines.live_vllm import LiveVllm

# One more than there are adapters: vLLM's CPU kernels give a request without an adapter whatever is in
# the last slot, so that slot has to stay empty.
ADAPTER_SLOTS = 3
# If the cache's size is given in bytes, vLLM uses gpu_memory_utilization for one thing only: it refuses
# to start unless that share of the GPU is free.
SMALLEST_UTILIZATION = 0.01
# The ranks that vLLM can reserve memory for; anything between is rounded up.
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
# Finished rollouts are returned once they are this fraction of the requests still in flight.
RETURN_FRACTION = 1 / 8
THREADS_VARIABLE = "OMP_NUM_THREADS"
LAUNCHER_VARIABLES = (
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"),
    *("ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)


class VllmEngine:
    """Samples with vLLM from its own copy of the base and the newest version of each adapter."""

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
        seeded = self._options.seeded
        self._seeded = seeded if seeded is not None else not torch.cuda.is_available()
        self._store = AdapterStore(pair, self._options.adapter_dir)
        self._adapters: dict[str, StoredAdapter] = {}
        self._versions: dict[str, int] = {BASE: 0}
        self._pending: dict[str, Request] = {}
        self._numbers = count()
        self._asleep = False
        self._interrupted = False
        self.stride = self._options.stride
        self.steps = 0  # engine steps so far, each a token for every request in the batch
        # Asked before vLLM makes a group of its own in this process.
        self._beside_others = peers.in_a_group()
        self._start_arguments = (model_path, largest_rank(pair), self._options, self._beside_others)
        with _refused_in_one_sentence():
            self._start()
        self.max_model_len: int = self._engine.model_config.max_model_len

    def _start(self) -> None:
        forked = nullcontext() if self._beside_others else forked_worker()
        with _preserve_global_state(), environment_of_child(self._beside_others), forked:
            self._llm = _start(*self._start_arguments)
        self._engine = self._llm.llm_engine
        self._child = _child_executor(self._engine)
        if self._child is not None:
            self._child.collective_rpc(_ignore_interrupts)

    def sync(self, policy: str, version: int) -> None:
        if policy == BASE:  # never changes
            self._versions[BASE] = version
            return
        in_flight = sum(request.policy == policy for request in self._pending.values())
        if in_flight:
            raise RuntimeError(f"Policy '{policy}' cannot change while {in_flight} of its requests run.")
        self._refuse_hung_child()
        adapter = self._store.publish(policy, version)
        old = self._adapters.pop(policy, None)
        self._versions.pop(policy, None)
        if old is not None:  # before the new one is added, so that the last slot stays empty
            self._engine.remove_lora(old.lora_id)
            self._store.remove(old)
        self._engine.add_lora(_lora_request(adapter))
        if adapter.lora_id not in self._engine.list_loras():
            raise RuntimeError(f"vLLM did not keep the adapter '{adapter.name}'.")
        self._adapters[policy] = adapter
        self._versions[policy] = version

    def submit(self, requests: Sequence[Request]) -> None:
        for request in requests:
            check_request(request, self._versions, self.max_model_len)
        for request in requests:
            name = str(next(self._numbers))
            self.add(name, request)
            self._pending[name] = request

    def collect(self) -> list[Finished]:
        """Finished rollouts, once there are enough of them or they have waited long enough (see `stride`)."""
        finished: list[Finished] = []
        waited = 0
        while self._pending and not self._interrupted:
            finished += self._step()
            waited += bool(finished)
            enough = len(finished) >= RETURN_FRACTION * len(self._pending)
            if finished and (enough or waited >= self.stride):
                break
        return finished

    def _step(self) -> list[Finished]:
        """One token for every request in the batch; returns the requests that ended with it."""
        finished = []
        self.steps += 1
        with self._saying_what_happened():
            outputs = self._engine.step()
        for output in outputs:
            if output.finished:
                request = self._pending.pop(output.request_id)
                finished.append(Finished(request, self._rollout(request, output.outputs[0])))
        return finished

    @contextmanager
    def _saying_what_happened(self) -> Iterator[None]:
        """What vLLM says of a child that died or hangs is long, or nothing."""
        try:
            yield
        except TimeoutError as error:
            raise RuntimeError(
                f"vLLM's worker process has not answered for {_longest_wait()} seconds."
            ) from error
        except RuntimeError as error:
            if self._child is not None and self._child.is_failed:
                raise RuntimeError("vLLM's worker process died; its last messages are above.") from error
            raise

    def _refuse_hung_child(self) -> None:
        """Raise if the child does not answer: vLLM waits for a child that is to load an adapter without end."""
        if self._child is not None:
            with self._saying_what_happened():
                self._child.collective_rpc("check_health", timeout=_longest_wait())

    def sleep(self) -> None:
        """Free the GPU until `wake`: the cache is dropped, the base is kept in main memory."""
        if not self._options.sleep_mode:
            raise InputError("This engine was started without sleep_mode; set it in VllmOptions.")
        if self._pending:
            raise RuntimeError(f"The engine cannot sleep with {len(self._pending)} requests in flight.")
        if not self._asleep:
            # Level 2 would discard the base, and syncs of adapters never bring it back.
            self._llm.sleep(level=1)
            self._asleep = True

    def wake(self) -> None:
        if self._asleep:
            self._refuse_hung_child()
            self._llm.wake_up()
            self._asleep = False

    def interrupt(self) -> None:
        """End a `collect` that waits in another thread, after the step that it is in."""
        self._interrupted = True

    def recover(self, error: Exception | None) -> None:
        """Forget every request; a child process that died or hangs is replaced, and wants both policies again."""
        self._interrupted = False
        if error is None:
            self._engine.abort_request(list(self._pending))
            self._pending.clear()
            return
        if self._beside_others:  # ending vLLM would end the group with the other processes too
            raise RuntimeError("vLLM cannot be started again beside other training processes.") from error
        _let_go_of(error)
        self._pending.clear()
        for adapter in self._adapters.values():
            self._store.remove(adapter)
        self._adapters, self._versions = {}, {BASE: 0}
        self._asleep = False
        self._stop()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self._start()

    def close(self) -> None:
        """End vLLM, which ends this process's group with the other training processes too: the last thing to do."""
        running = self._engine is not None and not (self._child is not None and self._child.is_failed)
        if self._pending and running:
            self._engine.abort_request(list(self._pending))
        self._pending.clear()
        self._store.close()
        self._stop()

    def _stop(self) -> None:
        core: Any = getattr(self._engine, "engine_core", None)
        if self._child is not None:
            self._child.shutdown()
        elif hasattr(core, "resources"):
            # In a process of its own, which is asked nothing any more and leaves signals to this one. Python waits for
            # its children as it ends, possibly before vLLM hears of the end.
            core.shutdown(timeout=0.5)
        # vLLM frees the GPU when the last reference to it is gone.
        self._child = self._engine = self._llm = None

    def live(self) -> "LiveVllm":
        """The same engine and adapters, with tokens as they are drawn."""
        from agon.engines.live_vllm import LiveVllm

        return LiveVllm(self.add, self._engine, self._versions, self.max_model_len)

    def add(self, name: str, request: Request, streamed: bool = False, seeded: bool | None = None) -> None:
        """Hand a request to vLLM under a name; a streamed one reports its tokens step by step.

        Whether its seed is used is the engine's own choice if `seeded` is None.
        """
        from vllm.inputs import tokens_input

        adapter = self._adapters.get(request.policy)
        self._engine.add_request(
            name,
            tokens_input(list(request.prompt_ids)),
            self._sampling_params(request.sampling, request.seed, streamed, seeded),
            lora_request=_lora_request(adapter) if adapter else None,
        )

    def _sampling_params(
        self, sampling: Sampling, seed: int, streamed: bool = False, seeded: bool | None = None
    ) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            repetition_penalty=sampling.repetition_penalty,
            seed=seed if (self._seeded if seeded is None else seeded) else None,
            stop_token_ids=None if sampling.ignore_stop else self._stop_ids,
            # Not min_tokens: it takes the stop tokens out of the distribution.
            ignore_eos=sampling.ignore_stop,
            logprobs=0 if self._options.logprobs else None,  # 0: only of the token that was drawn
            flat_logprobs=True,  # in one list, instead of an object and a dictionary for every token
            detokenize=False,  # Chat.decode does it, the same way for every engine
            output_kind=RequestOutputKind.DELTA if streamed else RequestOutputKind.FINAL_ONLY,
            skip_clone=True,  # nothing else uses this object
        )

    def _rollout(self, request: Request, output: Any) -> Rollout:
        token_ids = tuple(output.token_ids)
        if output.finish_reason not in ("stop", "length"):
            raise RuntimeError(f"vLLM ended request '{request.key}' with '{output.finish_reason}'.")
        logprobs: tuple[float, ...] = ()
        if self._options.logprobs:
            logprobs = tuple(output.logprobs.logprobs)
            if len(logprobs) != len(token_ids):
                raise RuntimeError(f"vLLM reports {len(logprobs)} log-probs for {len(token_ids)} tokens.")
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

    A step is padded to the next size. vLLM's own list ends at 512; a larger step would have no graph.
    """
    sizes = [1]
    while (last := sizes[-1]) < largest:
        step = last if last < 4 else max(4, 2 ** (last.bit_length() - 3))
        sizes.append(min(last + step, largest))
    return sizes


def reserved_rank(rank: int) -> int:
    """The smallest rank that vLLM can reserve and that is large enough."""
    fitting = [allowed for allowed in RANKS if allowed >= rank]
    if not fitting:
        raise InputError(f"vLLM serves adapters up to rank {RANKS[-1]}; this one has rank {rank}.")
    return fitting[0]


def _start(model_path: str, rank: int, options: VllmOptions, in_a_group: bool) -> Any:
    # Read when vLLM is imported: the engine runs in this process, not in a child process.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    from vllm import LLM

    return LLM(model_path, **settings(options, rank, torch.cuda.is_available(), in_a_group))


@contextmanager
def _refused_in_one_sentence() -> Iterator[None]:
    """For the first start only: when an engine is started again under a training, the round says what failed."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:  # a refusal, such as a cache that holds no sequence
        raise InputError(f"vLLM does not start: {error}") from error
    except Exception as error:
        if not str(error).startswith("WorkerProc initialization failed"):
            raise
        raise InputError(
            "vLLM's worker process does not start; its lines above, marked (Worker), say why. The usual cause is a GPU "
            "whose memory others have taken."
        ) from error


def settings(options: VllmOptions, rank: int, cuda: bool, in_a_group: bool = False) -> dict[str, Any]:
    """What `vllm.LLM` is started with. `in_a_group`: this process has joined other training processes."""
    chosen: dict[str, Any] = {
        "dtype": options.dtype,
        "max_model_len": options.max_model_len,
        "max_num_seqs": options.max_num_seqs,
        "enforce_eager": options.enforce_eager,
        "gpu_memory_utilization": options.gpu_memory_utilization,
        "kv_cache_memory_bytes": options.kv_cache_bytes,
        "enable_sleep_mode": options.sleep_mode,
        "enable_prefix_caching": True,
        "enable_lora": True,
        "max_loras": ADAPTER_SLOTS,
        "max_lora_rank": reserved_rank(rank),
        # After temperature and truncation: the distribution that the token was drawn from.
        "logprobs_mode": "processed_logprobs",
        "disable_log_stats": True,
        "seed": peers.rank(),  # of requests without one: engines side by side draw different numbers
    }
    # vLLM makes a process group, and a process has one only.
    if cuda or in_a_group if options.worker_process is None else options.worker_process:
        chosen["distributed_executor_backend"] = "mp"
    if cuda:
        chosen["max_num_batched_tokens"] = options.max_num_batched_tokens
        if options.kv_cache_bytes is not None:
            chosen["gpu_memory_utilization"] = SMALLEST_UTILIZATION
        if not options.enforce_eager:
            sizes = capture_sizes(options.max_num_batched_tokens)
            chosen["compilation_config"] = {"cudagraph_capture_sizes": sizes}
    else:
        # If a prompt is split over two steps, vLLM sets a seeded request's random generator back, which
        # torch supports on CUDA only.
        chosen["enable_chunked_prefill"] = False
    return {**chosen, **options.extra}


def _let_go_of(error: BaseException | None) -> None:
    """Clear what the frames of an error hold: a vLLM that is still referred to keeps its memory."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _longest_wait() -> int:
    """The seconds that vLLM waits for a step of its child."""
    from vllm import envs

    return int(envs.VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS)


def _child_executor(engine: Any) -> Any:
    """vLLM's executor if it runs the model in a child process; otherwise None."""
    executor = getattr(engine, "model_executor", None)
    return executor if hasattr(executor, "workers") else None


def _ignore_interrupts(worker: Any) -> None:
    """Ctrl-C reaches every process of a terminal, and Slurm signals all of a job's: the trainer handles them.

    The child still ends with its parent, which closes a pipe, and kills it if that does not help.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


def _lora_request(adapter: StoredAdapter) -> Any:
    from vllm.lora.request import LoRARequest

    return LoRARequest(adapter.name, adapter.lora_id, adapter.path)


@contextmanager
def environment_of_child(in_a_group: bool = False) -> Iterator[None]:
    """What vLLM's child process is to find: one GPU, which is this process's, and no launcher.

    vLLM takes `cuda:0` for its first worker, which would be the same card for every training process. With
    torchrun's variables its process group of one would wait for torchrun's store, and a child that is forked
    would begin with the trainer's process group.
    """
    before = dict(os.environ)
    for name in before:
        if name in LAUNCHER_VARIABLES or name.startswith("TORCHELASTIC_"):
            del os.environ[name]
    if in_a_group:
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"
    if torch.cuda.is_available():
        os.environ["CUDA_VISIBLE_DEVICES"] = own_card(
            before.get("CUDA_VISIBLE_DEVICES"), torch.cuda.current_device()
        )
    try:
        yield
    finally:
        for name in (*LAUNCHER_VARIABLES, *before, "VLLM_WORKER_MULTIPROC_METHOD", "CUDA_VISIBLE_DEVICES"):
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


def own_card(visible: str | None, index: int) -> str:
    """The name of this process's GPU among those that it sees."""
    return visible.split(",")[index].strip() if visible else str(index)


@contextmanager
def _preserve_global_state() -> Iterator[None]:
    """Starting vLLM seeds every global random generator and changes torch's threads; both are restored."""
    python, numpy = random.getstate(), np.random.get_state()
    threads, setting = torch.get_num_threads(), os.environ.get(THREADS_VARIABLE)
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        os.environ.pop(THREADS_VARIABLE, None)
        if setting is not None:
            os.environ[THREADS_VARIABLE] = setting
