"""The trainer: two policies head to head on TRL's GRPO core.

`AgonTrainer` is a `GRPOTrainer` whose rollouts come from the arena. A round goes like this: the
arena plays the duels; TRL scores each stream (padding, log-probs, advantages) under the policy that
wrote it; `agon.train.streams` lays the rows out in micro-batches of one policy each; TRL computes
every loss. One optimizer holds both adapters. Roles follow from `global_step`, so they survive a
resume.

    from agon import AgonConfig, AgonTrainer

    args = AgonConfig(output_dir="runs/first", method="agon")
    AgonTrainer(model="Qwen/Qwen3-0.6B", task="deepmath-hard", args=args).train()

or as TRL's trainers are used, with `train_dataset`, `reward_funcs` and `peft_config` (`agon.train.from_trl`).
"""

import os
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset, DatasetDict
from peft import LoraConfig
from torch import nn
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PrinterCallback,
    TrainerCallback,
)
from trl import GRPOConfig

from agon.arena import Arena
from agon.embedded import model_path
from agon.engines.build import build_engine
from agon.engines.context_length import refuse_long_prompts
from agon.engines.protocol import Engine
from agon.errors import InputError
from agon.evaluate.validate import validate
from agon.game.duel import Duel
from agon.game.problem import Problem
from agon.policies import Pair
from agon.policies.attention import use_own_attention
from agon.runs.folder import Run
from agon.runs.settings import RunSettings
from agon.tasks import Task
from agon.train.agreement import mean_of_processes
from agon.train.callbacks import Recorded, RunRecorder, StopOnInterrupt
from agon.train.checkpointing import choose_for_card
from agon.train.config import AgonConfig
from agon.train.epochs import EpochSampler, EpochStart
from agon.train.from_trl import JudgeLike, as_config, held_out, take_judge, take_lora, take_task
from agon.train.judge_health import JudgeHealth
from agon.train.late_weights import LateWeightTrainer
from agon.train.live import LiveView
from agon.train.logprob_gap import CheckAtStart, Probe, SamplerWatch, check_sampler
from agon.train.metering import MeteringTrainer
from agon.train.module_mode import set_mode_once
from agon.train.nonfinite import FiniteWeights, StepGuard
from agon.train.out_of_memory import RecoveringTrainer
from agon.train.packing import long_enough
from agon.train.pass_trainer import PassTrainer
from agon.train.pooling import pooled
from agon.train.processes import sharding
from agon.train.resuming import ResumingTrainer
from agon.train.round_ahead import RoundAhead
from agon.train.round_rows import ProblemRows, RoundRows, Rows
from agon.train.sampling import SamplingTrainer
from agon.train.scoring import ScoringTrainer
from agon.train.sharding import average_gradients, shard_layers_only
from agon.train.starting_point import located, warm_start
from agon.train.stopping import Abandonment, RoundStart, say
from agon.train.streams import (
    Batch,
    RowCounts,
    Stream,
    count_rows,
    interleave,
    lengths_of,
    micro_batches,
    split_rows,
    streams_of,
    with_values,
)


def paid(prompts: Sequence[str], reward: Sequence[float], **_: Any) -> list[float]:
    """TRL's reward function: the arena has already decided what each rollout earned."""
    return list(reward)


