"""What a run will need: memory by part, tokens, time. All of it arithmetic, nothing is loaded.

The formulas stand in the docstrings. Those for memory are about one process and are meant to be
compared with `torch.cuda.max_memory_allocated()`; those for time rest on the efficiencies below
and are estimates, good to a factor of two.
"""

import math
from dataclasses import dataclass

from agon.planning.architectures import Architecture
from agon.planning.lengths import Lengths

GIB = 1 << 30
# TRL projects hidden states on the vocabulary in tiles of this many tokens and words.
TILE_TOKENS, TILE_WORDS = 4096, 32_768
# A pair of positions in the mask of padded rows: as booleans, in bfloat16, and a copy while a layer runs.
MASK_BYTES = 5
# A pass over lines of 32,768 tokens of Qwen2.5-0.5B on an H200, without checkpointing and with fused layers, took 0.8
# times the bytes that the formula has for as many padded ones (docs/results/step-h200.jsonl).
LINE = 0.8
# Of the paper's untrained rollouts the mean is 6.1k tokens under a cap of 15k.
MEAN_SHARE = 0.4
# What real runs reach of a GPU's peak: the matrix products of training, its attention (over padded rows, whose
# mask shuts out the fastest kernels), and bandwidth in sampling. A fit to Qwen3-0.6B, 1.7B and 4B on an H200
# with micro-batches of two rows of 5,000 tokens (docs/results/rehearsals): 6% below, 3% below, 10% above.
TRAINING_EFFICIENCY, ATTENTION_EFFICIENCY, SAMPLING_EFFICIENCY = 0.34, 0.05, 0.5
# Seconds that an engine needs for a step besides reading weights and cache, and for each token of it: the
# same rehearsals had steps of 3.9 and 5.9 ms with 5 rows in them; a 0.5B model sampled 155,670 tokens in 514
# steps of 13 ms (docs/engines.md).
STEP_SECONDS = {"transformers": 0.02, "vllm": 0.0014, "vllm-server": 0.0014}
TOKEN_SECONDS = 3.5e-5


@dataclass(frozen=True)
class Gpu:
    """Memory in GiB, dense bfloat16 arithmetic in TFLOP/s, bandwidth in GB/s."""

    memory: float
    tflops: float
    bandwidth: float


GPUS: dict[str, Gpu] = {
    "B200": Gpu(179, 2250, 8000),
    "H200": Gpu(140, 989, 4800),
    "H100": Gpu(79, 989, 3350),
    "A100-80": Gpu(79, 312, 2039),
    "A100-40": Gpu(39, 312, 1555),
    "L40S": Gpu(44, 362, 864),
    "L4": Gpu(22, 121, 300),
    "RTX5090": Gpu(31, 210, 1792),
    "RTX4090": Gpu(23, 165, 1008),
    "RTX3090": Gpu(23, 71, 936),
}


