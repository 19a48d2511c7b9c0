"""Where the time to the first step goes: imports, the base, the engine, the first round, the first update.

    python benchmarks/first_step.py --out OUT                                            # embedded base, a CPU
    python benchmarks/first_step.py --model MODEL_FOLDER --task gsm8k --task-path gsm8k --engine vllm --out OUT
    python benchmarks/first_step.py ... --arms plain 'eager:{"enforce_eager": true}'      # vLLM's options, as JSON
    python benchmarks/first_step.py --table OUT/first_step.json                           # print it again

Every arm is a process of its own that trains one step and stops; the arms run one after another, so the second finds
the files in memory and vLLM's compile cache; `NAME:fresh` gives an arm an empty cache. On a GPU vLLM's worker is
forked from a process that imports meanwhile, as `agon train` does it; `NAME:{"forked": false}` lets vLLM start it.
Reported are seconds by phase and the arm's total over that of the first.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PHASES = ("imports", "base", "trainer", "engine", "check", "sampling", "update")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--task", default="gym:chain_sum")
    parser.add_argument("--task-path")
    parser.add_argument("--engine", default="transformers")
    parser.add_argument("--problems", type=int, default=32, help="of the step")
    parser.add_argument("--rollouts", type=int, default=16, help="of a problem")
    parser.add_argument("--tokens", type=int, default=512, help="of a completion, at most")
    parser.add_argument("--prompt", type=int, default=1536, help="most tokens of a prompt, for vLLM")
    parser.add_argument("--arms", nargs="+", default=["plain"], metavar="NAME[:fresh][:JSON]")
    parser.add_argument("--limit", type=float, default=300, help="seconds of an arm")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        print(json.dumps(first_step(arguments, json.loads(arguments.child))))
        return
    if arguments.table:
        print(table(json.loads(arguments.table.read_text())), end="")
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    measured: dict[str, dict[str, float]] = {}
    for arm in arguments.arms:
        name, _, rest = arm.partition(":")
        fresh = rest.startswith("fresh")
        options = rest.removeprefix("fresh").removeprefix(":") or "{}"
        with tempfile.TemporaryDirectory() as cache, (arguments.out / f"{name}.log").open("w") as log:
            places = {"VLLM_CACHE_ROOT": cache, "TRITON_CACHE_DIR": f"{cache}/triton"} if fresh else {}
            began = time.perf_counter()
            child = subprocess.run(
                [sys.executable, *sys.argv, "--child", options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                timeout=arguments.limit,
                check=True,
                env={**os.environ, **places},
            )
        measured[name] = {**json.loads(child.stdout.splitlines()[-1]), "all": time.perf_counter() - began}
        (arguments.out / "first_step.json").write_text(json.dumps(measured, indent=2) + "\n")
    (arguments.out / "first_step.md").write_text(table(measured))
    print(table(measured), end="")


def table(measured: dict[str, dict[str, float]]) -> str:
    """Seconds by phase, an arm a row, and each arm's sum over the first one's."""
    lines = [f"| arm | {' | '.join(PHASES)} | to the first step | ratio |"]
    lines.append("| --- |" + " ---: |" * (len(PHASES) + 2))
    totals = {name: sum(phases[phase] for phase in PHASES) for name, phases in measured.items()}
    first = next(iter(totals.values()))
    for name, phases in measured.items():
        cells = [f"{phases[phase]:.1f}" for phase in PHASES]
        lines.append(f"| {name} | {' | '.join(cells)} | {totals[name]:.1f} | {totals[name] / first:.2f} |")
    return "\n".join(lines) + "\n"


class Clock:
    """Seconds by phase; what is timed inside another phase is taken out of it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self._running: list[str] = []
        self._since = time.perf_counter()

    def _book(self) -> None:
        now = time.perf_counter()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def begin(self, phase: str) -> None:
        self._book()
        self._running.append(phase)

    def end(self) -> None:
        self._book()
        self._running.pop()

    def timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **named: Any) -> Any:
            self.begin(phase)
            try:
                return function(*words, **named)
            finally:
                self.end()

        return call


def first_step(arguments: argparse.Namespace, vllm_options: dict[str, Any]) -> dict[str, float]:
    """Train one step in this process; seconds by phase."""
    clock = Clock()
    clock.begin("imports")
    from dataclasses import replace

    from agon.engines import worker_fork

    if vllm_options.pop("forked", arguments.engine == "vllm" and worker_fork.has_gpu()):
        worker_fork.prepare()

    from agon import AgonConfig, AgonTrainer
    from agon.train import trainer as module

    if arguments.engine == "vllm":
        import vllm  # noqa: F401  # otherwise counted as the engine's
    clock.end()

    def build_engine(kind: str, pair: Any, chat: Any, path: str, options: Any) -> Any:
        return built(kind, pair, chat, path, replace(options, vllm=replace(options.vllm, **vllm_options)))

    built = module.build_engine
    module.build_engine = clock.timed("engine", build_engine)
    module.check_sampler = clock.timed("check", module.check_sampler)
    module._load_base = clock.timed("base", module._load_base)
    with tempfile.TemporaryDirectory() as folder:
        args = AgonConfig(
            output_dir=folder,
            engine=arguments.engine,
            num_generations=arguments.rollouts,
            per_device_train_batch_size=arguments.rollouts,
            gradient_accumulation_steps=arguments.problems,
            max_completion_length=arguments.tokens,
            task_path=arguments.task_path,
            vllm_max_model_length=arguments.prompt + arguments.tokens if arguments.engine == "vllm" else None,
            max_steps=1,
            save_strategy="no",
            report_to="none",
        )
        clock.begin("trainer")
        trainer = AgonTrainer(model=arguments.model, task=arguments.task, args=args)
        clock.end()
        trainer._due = clock.timed("sampling", trainer._due)  # type: ignore[method-assign]
        clock.begin("update")
        trainer.train()
        clock.end()
        trainer.close()
    return clock.seconds


if __name__ == "__main__":
    main()
