"""One arm of `step.py`: a trainer in a process of its own, which makes a step whenever it is told to.

`step.py` starts it. A line on standard input asks for one optimizer step; what it cost goes as one JSON line to
the file descriptor `--reports`. If the line is a path, torch's profiler watches the step and its table goes there.
The end of standard input ends the training.

The arms are stock TRL with 2N rollouts a problem (`trl`) and any of our methods, with options after a colon
(`agon:padding_free=true`). All have the same problems, prompts, budget, precision, adapter layers and optimizer, and
nobody drops groups, so that all train on as many rows. With `--long`, rollouts are random tokens of stated lengths:
no sampling, only training.
"""

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoConfig, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from agon.embedded import EMBEDDED, default_recipe, model_path
from agon.engines.protocol import Capabilities, Finished, Request, derive_seed
from agon.game.problem import Problem
from agon.game.rollout import Rollout
from agon.game.transcript import split
from agon.planning.lengths import Lengths
from agon.policies.targets import target_modules
from agon.runs.settings import RunSettings
from agon.tasks.load import load_task
from agon.train import streams
from agon.train.config import AgonConfig
from agon.train.option_values import read_words
from agon.train.recipes import read_recipe
from agon.train.trainer import AgonTrainer

GPU = torch.cuda.is_available()
STEP = "step"  # what asks for one
MEAN_SHARE = 0.4  # of the cap, as the paper's rollouts are
# On one card four arms hold their engines side by side: caches as large as a step of a 0.5B model needs.
CACHE_BYTES, TRL_SHARE = 6 << 30, 0.15