class AgonTrainer(
    SamplingTrainer,
    LateWeightTrainer,
    ScoringTrainer,
    ResumingTrainer,
    MeteringTrainer,
    PassTrainer,
    RecoveringTrainer,
):
    """Trains a pair (or one policy) with any method of the table; used as TRL's trainers are.

    `task` (or `train_dataset`) is a name, a `Task`, a `DatasetDict` or a `datasets.Dataset` with the columns
    `problem` (or `prompt`) and `answer`, in which case `judge` (or `reward_funcs`) says who decides: a name, an
    object with `judge`, a function, or reward functions as TRL's are. `eval_dataset` is the validation split.
    `args` may be a `GRPOConfig`, and `peft_config` sets rank, scale, dropout and layers of both adapters.
    `engine` replaces the one that `args.engine` names; a `LiveView` among the callbacks shows the run.
    """

    _tag_names = ["trl", "grpo", "agon"]  # noqa: RUF012
    _name = "Agon"
    is_fsdp_enabled: bool

    def __init__(
        self,
        model: str | PreTrainedModel,
        task: str | Task | Dataset | DatasetDict | None = None,
        args: GRPOConfig | None = None,
        judge: JudgeLike | None = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        callbacks: list[TrainerCallback] | None = None,
        optimizers: tuple[Any, Any] = (None, None),
        engine: Engine | None = None,
        *,
        train_dataset: str | Dataset | DatasetDict | None = None,
        eval_dataset: Dataset | DatasetDict | None = None,
        reward_funcs: JudgeLike | None = None,
        peft_config: LoraConfig | None = None,
    ) -> None:
        args = as_config(args)
        take_lora(args, peft_config)
        judge = take_judge(judge, reward_funcs, args)
        if engine is not None and not (engine.capabilities.live_weights or engine.capabilities.logprobs):
            raise InputError(
                f"Training corrects for what the engine '{engine.capabilities.name}' sampled with, and this one "
                "reports no log-probs: start it with VllmOptions(logprobs=True)."
            )
        if engine is not None and engine.capabilities.live_weights and sharding(vars(args), os.environ):
            raise InputError(
                f"The engine '{engine.capabilities.name}' samples from the trainer's own weights, and a sharded base "
                "computes only while all processes compute together: use an engine with weights of its own."
            )
        name = located(model) if isinstance(model, str) else model.config.name_or_path or "model"
        settings = RunSettings.from_config({**vars(args), "model": name})
        settings.use_threads()
        self.method = args.game
        chosen = take_task(task, train_dataset, eval_dataset, judge, args)
        self.task, self._judged_by = chosen.task, judge
        self.problems: Sequence[Problem] = self.task.problems("train")
        base = _load_base(settings, args) if isinstance(model, str) else model
        tokenizer = processing_class or settings.load_tokenizer()
        self.pair = Pair.create(base, args.adapters, policies=self.method.policies)
        on_gpu = args.device.type == "cuda"
        if on_gpu and not args.fsdp if args.fused_layers is None else args.fused_layers:
            self.pair.fuse()
        self.run = Run(args.output_dir)
        started_from = warm_start(self.pair, args, resumed=self.run.newest_step() > 0)
        self.on_sampling: Callable[[int, int], None] | None = None
        self.on_warning: Callable[[str | None], None] = lambda sentence: say(sentence) if sentence else None
        self._abandonment = Abandonment()
        self._round_start: RoundStart | None = None
        self._guard = StepGuard()
        self._judge_health = JudgeHealth()
        self._playing: Stream | None = None
        self._micro_batches: list[Batch] = []
        self._grad_norms: dict[str, float] = {}
        self._weighed: dict[str, torch.Tensor] = {}
        self._late_streams: list[Stream] = []
        self.gaps: dict[str, float] = {}
        # A reference by way of a "default" adapter does not exist here: TRL is built without KL, which
        # then works from the base with adapters disabled. The engine likewise is ours, not TRL's.
        fit = choose_for_card(args, base.config)
        if fit is not None and on_gpu and args.process_index == 0:
            say(str(fit))
        wanted = {"beta": args.beta, "use_vllm": args.use_vllm}
        args.beta, args.use_vllm = 0.0, False
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="You are using 'rollout_func'")
            super().__init__(
                model=self.pair.model,
                reward_funcs=[paid],
                args=args,
                train_dataset=_indices(self.problems),
                # Validation plays duels on the task's own split; the Trainer only asks that there be one.
                eval_dataset=_indices(self.task.problems("validation"))
                if args.eval_strategy != "no"
                else None,
                processing_class=tokenizer,
                callbacks=callbacks,
                optimizers=optimizers,
                rollout_func=AgonTrainer._rollouts,
            )
        args.beta, args.use_vllm = wanted["beta"], wanted["use_vllm"]
        self.beta = args.beta
        self.train_dataset, self.data_collator = ProblemRows(len(self.problems)), RoundRows
        set_mode_once(self.pair.model)
        self._packs = args.padding_free is not False and use_own_attention(base)
        self._refuse_passes()
        if self.is_fsdp_enabled:
            shard_layers_only(self.accelerator, self.pair)
        self.chat = settings.chat(tokenizer)
        refuse_long_prompts(self.chat, self.problems, base.config)
        self.judge = settings.open_judge(judge or args.judge or self.task.judge)
        self.engine = engine or build_engine(
            args.engine, self.pair, self.chat, model_path(name), args.engine_options
        )
        self._ahead = RoundAhead(self.engine, self.accelerator.device)
        if args.sample_ahead and not self._ahead.overlaps and args.process_index == 0:
            say(
                f"The engine '{self.engine.capabilities.name}' samples from the trainer's own weights: with "
                "sample_ahead it samples each round before training on the one before, and nothing overlaps."
            )
        if args.sample_ahead or not self.engine.capabilities.live_weights:
            # Samples of another engine differ a little from the trainer's own log-probs, and those of a round
            # that was sampled ahead by a round of updates: TRL corrects for both.
            self.use_vllm = True
            self._last_loaded_step = -1
            self.vllm_generation = _OwnSync()
        self.arena = Arena(self.engine, self.chat, self.judge, args.summary_limit)
        self._sampler = SamplerWatch(
            self.pair,
            self._logprobs,
            self.accelerator,
            args.max_logprob_gap,
            args.vllm_importance_sampling_mode,
        )
        recorded = Recorded(
            model=name,
            task_spec=chosen.spec,
            stored=chosen.stored,
            method=self.method,
            task=self.task,
            pair=self.pair,
            judge=self.judge,
            engine_facts=lambda: {
                "engine": self.engine.capabilities.name,
                "logprob_gap": self.gaps,
                **started_from,
            },
        )
        self.add_callback(CheckAtStart(self._check_sampler))
        self.add_callback(FiniteWeights(self.pair))
        self._epochs = EpochStart()
        self.add_callback(self._epochs)
        # The recorder comes last: it has to know when a stop saves a checkpoint.
        self.stops = StopOnInterrupt(self._abandonment)
        self.add_callback(self.stops)
        self.add_callback(RunRecorder(self.run, recorded))
        self.view = next((each for each in callbacks or () if isinstance(each, LiveView)), None)
        if self.view is not None:
            self.remove_callback(PrinterCallback)
            self.on_sampling = self.view.sampling

    def _get_train_sampler(self, dataset: Any = None) -> EpochSampler:
        self._epochs.sampler = EpochSampler.like(super()._get_train_sampler(dataset))
        return self._epochs.sampler

    # One round of rollouts

    def _prepare_inputs(self, generation_batch: Any) -> Batch:
        """The next micro-batch; every `steps_per_generation x num_iterations` of them, a new round."""
        if self._again is not None:
            return self._again
        if not self._micro_batches:
            # TRL counts micro-steps from zero in every process; after a resume the round would be torn.
            self._step = self.state.global_step * self.args.gradient_accumulation_steps
        steps = self.args.steps_per_generation
        if self._step % (steps * self.num_iterations) == 0 or not self._micro_batches:
            self._round_start = RoundStart.of(self)
            self._micro_batches = self._play_round(generation_batch)
            self._begin_next()
        return self._micro_batches[self._step % steps]

    def _play_round(self, rows: Rows) -> list[Batch]:
        """Play the duels of a round, have TRL score each stream, and lay out the micro-batches."""
        problems = self._problems_of(rows)
        started = time.perf_counter()
        duels, streams, batches, seconds = self._redone(
            lambda: self._due(problems),
            lambda played: self._scored(*played, time.perf_counter() - started),
        )
        self._record(_with_advantages(duels, batches), seconds)
        if self.method.learns_from == "both":
            streams, batches = self._pool(streams, batches)
        return self._lay_out(streams, batches)

    def _pool(self, streams: Sequence[Stream], batches: Sequence[Batch]) -> tuple[list[Stream], list[Batch]]:
        """Each policy's rows and its rival's, weighted; what the weights are goes into the log."""
        cap = self.args.vllm_importance_sampling_clip_max
        feeds, joined, figures = pooled(streams, batches, self._score_as, cap, self.accelerator)
        for name, value in figures.items():
            self._metrics["train"][name].append(value)
        return feeds, joined

    def _scored(
        self, duels: list[list[Duel]], before: float, waited: float
    ) -> tuple[list[list[Duel]], list[Stream], list[Batch], float]:
        """The streams of a round and TRL's view of each, held against what the engine sampled with.

        It is scored when it is due, under the policies as they are now. For a round that was sampled ahead, the ratio
        of these to the policies that sampled is the importance weight, as it is for another engine's rollouts.
        The seconds are those `before` the round was due and those that training `waited` for it.
        """
        self._note_memory("sampling")
        if self.args.sample_ahead and self._ahead.overlaps:
            self._metrics["train"]["time/waiting"].append(waited)
        if self.args.vllm_enable_sleep_mode:
            self.engine.sleep()
        streams = streams_of(duels, self.method)
        batches = [self._score(stream) for stream in streams]
        self._late_streams = streams if self._weighs_late else []
        for stream, batch in zip(streams, batches, strict=True):
            self._check_sampler_of(stream, batch)
            if self.args.on_policy:
                # The ratio of new to old is one by definition, which scoring with other padding would miss. "Old" is
                # the policy when training on the round begins, not the one that sampled: what lies between these
                # two, if the round was sampled ahead, is in the importance weight, and a round still feeds one step.
                batch.pop("old_per_token_logps", None)
        return duels, streams, batches, before + waited

    def _score(self, stream: Stream) -> Batch:
        """TRL's view of a stream: tensors, log-probs under its policy, advantages within its groups."""
        shown = self.log_completions  # the only reader of prompts; decoding them all takes its time
        rows = [
            {
                "prompt": self._tokenizer.decode(entry.rollout.prompt_ids) if shown else "",
                "reward": entry.reward,
            }
            for entry in stream.entries
        ]
        self._playing, self.num_generations = stream, stream.group
        try:
            with self.pair.using(stream.policy), self._metrics_of(stream.name), self._without_weights():
                batch: Batch = self._generate_and_score_completions(rows)
        finally:
            self._playing, self.num_generations = None, self.args.num_generations
        return with_values(stream, batch, self.scale_rewards)

    @staticmethod
    def _rollouts(prompts: Sequence[str], trainer: "AgonTrainer") -> dict[str, Any]:
        """TRL's rollout function: hand over what the arena has played."""
        assert trainer._playing is not None
        rollouts = [entry.rollout for entry in trainer._playing.entries]
        return {
            "prompt_ids": [list(rollout.prompt_ids) for rollout in rollouts],
            "completion_ids": [list(rollout.token_ids) for rollout in rollouts],
            "logprobs": [list(rollout.logprobs) for rollout in rollouts],
        }

    # The sampler against the trainer

    def _check_sampler(self) -> None:
        """Whether an engine with weights of its own holds the policies."""
        if not self.engine.capabilities.live_weights:
            self.gaps = check_sampler(
                Probe(
                    arena=self.arena,
                    pair=self.pair,
                    problems=self.problems,
                    sampling=self.args.sampling,
                    score=self._logprobs,
                    limit=self.args.max_logprob_gap,
                    mean=lambda gaps: mean_of_processes(gaps, self.accelerator.device),
                )
            )

    def _check_sampler_of(self, stream: Stream, batch: Batch) -> None:
        """Whether a round's rollouts come from the weights that were synced, and what correcting them costs."""
        if self._weighs_late:
            self._sampler.refuse_stale(stream, int(self.state.global_step), unscored=True)
            return
        figures = self._sampler.check(stream, batch, int(self.state.global_step))
        for name, value in figures.items():
            self._metrics["train"][f"{stream.name}/sampling/{name}"].append(value)
        if figures:
            # TRL's own figure counts the rows of dropped groups, which were not scored.
            mean = self._metrics["train"][f"{stream.name}/sampling/sampling_logp_difference/mean"]
            mean[-1:] = [figures["gap"]]

    def _lay_out(self, streams: Sequence[Stream], batches: Sequence[Batch]) -> list[Batch]:
        steps, world = self.args.steps_per_generation, self.accelerator.num_processes
        if self._in_passes:
            return self._lay_out_passes(streams, batches)
        parts = []
        for stream, batch in zip(streams, batches, strict=True):
            lengths, rows = lengths_of(batch), self.args.per_device_train_batch_size
            mean = float(lengths.float().mean())
            in_lines = self._packs and long_enough(int(rows * mean), rows, self.accelerator.device.type)
            parts.append(
                split_rows(stream.kept(), lengths, steps // len(streams), self.args.windows, in_lines)
            )
        counts: dict[str, RowCounts] = defaultdict(RowCounts)
        for stream, batch, split in zip(streams, batches, parts, strict=True):
            counts[stream.policy] += self._over_processes(count_rows(batch, split))
        return interleave(
            [
                micro_batches(
                    batch,
                    split,
                    self._largest(split),
                    stream,
                    counts[stream.policy],
                    steps * world,
                    self.loss_type,
                )
                for stream, batch, split in zip(streams, batches, parts, strict=True)
            ]
        )

    def _over_processes(self, counts: RowCounts) -> RowCounts:
        own = torch.tensor([counts.rows, counts.tokens, counts.micro_batches], device=self.accelerator.device)
        return RowCounts(*self.accelerator.reduce(own, reduction="sum").tolist())

    def _largest(self, parts: Sequence[torch.Tensor]) -> list[int]:
        """The rows of each micro-batch in the process that has most."""
        sizes = torch.tensor([[len(part) for part in parts]], device=self.accelerator.device)
        largest: list[int] = self.accelerator.gather(sizes).max(0).values.tolist()
        return largest

    # Gradients

    def _compute_loss(self, model: nn.Module, inputs: Batch) -> torch.Tensor:
        # The policy stays active through the backward pass, where gradient checkpointing runs the
        # forward again: switching in between puts the gradient on the wrong adapter without a word.
        self._abandonment.check()
        if "passes" in inputs:
            return self._loss_of_passes(model, inputs["passes"])
        if not inputs["weight"] and self.accelerator.num_processes == 1:
            return self._no_loss()
        self.pair.activate(inputs["policy"])
        self.pair.cast_inputs(not self._autocasts)
        return self._weighted_loss(model, inputs)

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        try:
            loss: torch.Tensor = super().training_step(*args, **kwargs)
        finally:
            self.pair.cast_inputs(True)  # whoever samples next may do so without autocast
            self.pair.end_rows()
        self._guard.see_loss(loss)
        return loss

    def _clip_grad_norm(self, model: nn.Module) -> torch.Tensor:
        """Clip each policy by itself: a loud one must not shrink the other's step."""
        return self._clip_each(self.args.max_grad_norm)

    def _clip_each(self, limit: float) -> torch.Tensor:
        if self.is_fsdp_enabled:
            for policy in self.pair.names:
                average_gradients([weight for _, weight in self.pair.weights(policy)], self.accelerator)
        # Once for both: accelerate's own clipping would unscale the gradients of fp16 again for each.
        self.accelerator.unscale_gradients()
        for policy in self.pair.names:
            weights = [weight for _, weight in self.pair.weights(policy)]
            self._grad_norms[policy] = float(nn.utils.clip_grad_norm_(weights, limit))
        return torch.tensor(list(self._grad_norms.values())).norm()

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """The norm for the log; by the way, a policy that has nothing to learn is left untouched."""
        self._see_weights()
        if grad_norm is None:  # clipping is off
            grad_norm = self._clip_each(float("inf"))
        scaler = self.accelerator.scaler
        wrong = self._guard.wrong(
            self._anyone(self._guard.loss_was_bad()), self._grad_norms, scaler.get_scale() if scaler else None
        )
        self._metrics["train"]["skipped_steps"].append(float(wrong is not None))
        self._guard.count(wrong, self.state.global_step + 1)
        for policy, norm in self._grad_norms.items():
            self._metrics["train"][f"{policy}/grad_norm"].append(norm)
            if norm == 0.0 or wrong:
                # A gradient of zero, unlike none, would still let Adam's momentum move the adapter.
                for _, weight in self.pair.weights(policy):
                    weight.grad = None
        return float(grad_norm)

    # Validation

    def evaluate(
        self, eval_dataset: Any = None, *_: Any, metric_key_prefix: str = "eval", **__: Any
    ) -> dict[str, float]:
        """Play the cascade on validation problems in both directions, each policy alone beside it.

        On a dataset, if one is given: all of it, by the judge that training has.
        """
        if eval_dataset is None:
            chosen = self.task.problems("validation")[: self.args.validation_size]
        else:
            chosen = held_out(eval_dataset, self.task.name, self._judged_by or self.task.judge, self.args)
        share = chosen[self.accelerator.process_index :: self.accelerator.num_processes]
        started = time.perf_counter()
        self._round_start = RoundStart.of(self)
        if self.args.sample_ahead:
            self._redone(self._ahead.settle, lambda _: None)  # the engine may be busy with the next round
        rates = self._redone(
            lambda: validate(
                self.arena,
                share,
                self.pair.names,
                self.method,
                self.args.eval_sampling,
                self._sync(),
                seed=self.args.seed,
                samples=self.args.num_generations_eval,
                gather=gather_object,  # the better direction is better on all problems, not on a share of them
            ),
            lambda rates: rates,
        )
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in rates.items()}
        metrics[f"{metric_key_prefix}_time/seconds"] = time.perf_counter() - started
        self.log(metrics)
        self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def push_to_hub(self, repo_id: str | None = None, **options: Any) -> str:
        """Upload the finished run as `agon push` does; returns its address."""
        from agon.train.publish import publish

        return publish(self.run, repo_id or self.args.hub_model_id, **options)

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """Nothing here: the finished adapters get their cards (`agon.train.model_card`)."""

    def close(self) -> None:
        """End the judges and the engine."""
        self._ahead.give_up()
        self.judge.close()
        self.engine.close()


