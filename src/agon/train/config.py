"""The configuration of a training run: TRL's `GRPOConfig` and what the game adds to it.

Every option of TRL keeps its meaning, with `num_generations` the 2N rollouts of a problem (N drafts
and N challenges); the few that cannot are refused here, each with a sentence that says why.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from trl import GRPOConfig

from agon.engines.build import ENGINES
from agon.engines.options import EngineOptions, ServerOptions, VllmOptions
from agon.engines.protocol import Sampling
from agon.errors import InputError, unknown
from agon.game.dialects import dialect
from agon.game.methods import Method, graded, method, with_rewards
from agon.game.prompts import load_prompts
from agon.policies.pair import Adapters
from agon.train.option_checks import check_options
from agon.train.option_combinations import ahead_refusals, late_refusals
from agon.train.processes import Launched, refuse_processes, refuse_strangers, sharding, wants_fsdp
from agon.train.streams import PER_TOKEN_LOSSES

ALL_LINEAR = "all-linear"


@dataclass
class AgonConfig(GRPOConfig):
    """Arguments of `AgonTrainer`; see `agon train --help` for the ones that are not TRL's."""

    method: str = field(default="agon", metadata={"help": "Method to train with; `agon methods` lists them."})
    dialect: str | None = field(
        default=None,
        metadata={
            "help": "How the model writes: think, gemma or boxed. Read off its chat template if unset."
        },
    )
    draft_reward: list[str] | None = field(
        default=None,
        metadata={
            "help": "Terms of a draft's reward, such as correctness form my_parts:brevity; the method's if unset."
        },
    )
    challenge_reward: list[str] | None = field(
        default=None,
        metadata={"help": "Terms of a challenge's reward; the method's if unset."},
    )
    graded: bool = field(
        default=False,
        metadata={"help": "Pay for the judge's score from 0 to 1 instead of for right answers only."},
    )
    prompts: str | None = field(
        default=None,
        metadata={"help": "A set of prompts of your own, as module:object."},
    )
    system_prompt: str | None = field(
        default=None,
        metadata={"help": "What the system says before every problem."},
    )
    adapters_from: str | None = field(
        default=None,
        metadata={
            "help": "Run, or folder of adapters, whose weights the policies start from instead of from nothing."
        },
    )
    task_path: str | None = field(
        default=None, metadata={"help": "Local folder or file to read the task from, instead of the Hub."}
    )
    task_seed: int = field(default=0, metadata={"help": "Seed of the task's split (or of its generator)."})
    judge: str | None = field(
        default=None,
        metadata={"help": "Judge by name or as module:object; the task names its own if unset."},
    )
    judge_workers: int = field(default=2, metadata={"help": "Worker processes that judge answers."})
    sandbox: str = field(
        default="bubblewrap",
        metadata={"help": "What runs programs: bubblewrap, or none (no isolation; recorded in the run)."},
    )
    lora_r: int = field(default=16, metadata={"help": "Rank of each policy's adapter."})
    lora_alpha: int = field(default=32, metadata={"help": "Scale of each policy's adapter."})
    lora_dropout: float = field(default=0.0, metadata={"help": "Dropout in the adapters."})
    lora_target_modules: list[str] | None = field(
        default=None,
        metadata={"help": "Names of the adapted layers; chosen by architecture if unset."},
    )
    init_noise: float = field(
        default=1e-3,
        metadata={"help": "Deviation of the Gaussian noise that B's lora_B starts with; A's starts at zero."},
    )
    summary_limit: int | None = field(
        default=None, metadata={"help": "Most characters of a summary that a challenger is shown."}
    )
    engine: str = field(default="transformers", metadata={"help": f"What samples: {', '.join(ENGINES)}."})
    torch_threads: int | None = field(
        default=None,
        metadata={
            "help": "CPU threads of torch; one is fastest for tiny models, whose work is too small to share."
        },
    )
    engine_rows: int = field(
        default=256, metadata={"help": "Most completions that the transformers engine samples at once."}
    )
    vllm_servers: list[str] | None = field(
        default=None,
        metadata={"help": "Addresses of `vllm serve` processes for the vllm-server engine."},
    )
    vllm_kv_cache_bytes: int | None = field(
        default=None,
        metadata={
            "help": "Bytes of vLLM's cache, where several engines share a card; else its share of the card."
        },
    )
    vllm_enforce_eager: bool = field(default=False, metadata={"help": "Run vLLM without CUDA graphs."})
    vllm_worker_process: bool | None = field(
        default=None,
        metadata={
            "help": "Run the model of vLLM in a child process, beside its scheduling; if unset, on a GPU."
        },
    )
    adapter_dir: str | None = field(
        default=None,
        metadata={
            "help": "Folder that trainer and vLLM servers share, where adapters pass; memory if unset."
        },
    )
    max_logprob_gap: float = field(
        default=0.1,
        metadata={
            "help": "Refuse to train if the sampler's log-probs are further off the trainer's, per token."
        },
    )
    validation_size: int = field(
        default=100,
        metadata={"help": "Validation problems played at every evaluation (`eval_strategy`, `eval_steps`)."},
    )
    eval_temperature: float = field(default=0.6, metadata={"help": "Temperature of validation."})
    eval_top_p: float = field(default=0.95, metadata={"help": "Nucleus of validation."})
    final_evaluation: int = field(
        default=0,
        metadata={
            "help": "Test problems on which `agon train` evaluates the finished run (as `agon eval` does)."
        },
    )
    log_duels: bool = field(default=True, metadata={"help": "Keep every duel as a JSON line in the run."})
    duels_max_mb: int = field(
        default=2048,
        metadata={
            "help": "Most megabytes of duels. Beyond that the oldest file but the first is dropped, so that "
            "the start and the latest part remain."
        },
    )

    vllm_importance_sampling_mode: str = field(
        default="token_truncate",
        metadata={
            "help": "How rollouts of another engine are weighted: token_truncate, token_mask, sequence_truncate or "
            "sequence_mask. A weight per sequence spreads with the root of the length; see docs/engines.md."
        },
    )
    sample_ahead: bool = field(
        default=False,
        metadata={
            "help": "Sample the next round while this one trains. Its rollouts are one round of updates old when they "
            "are trained on, which importance sampling corrects."
        },
    )
    score_in_training: bool | None = field(
        default=None,
        metadata={
            "help": "Take importance weights from the training pass instead of a forward of their own; if unset, "
            "wherever a round feeds one optimizer step. The weights are the same but for rounding."
        },
    )
    fused_layers: bool | None = field(
        default=None,
        metadata={
            "help": "Compute each adapted layer and each norm in one function instead of PEFT's and transformers' "
            "steps; if unset, on a GPU. Gradients are theirs but for rounding."
        },
    )
    padding_free: bool | None = field(
        default=None,
        metadata={
            "help": "Train and score rows of a micro-batch one after another, without padding, where the model's kind "
            "allows it (Qwen2, Qwen3, Llama) and it pays; on by default."
        },
    )
    micro_batch_tokens: int | None = field(
        default=None,
        metadata={
            "help": "Most tokens of a micro-batch, padding counted: as many rows as fit, instead of "
            "per_device_train_batch_size; if unset, as many as the GPU has memory for. Gradients stay the same."
        },
    )
    both_policies_at_once: bool = field(
        default=False,
        metadata={
            "help": "Train on drafts and challenges in one pass, each row under its own adapter, instead of one "
            "adapter at a time. Gradients stay the same."
        },
    )
    gradient_checkpointing: bool | None = field(
        default=None,
        metadata={
            "help": "Compute every layer's forward again in the backward pass, to save memory; if unset, where the "
            "plan says that training does not fit the card without."
        },
    )
    bf16: bool | None = field(
        default=None,
        metadata={"help": "Compute in bfloat16; if unset, on a GPU that has it and nowhere else."},
    )

    ddp_find_unused_parameters: bool | None = field(
        default=None,
        metadata={"help": "Let DDP look for parameters without gradient; if unset, with two policies."},
    )

    # Defaults of the paper, where TRL has others.
    num_generations: int = field(
        default=16, metadata={"help": "Rollouts per problem: N drafts and N challenges."}
    )
    max_completion_length: int = field(default=2048, metadata={"help": "Most tokens of a completion."})
    learning_rate: float = field(default=5e-5, metadata={"help": "Initial learning rate of AdamW."})
    warmup_steps: float = field(default=0.1, metadata={"help": "Warm-up: steps, or a share of them below 1."})
    num_train_epochs: float = field(default=1.0, metadata={"help": "Passes over the training problems."})
    per_device_train_batch_size: int = field(default=8, metadata={"help": "Rollouts in a micro-batch."})
    gradient_accumulation_steps: int = field(
        default=8, metadata={"help": "Micro-batches per optimizer step, half of them drafts."}
    )
    num_generations_eval: int = field(default=1, metadata={"help": "Samples per problem at validation."})
    logging_steps: float = field(default=1, metadata={"help": "Steps between two lines of metrics.jsonl."})
    save_steps: float = field(default=50, metadata={"help": "Steps between two checkpoints."})
    save_total_limit: int | None = field(default=2, metadata={"help": "Checkpoints that are kept."})
    disable_tqdm: bool = field(default=True, metadata={"help": "The run has its own view."})

    def __post_init__(self) -> None:
        method(self.method)  # an unknown one before anything else
        launched = Launched.read()
        if launched.processes > 1 and not torch.accelerator.is_available():
            # accelerate joins processes without a GPU only if it is told that there is none; otherwise each of
            # them would make the whole run by itself, in the same folder.
            self.use_cpu = True
        if self.bf16 is None:
            # TRL would choose bfloat16 everywhere; most CPUs emulate it, tens of times slower than float32.
            fits = not self.use_cpu and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
            self.bf16 = fits and not self.fp16
        if self.use_vllm:
            self.engine = "vllm" if self.vllm_mode == "colocate" else "vllm-server"
        if self.ddp_find_unused_parameters is None and self.game.policies == 2:
            # A micro-batch passes through one adapter only; DDP would wait for the other's gradients.
            self.ddp_find_unused_parameters = True
        if not torch.cuda.is_available():
            self.dataloader_pin_memory = False  # or torch warns that there is nothing to pin for
        refuse_processes(vars(self))  # before processes are joined into a group
        self.fsdp = wants_fsdp(vars(self)) or None
        if self.fsdp:
            self.fsdp_config = sharding(vars(self), {})
        super().__post_init__()
        refuse_strangers(launched, self.world_size)
        check_options(vars(self))
        for refusal in self._refusals():
            raise InputError(refusal)

    @property
    def game(self) -> Method:
        """The method's row, with the rewards that were given in place of its own."""
        row = with_rewards(method(self.method), self.draft_reward, self.challenge_reward)
        return graded(row) if self.graded else row

    @property
    def adapters(self) -> Adapters:
        # What PEFT takes as one word for every linear layer.
        every = self.lora_target_modules == [ALL_LINEAR]
        return Adapters(
            rank=self.lora_r,
            alpha=self.lora_alpha,
            dropout=self.lora_dropout,
            targets=ALL_LINEAR if every else self.lora_target_modules,
            noise=self.init_noise,
            seed=self.seed,
        )

    @property
    def sampling(self) -> Sampling:
        """How training samples: from the whole distribution, at its temperature."""
        return Sampling(max_tokens=self.max_completion_length, temperature=self.temperature)

    @property
    def eval_sampling(self) -> Sampling:
        """How validation samples."""
        return Sampling(self.max_completion_length, self.eval_temperature, self.eval_top_p)

    @property
    def engine_options(self) -> EngineOptions:
        """The settings of the engine, TRL's own among them."""
        servers = self.vllm_servers or [self.vllm_server_base_url or self._server_address]
        return EngineOptions(
            rows=self.engine_rows,
            vllm=VllmOptions(
                dtype="bfloat16" if self.bf16 else "float16" if self.fp16 else "float32",
                max_model_len=self.vllm_max_model_length,
                enforce_eager=self.vllm_enforce_eager,
                worker_process=self.vllm_worker_process,
                gpu_memory_utilization=self.vllm_gpu_memory_utilization,
                kv_cache_bytes=self.vllm_kv_cache_bytes,
                sleep_mode=self.vllm_enable_sleep_mode,
                adapter_dir=self.adapter_dir,
            ),
            servers=servers,
            server=ServerOptions(adapter_dir=self.adapter_dir, shared=self.world_size > 1),
        )

    @property
    def _server_address(self) -> str:
        return f"http://{self.vllm_server_host}:{self.vllm_server_port}"

    @property
    def group_size(self) -> int:
        """Rollouts in one group: N per stream, or all 2N where there are no challenges."""
        return self.num_generations // (2 if self.game.challenges else 1)

    @property
    def steps_per_round(self) -> int:
        """Optimizer steps that one round of rollouts feeds; roles and checkpoints keep to rounds."""
        return max(1, self.steps_per_generation * self.num_iterations // self.gradient_accumulation_steps)

    @property
    def on_policy(self) -> bool:
        """Whether every gradient is taken with the weights that sampled: one optimizer step for a round."""
        return self.gradient_accumulation_steps % (self.steps_per_generation * self.num_iterations) == 0

    @property
    def windows(self) -> int:
        """The groups of a stream's micro-batches within which rows may be sorted without any bias.

        They are the optimizer steps of a round. Where steps and rounds do not divide, and for the loss
        that averages over micro-batches instead of rows, every micro-batch is a group of its own.
        """
        micro_batches = self.steps_per_generation // (2 if self.game.challenges else 1)
        if self.loss_type == "bnpo" or self.steps_per_generation % self.gradient_accumulation_steps:
            return micro_batches
        return self.steps_per_generation // self.gradient_accumulation_steps

    def _refusals(self) -> Iterator[str]:
        if self.engine not in ENGINES:
            yield str(unknown("engine", self.engine, ENGINES))
        if self.dialect is not None:
            dialect(self.dialect)  # an unknown one is refused, one of your own is loaded
        load_prompts(self.prompts, self.system_prompt)
        yield from self._layout_refusals()
        yield from self._option_refusals()
        yield from ahead_refusals(vars(self))
        yield from late_refusals(vars(self))

    def _layout_refusals(self) -> Iterator[str]:
        if self.num_generations % 2:
            yield f"num_generations counts N drafts and N challenges and must be even, not {self.num_generations}."
        if self.num_generations < 4:
            yield "num_generations must be at least 4: a group of one rollout has no advantage."
        rows = self.per_device_train_batch_size * self.steps_per_generation
        if rows % self.num_generations:
            yield (
                f"One process generates per_device_train_batch_size x steps_per_generation = {rows} rollouts, "
                f"which must be a multiple of num_generations ({self.num_generations}): a problem's drafts and "
                "challenges stay in one process."
            )
        for name in ("gradient_accumulation_steps", "steps_per_generation"):
            if self.game.challenges and getattr(self, name) % 2:
                yield (
                    f"{name} must be even for '{self.method}', not {getattr(self, name)}: micro-batches of drafts "
                    "and of challenges alternate."
                )
        if self.save_strategy == "steps" and self.save_steps >= 1 and self.save_steps % self.steps_per_round:
            yield (
                f"save_steps ({self.save_steps:g}) must be a multiple of the {self.steps_per_round} steps that one "
                "round of rollouts feeds, or a checkpoint would lose the rest of its round."
            )

    def _option_refusals(self) -> Iterator[str]:
        two = self.game.policies == 2
        biased = (
            "training scores the whole distribution, so the ratio would be off; for evaluation set eval_top_p"
        )
        refused = {
            "top_p": (self.top_p != 1.0, biased),
            "top_k": (self.top_k, biased),
            "min_p": (self.min_p, biased),
            "repetition_penalty": (self.repetition_penalty != 1.0, biased),
            "use_transformers_continuous_batching": (
                self.use_transformers_continuous_batching,
                "it casts the adapters to bfloat16 for good; set engine to vllm instead",
            ),
            "generation_kwargs": (
                self.generation_kwargs,
                "set temperature, top_p, top_k or min_p themselves",
            ),
            "cache_implementation": (self.cache_implementation, "the engine keeps its own cache"),
            "vllm_structured_outputs_regex": (
                self.vllm_structured_outputs_regex,
                "the dialect fixes the form",
            ),
            "reward_weights": (self.reward_weights, "the method fixes the reward; `agon methods` shows it"),
            "multi_objective_aggregation": (
                self.multi_objective_aggregation != "sum_then_normalize",
                "the method's terms are summed, then normalised",
            ),
            "sync_ref_model": (self.sync_ref_model, "the reference is the frozen base"),
            "load_best_model_at_end": (
                self.load_best_model_at_end,
                "compare the checkpoints on validation with `agon best RUN` instead",
            ),
            "push_to_hub": (
                self.push_to_hub,
                "push the finished run with `agon push RUN REPO` or trainer.push_to_hub(REPO)",
            ),
            "scale_rewards": (
                self.scale_rewards == "batch" and self.game.advantage == "paired",
                f"'{self.method}' scales within a group; use group or none instead of batch",
            ),
            "use_adaptive_entropy": (
                self.use_adaptive_entropy and two,
                "one controller cannot serve two policies",
            ),
            "entropy_coef": (
                self.entropy_coef and two and self.loss_type in PER_TOKEN_LOSSES,
                f"with two policies the loss '{self.loss_type}' would halve it; use loss_type grpo",
            ),
        }
        for name, (given, why) in refused.items():
            if given:
                yield f"Agon does not take {name}: {why}."