@dataclass
class Clock:
    """Seconds by phase, each without the phases inside it, and the most memory that any of them had."""

    wall: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    peak: int = 0
    _stack: list[str] = field(default_factory=lambda: ["rest"])
    _since: tuple[float, float] = (0.0, 0.0)

    def start(self) -> None:
        self.wall, self.cpu, self.tokens, self.peak = {}, {}, {}, 0
        if GPU:
            torch.cuda.reset_peak_memory_stats()
        self._since = _now()

    def settle(self) -> None:
        """Count the time since the last change to the phase on top."""
        now = _now()
        name = self._stack[-1]
        self.wall[name] = self.wall.get(name, 0.0) + now[0] - self._since[0]
        self.cpu[name] = self.cpu.get(name, 0.0) + now[1] - self._since[1]
        self.peak = max(self.peak, torch.cuda.max_memory_allocated() if GPU else 0)
        self._since = now

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.settle()
        self._stack.append(name)
        try:
            yield
        finally:
            self.settle()
            self._stack.pop()

    def around(self, owner: Any, method: str, phase: Callable[..., str] | str) -> None:
        """Time a method of one object."""
        inner = getattr(owner, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.phase(phase if isinstance(phase, str) else phase(*args, **kwargs)):
                return inner(*args, **kwargs)

        setattr(owner, method, timed)

    def count(self, what: str, tokens: int) -> None:
        self.tokens[what] = self.tokens.get(what, 0) + tokens


def _now() -> tuple[float, float]:
    if GPU:
        torch.cuda.synchronize()
    return time.perf_counter(), time.process_time()


def cpu_of_tree(root: int) -> float:
    """CPU seconds of a process and of all that it has started and that still run (Linux)."""
    children: dict[int, list[int]] = {}
    spent: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        # After the name: state, parent, …; the 12th to 15th are its own ticks and those of reaped children.
        children.setdefault(int(fields[1]), []).append(int(entry.name))
        spent[int(entry.name)] = sum(map(int, fields[11:15]))
    total, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        total += spent.get(process, 0)
        waiting += children.get(process, [])
    return total / os.sysconf("SC_CLK_TCK")


class Turns(TrainerCallback):
    """Makes a step when it is told to, and says what it cost."""

    def __init__(self, clock: Clock, reports: int) -> None:
        self._clock, self._reports = clock, reports
        self._began = self._tree = 0.0
        self._profile: tuple[Path, torch.profiler.profile] | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._clock.around(kwargs["optimizer"], "step", "optimizer")
        self.report({"ready": True})
        if not self._wait():
            sys.exit(0)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._clock.settle()
        self._end_profile()
        clock = self._clock
        peak = clock.peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self.report(
            {
                "step": int(state.global_step),
                "wall": time.perf_counter() - self._began,
                "cpu": cpu_of_tree(os.getpid()) - self._tree,
                "phases": {name: round(value, 4) for name, value in clock.wall.items()},
                "cpu_phases": {name: round(value, 4) for name, value in clock.cpu.items()},
                "tokens": clock.tokens,
                "peak_gb": round(peak / 1e9, 3),
            }
        )
        if GPU:
            torch.cuda.empty_cache()  # the card is another arm's now
        if not self._wait():
            control.should_training_stop = True

    def _wait(self) -> bool:
        told = sys.stdin.readline().strip()
        if told and told != STEP:
            self._profile = Path(told), torch.profiler.profile()
            self._profile[1].start()
        self._tree, self._began = cpu_of_tree(os.getpid()), time.perf_counter()
        self._clock.start()
        return bool(told)

    def _end_profile(self) -> None:
        if self._profile is None:
            return
        (path, profile), self._profile = self._profile, None
        profile.stop()
        key = "self_cuda_time_total" if GPU else "self_cpu_time_total"
        path.write_text(profile.key_averages().table(sort_by=key, row_limit=50, max_name_column_width=90))

    def report(self, values: Mapping[str, Any]) -> None:
        os.write(self._reports, (json.dumps(values) + "\n").encode())


@dataclass
class MadeUp:
    """An engine that returns random tokens, each completion as long as its seed says."""

    vocabulary: int
    lengths: Lengths
    waiting: list[Request] = field(default_factory=list)

    capabilities = Capabilities("made-up", streams=False, live_weights=True, logprobs=True)

    def sync(self, policy: str, version: int) -> None: ...

    def submit(self, requests: Sequence[Request]) -> None:
        self.waiting += requests

    def collect(self) -> list[Finished]:
        taken, self.waiting = self.waiting, []
        return [Finished(request, self._rollout(request)) for request in taken]

    def _rollout(self, request: Request) -> Rollout:
        ids = made_up(self.vocabulary, self.lengths, request.seed)
        logprobs = tuple([-1.0] * len(ids))
        return Rollout("", len(ids), "stop", request.policy, request.version, tuple(ids), logprobs)

    def sleep(self) -> None: ...

    def wake(self) -> None: ...

    def close(self) -> None: ...


def made_up(vocabulary: int, lengths: Lengths, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed % 2**31)
    drawn: list[int] = torch.randint(vocabulary, (lengths.draw(seed),), generator=generator).tolist()
    return drawn


def scored_or_trained(*_: Any, **__: Any) -> str:
    return "forward" if torch.is_grad_enabled() else "scoring"


def watch(trainer: GRPOTrainer, clock: Clock) -> None:
    """Time what TRL's trainer and ours have in common, and count the tokens that pass through the model."""
    inner = trainer._get_per_token_logps_and_entropies

    def counted(model: Any, ids: Any, mask: Any, *args: Any, **kwargs: Any) -> Any:
        clock.count("trained" if torch.is_grad_enabled() else "scored", int(mask.sum()))
        return inner(model, ids, mask, *args, **kwargs)

    trainer._get_per_token_logps_and_entropies = counted
    clock.around(trainer, "_get_per_token_logps_and_entropies", scored_or_trained)
    clock.around(trainer, "compute_loss", "forward")
    clock.around(trainer.accelerator, "backward", "backward")
    clock.around(trainer, "_clip_grad_norm", "optimizer")
    trainer.remove_callback(PrinterCallback)


def ours(arguments: argparse.Namespace, clock: Clock, turns: Turns) -> None:
    name, _, rest = arguments.arm.partition(":")
    extra = read_words([f"--{pair}" for pair in rest.split(",") if pair])
    engine = arguments.engine if not arguments.long else "transformers"
    own: dict[str, Any] = {"engine": engine, "method": name, "dialect": dialect(arguments)}
    if engine == "vllm":
        own |= {"vllm_kv_cache_bytes": CACHE_BYTES, "vllm_max_model_length": arguments.prompt + arguments.cap}
    args = AgonConfig(**{**sizes(arguments), **own, **extra})
    streams.has_signal = lambda rewards: True
    made = MadeUp(vocabulary(arguments), lengths(arguments)) if arguments.long else None
    trainer = AgonTrainer(
        model=arguments.model, task=task(arguments), args=args, engine=made, callbacks=[turns]
    )
    watch(trainer, clock)
    inner = trainer._due

    def due(problems: Sequence[Problem]) -> Any:
        duels, before = inner(problems)
        for duel in (duel for group in duels for duel in group):
            for entry in (duel.draft, duel.challenge):
                clock.count("sampled", entry.rollout.length if entry else 0)
        return duels, before

    setattr(trainer, "_due", due)  # noqa: B010
    clock.around(trainer, "_due", "sampling")  # of a round that was sampled ahead, what is waited for
    clock.around(trainer, "_sync", "sync")
    clock.around(trainer.arena, "_duels", "judging")  # what is still to be waited for once all is sampled
    try:
        trainer.train()
    finally:
        trainer.close()


def stock(arguments: argparse.Namespace, clock: Clock, turns: Turns) -> None:
    """Stock TRL: one adapter, one group of 2N, its own vLLM or its own generation."""
    chosen = task(arguments)
    problems = chosen.problems("train")
    settings = RunSettings.from_config({"model": arguments.model, "dialect": dialect(arguments)})
    settings.use_threads()
    tokenizer = settings.load_tokenizer()
    chat = settings.chat(tokenizer)
    judge = settings.open_judge(chosen.judge)

    def right(completions: list[Any], number: list[int], **_: Any) -> list[float]:
        parts = [
            split(_text(each), chat.dialect.name, problems[row].domain, chat.prefilled)
            for each, row in zip(completions, number, strict=True)
        ]
        asked = [
            judge.submit(problems[row], part.answer) if part.answer is not None else None
            for part, row in zip(parts, number, strict=True)
        ]
        return [
            2.0 * bool(each and each.result().correct) + 0.5 * part.well_formed
            for each, part in zip(asked, parts, strict=True)
        ]

    vllm = arguments.engine == "vllm" and not arguments.long
    more: dict[str, Any] = {}
    if vllm:
        more = {
            "use_vllm": True,
            "vllm_mode": "colocate",
            "vllm_gpu_memory_utilization": TRL_SHARE,
            "vllm_max_model_length": arguments.prompt + arguments.cap,
        }
    made_rollouts = rollouts(arguments, chat) if arguments.long else None
    args = GRPOConfig(
        **{**sizes(arguments), **more},
        model_init_kwargs={"dtype": "bfloat16" if GPU else "float32"},
        beta=0.0,
    )
    trainer = GRPOTrainer(
        model=model_path(arguments.model),
        reward_funcs=[right],
        args=args,
        train_dataset=Dataset.from_dict(
            {
                "prompt": [chat.render(chat.plain(problem)) for problem in problems],
                "number": range(len(problems)),
            }
        ),
        processing_class=tokenizer,
        peft_config=LoraConfig(
            r=16,
            lora_alpha=32,
            target_modules=target_modules(AutoConfig.from_pretrained(model_path(arguments.model))),
            task_type="CAUSAL_LM",
        ),
        callbacks=[turns],
        rollout_func=made_rollouts,
    )
    watch(trainer, clock)
    inner = trainer._generate

    def generate(prompts: list[Any]) -> Any:
        found = inner(prompts)
        clock.count("sampled", sum(map(len, found[1])))
        return found

    trainer._generate = generate
    clock.around(trainer, "_generate", "sampling")
    clock.around(trainer, "_calculate_rewards", "judging")
    if vllm:
        clock.around(trainer.vllm_generation, "sync_weights", "sync")
    try:
        trainer.train()
    finally:
        judge.close()


def _text(completion: Any) -> str:
    return str(completion if isinstance(completion, str) else completion[0]["content"])


def rollouts(arguments: argparse.Namespace, chat: Any) -> Callable[..., dict[str, Any]]:
    """TRL's rollout function for `--long`."""
    words, drawn = vocabulary(arguments), lengths(arguments)

    def roll(prompts: list[str], trainer: Any) -> dict[str, Any]:
        ids = [chat.tokenizer(text, add_special_tokens=False)["input_ids"] for text in prompts]
        step = int(trainer.state.global_step)
        made = [made_up(words, drawn, derive_seed(step, row)) for row in range(len(prompts))]
        return {"prompt_ids": ids, "completion_ids": made, "logprobs": [[-1.0] * len(each) for each in made]}

    return roll


def sizes(arguments: argparse.Namespace) -> dict[str, Any]:
    """What TRL's configuration and ours are given alike."""
    return {
        "output_dir": arguments.folder,
        "num_generations": arguments.rollouts,
        "per_device_train_batch_size": arguments.rows,
        "gradient_accumulation_steps": arguments.problems * arguments.rollouts // arguments.rows,
        "max_completion_length": arguments.cap,
        "gradient_checkpointing": arguments.checkpointing == "on",
        "learning_rate": 1e-5,
        "lr_scheduler_type": "constant",
        "warmup_steps": 0,
        "max_steps": 10_000,
        "save_strategy": "no",
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "bf16": GPU,
        "use_cpu": not GPU,
        "seed": 1,
    }


def task(arguments: argparse.Namespace) -> Any:
    if arguments.task:
        return load_task(arguments.task, path=arguments.task_path)
    return load_task(read_recipe(default_recipe())["task"])


def dialect(arguments: argparse.Namespace) -> str | None:
    return "think" if arguments.model == EMBEDDED else None


def vocabulary(arguments: argparse.Namespace) -> int:
    return int(AutoConfig.from_pretrained(model_path(arguments.model)).get_text_config().vocab_size)


def lengths(arguments: argparse.Namespace) -> Lengths:
    return Lengths(int(arguments.cap * MEAN_SHARE), arguments.cap)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--arm", "--model", "--engine", "--checkpointing", "--folder", "--task", "--task-path"):
        parser.add_argument(name)
    for name in ("--reports", "--rollouts", "--rows", "--problems", "--cap", "--prompt", "--threads"):
        parser.add_argument(name, type=int)
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    clock = Clock()
    turns = Turns(clock, arguments.reports)
    (stock if arguments.arm == "trl" else ours)(arguments, clock, turns)


if __name__ == "__main__":
    main()