class _OwnSync:
    """Stands where TRL expects its vLLM wrapper: our engine has been synced before it sampled."""

    def sync_weights(self) -> None: ...


def _load_base(settings: RunSettings, args: AgonConfig) -> PreTrainedModel:
    """The base where and how it is trained. Frozen, it may live in the precision that computes fastest."""
    sharded = sharding(vars(args), os.environ) is not None
    alone_on_gpu = args.device.type == "cuda" and args.world_size == 1 and not sharded
    dtype = torch.bfloat16 if args.bf16 else torch.float32
    return settings.load_base(dtype, device_map="auto" if alone_on_gpu else None)


def _indices(problems: Sequence[Problem]) -> Dataset:
    return Dataset.from_dict({"index": range(len(problems))})


def _with_advantages(duels: Sequence[Sequence[Duel]], batches: Sequence[Batch]) -> list[Duel]:
    """The duels with the advantages that TRL used, in row order."""
    flat = [duel for group in duels for duel in group]
    columns = [batch["advantages"].tolist() for batch in batches]
    filled = [
        replace(duel, draft=replace(duel.draft, advantage=value))
        for duel, value in zip(flat, columns[0], strict=True)
    ]
    if len(columns) == 1:
        return filled
    return [
        replace(duel, challenge=replace(duel.challenge, advantage=value)) if duel.challenge else duel
        for duel, value in zip(filled, columns[1], strict=True)
    ]