@dataclass(frozen=True)
class Workload:
    """The sizes of a run that the plan depends on; the names are those of the configuration."""

    problems: int
    policies: int = 2
    num_train_epochs: float = 1.0
    max_steps: int = -1
    num_generations: int = 16
    per_device_train_batch_size: int = 8
    gradient_accumulation_steps: int = 8
    steps_per_generation: int = 8
    num_iterations: int = 1
    max_completion_length: int = 2048
    mean_completion_length: int | None = None  # 0.4 of the cap if unset
    links: int = 2  # completions that wait for one another: a draft and its challenge
    longest_chain: int | None = None  # tokens of the longest draft with its challenge, where it is known
    readers: int = 1  # policies that learn from a rollout
    micro_batch_tokens: int | None = None  # of a pass, instead of so many rows
    padding_free: bool | None = False  # whether such a pass is a line; None: where the model allows it
    prompt_tokens: int = 400
    lora_r: int = 16
    gradient_checkpointing: bool = True
    engine: str = "transformers"
    engine_rows: int = 256
    vllm_gpu_memory_utilization: float = 0.3
    vllm_kv_cache_bytes: int | None = None
    width: int = 2  # bytes of a weight of the base
    fsdp: bool = False  # the base sharded over the training processes
    rows_per_sampler: int | None = None  # of a round, where samplers are not the training processes

    @property
    def length(self) -> int:
        """The longest sequence: prompt and completion."""
        return self.prompt_tokens + self.max_completion_length

    @property
    def lengths(self) -> Lengths:
        """How long completions are."""
        mean = self.mean_completion_length or int(self.max_completion_length * MEAN_SHARE)
        return Lengths(max(1, mean), self.max_completion_length)

    @property
    def round_rows(self) -> int:
        """Rollouts that one process samples for one round."""
        return max(1, self.per_device_train_batch_size * self.steps_per_generation)

    @property
    def sampler_rows(self) -> int:
        """Rollouts that one sampler gets for one round: a training process's own, or a server's share."""
        return self.rows_per_sampler or self.round_rows

    @property
    def sampled_rows(self) -> int:
        """Rollouts that one process samples at once: a stream, or the part the engine takes of it."""
        stream = max(1, self.per_device_train_batch_size * self.steps_per_generation // 2)
        return min(self.engine_rows, stream) if self.engine == "transformers" else stream


@dataclass(frozen=True)
class Memory:
    """Bytes by part, in one process."""

    base: int
    adapters: int
    gradients: int
    optimizer: int
    activations: int
    sampling: int
    gathered: int = 0  # of a sharded base, what is whole while it is used
    exchanged: int = 0  # a second copy of the gradients, on their way to the other processes

    @property
    def training_peak(self) -> int:
        """While the gradient is computed."""
        held = self.base + self.adapters + self.gradients + self.optimizer
        return held + self.activations + self.gathered + self.exchanged

    @property
    def sampling_peak(self) -> int:
        """While the transformers engine samples, in the same process."""
        return self.base + self.adapters + self.optimizer + self.sampling

    @property
    def peak(self) -> int:
        return max(self.training_peak, self.sampling_peak)


def memory(model: Architecture, work: Workload, processes: int = 1) -> Memory:
    """Memory of one of the training processes.

    The base is frozen: its parameters, once. If it is sharded, a process has its share of the layers, whole
    embeddings and head, and three whole layers: one that computes, the next on its way, and the buffer it
    arrives in. Adapters are float32 and whole in every process, with a gradient and Adam's two
    moments for each of them. Where a vLLM engine samples, its own memory is not in here.
    """
    adapters = work.policies * model.adapter(work.lora_r) * 4
    layers = model.layer_parameters if work.fsdp else 0
    return Memory(
        base=(model.parameters - layers + math.ceil(layers / processes)) * work.width,
        gathered=gathered_bytes(model, work) if work.fsdp else 0,
        exchanged=adapters // (work.policies if work.fsdp else 1) if processes > 1 else 0,
        adapters=adapters,
        gradients=adapters,
        optimizer=2 * adapters,
        activations=activations(model, work),
        sampling=sampling_bytes(model, work) if work.engine == "transformers" else 0,
    )


def gathered_bytes(model: Architecture, work: Workload) -> int:
    """What FSDP2 gathers and holds whole at its peak: three layers."""
    return 3 * (model.layer_parameters // model.layers) * work.width


def activations(model: Architecture, work: Workload) -> int:
    """What the backward pass of one micro-batch holds at its peak.

    With T = rows x length tokens: the input of every layer (2h bytes a token, and 25 for each
    per-layer input), the attention mask (5 bytes a pair of positions), and either one layer run again
    or the tiles of the vocabulary, whichever is larger. Without checkpointing every layer is held.
    Rows in a line have no mask, and LINE times as much for each token.
    """
    rows, length = work.readers * work.per_device_train_batch_size, work.length
    if work.micro_batch_tokens:
        rows = min(work.round_rows, max(1, work.micro_batch_tokens // length))
    tokens, mask = rows * length, MASK_BYTES * rows * length * length
    if work.micro_batch_tokens and work.padding_free is not False and model.in_lines:
        longest = min(max(work.micro_batch_tokens, length), work.round_rows * length)
        tokens, mask = int(LINE * longest), 0
    kept = model.layers * (2 * model.hidden + 25 * model.per_layer_input)
    layer = layer_bytes(model)
    if not work.gradient_checkpointing:
        return tokens * model.layers * layer + mask
    scored = rows * work.max_completion_length
    head = min(scored, TILE_TOKENS) * TILE_WORDS * 2 + 8 * scored * model.hidden
    return tokens * kept + mask + max(tokens * layer, head)


def layer_bytes(model: Architecture) -> int:
    """Bytes a token needs inside one layer during its backward pass, adapters on all projections.

    18.1h + 11 x intermediate + 12.5 x queries + 6 x keys: a linear fit to what bfloat16 autocast
    allocates for Qwen2 and Qwen3 layers of eight shapes, exact to 3%. A delta net holds about
    26 bytes for each of its projected values, in the implementation without fused kernels.
    """
    common = 18.1 * model.hidden + 11 * model.intermediate
    head = max(model.head_dim, model.global_head_dim)
    queries = model.heads * head * (2 if model.gated else 1)
    attention = 12.5 * queries + 6 * model.kv_heads * head
    delta = 26 * 4 * model.delta_heads * model.delta_dim
    return int(common + max(attention, delta))


def sampling_bytes(model: Architecture, work: Workload) -> int:
    """What the transformers engine holds at its peak, for R rows of full length.

    The cache and a copy of one layer's part of it while it grows, that layer's keys and values
    repeated for every query head, and three float32 copies of the scores over the vocabulary.
    """
    rows, length = work.sampled_rows, work.length
    cache = model.cache_bytes(length, rows, work.width)
    repeated = 2 * rows * length * model.heads * model.head_dim * work.width
    return cache + cache // model.layers + repeated + 12 * rows * model.vocab


@dataclass(frozen=True)
class Tokens:
    """Rollouts and tokens of the whole run; `most` if every rollout reaches the cap."""

    steps: int
    problems_per_step: float
    rollouts: int
    mean: int
    most: int


def tokens(work: Workload, gpus: int) -> Tokens:
    """Steps and tokens: every problem is answered `num_generations` times under one cap.

    A step holds rows x accumulation x GPUs / num_generations problems. The mean is 0.4 of the cap, as
    in the paper's untrained rollouts, unless it is known.
    """
    rows = work.per_device_train_batch_size * work.gradient_accumulation_steps * gpus
    per_step = rows / work.num_generations
    steps = work.max_steps if work.max_steps > 0 else int(work.problems * work.num_train_epochs / per_step)
    rollouts = int(steps * rows)
    most = rollouts * work.max_completion_length
    return Tokens(steps, per_step, rollouts, rollouts * work.lengths.mean, most)


@dataclass(frozen=True)
class Hours:
    """Of the whole run, for the mean length of completions."""

    sampling: float
    training: float

    @property
    def total(self) -> float:
        return self.sampling + self.training


def hours(model: Architecture, work: Workload, gpu: Gpu, gpus: int, sampler: Gpu | None = None) -> Hours:
    """Time of a run: rounds of sampling, and the arithmetic of training.

    `gpus` train. Each of them samples for itself, unless `sampler` says what a server is made of (then
    `rows_per_sampler` says how much of a round it gets).

    A trained token costs 6 operations per parameter (forward, forward again, gradients of activations;
    the base has no weight gradients) and 2 more for the log-probs of another engine's samples, plus
    12 x layers x queries x length for attention.
    """
    spent = tokens(work, gpus)
    rounds = spent.rollouts / (work.round_rows * gpus)
    trained = spent.mean + spent.rollouts * work.prompt_tokens
    operations = 6 if work.engine == "transformers" else 8
    length = work.prompt_tokens + work.lengths.square_mean
    attention = 12 * model.full_layers * model.heads * model.head_dim * length
    per_token = operations * model.active / TRAINING_EFFICIENCY + attention / ATTENTION_EFFICIENCY
    arithmetic = work.readers * trained * work.num_iterations * per_token
    if work.readers > 1:  # each is scored under its reader first
        arithmetic += trained * 2 * model.active / TRAINING_EFFICIENCY
    return Hours(
        sampling=rounds * round_seconds(model, work, sampler or gpu) / 3600,
        training=arithmetic / (gpu.tflops * 1e12) / gpus / 3600,
    )


def round_seconds(model: Architecture, work: Workload, gpu: Gpu) -> float:
    """How long one GPU samples one round of rollouts.

    A step of the engine gives every running sequence a token. It takes a fixed time and reads the
    weights once; each token of it takes a little more and reads the cache of its sequence.
    """
    bandwidth = gpu.bandwidth * 1e9 * SAMPLING_EFFICIENCY
    weights = _sampler_weights(model, work)
    context = work.prompt_tokens + int(work.lengths.square_mean / 2)
    per_token = model.cache_bytes(context) / bandwidth + TOKEN_SECONDS
    per_step = weights / bandwidth + STEP_SECONDS[work.engine]
    return engine_steps(model, work, gpu) * per_step + work.sampler_rows * work.lengths.mean * per_token


def engine_steps(model: Architecture, work: Workload, gpu: Gpu) -> float:
    """How many steps of the engine a round takes.

    A challenge follows its draft, so there are at least as many steps as the longest such pair has
    tokens, and more if the cache does not hold all sequences at once. The transformers engine takes a
    stream in batches, each as long as its longest completion.
    """
    own = work.engine != "transformers"
    # A vLLM engine has its share of the memory less its own copy of the weights.
    share, taken = (work.vllm_gpu_memory_utilization, _sampler_weights(model, work)) if own else (0.5, 0)
    cache = work.vllm_kv_cache_bytes if own and work.vllm_kv_cache_bytes else gpu.memory * GIB * share - taken
    room = max(1, int(cache / model.cache_bytes(work.prompt_tokens + work.lengths.mean)))
    chains = max(1, work.sampler_rows // work.links)
    if own:
        together = min(chains, room)
        chain = work.longest_chain or work.lengths.longest_chain(chains, work.links)
        return max(chain, work.sampler_rows * work.lengths.mean / together)
    together = min(chains, room, work.engine_rows)
    return work.links * math.ceil(chains / together) * work.lengths.longest_chain(together, 1)


def _sampler_weights(model: Architecture, work: Workload) -> int:
    return (model.active + model.adapter(work.lora_r)) * work.width
