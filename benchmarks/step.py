"""What one optimizer step costs: stock TRL with 2N rollouts, ours as `grpo`, ours as `agon`; by phase, as ratios.

    python benchmarks/step.py --out OUT                                      # the embedded base on a CPU
    python benchmarks/step.py --out OUT --model MODEL_FOLDER --engine vllm --task gsm8k --task-path data/gsm8k
    python benchmarks/step.py --out OUT --model Qwen/Qwen3-0.6B --long 4096  # training only, random weights
    python benchmarks/step.py --out OUT --methods agon agon:both_policies_at_once=true
    python benchmarks/step.py --table OUT/step.jsonl                         # print it again
    python benchmarks/step.py --curve OUT/step.jsonl                         # several sizes in one file

Every arm is a process of its own (`step_arm.py`), and the arms take turns, one step each, so that a busy machine
slows all of them alike. Every step is one JSON line of OUT/step.jsonl, written when it ends: a run that is cut short
leaves what it has measured. The first step of each arm warms up and counts only for the time to the first step;
medians of the others are printed, with their ratios to the first arm. Phases are exclusive: `sampling` is without
`sync` and without what judging makes wait for; `rest` is everything that has no name. On a CPU, `cpu` is the CPU
time of the arm's process and of all that it has started (Linux), and the figure to look at.

Nobody drops groups here, so that all arms train on equally many rows. `share` is the useful arithmetic of scoring,
forward and backward (2, 2 and 2 operations for each parameter and token, and attention's), what checkpointing computes
again not counted, over the time of these phases, as a part of the dense rate that a large matrix product reaches.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agon.embedded import EMBEDDED, model_path
from agon.planning.architectures import MODELS, Architecture, architecture

ARM = Path(__file__).with_name("step_arm.py")
PHASES = ("sampling", "sync", "judging", "scoring", "forward", "backward", "optimizer", "rest")
TRAINING = ("scoring", "forward", "backward")


class Arm:
    """One trainer in a process of its own; it makes a step when `step` asks for one."""

    def __init__(self, name: str, arguments: argparse.Namespace, model: str, folder: Path) -> None:
        self.name, self.folder = name, name.replace(":", "-").replace("=", "-")
        read, write = os.pipe()
        options = {
            "arm": name,
            "model": model,
            "engine": arguments.engine,
            "checkpointing": arguments.checkpointing,
            "folder": str(folder / self.folder),
            "reports": write,
            "rollouts": arguments.rollouts,
            "rows": arguments.rows,
            "problems": arguments.problems,
            "cap": arguments.long or arguments.cap,
            "prompt": arguments.prompt,
            "threads": arguments.threads,
        }
        words = [f"--{key}={value}" for key, value in options.items()]
        words += [f"--task={arguments.task}"] if arguments.task else []
        words += [f"--task-path={arguments.task_path}"] if arguments.task_path else []
        words += ["--long"] if arguments.long else []
        self._log = (arguments.out / f"{self.folder}.log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, str(ARM), *words],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            pass_fds=[write],
            text=True,
        )
        os.close(write)
        self._reports = os.fdopen(read)

    def answer(self) -> dict[str, Any]:
        line = self._reports.readline()
        if not line:
            raise RuntimeError(f"The arm '{self.name}' ended: see {self._log.name}.")
        said: dict[str, Any] = json.loads(line)
        return said

    def step(self, profile: Path | None = None) -> dict[str, Any]:
        """One step; its profile, where that is asked for, goes to a file."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{profile or 'step'}\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._log.close()


def measure(arguments: argparse.Namespace, model: str, folder: Path, facts: Mapping[str, Any]) -> None:
    """All arms in turns; every step goes to the file as it ends."""
    until = time.monotonic() + arguments.seconds if arguments.seconds else None
    arms: list[Arm] = []
    with (arguments.out / "step.jsonl").open("a") as file:

        def keep(values: Mapping[str, Any]) -> None:
            file.write(json.dumps({**facts, **values}) + "\n")
            file.flush()
            print(json.dumps(values), flush=True)

        def drop(arm: Arm, error: RuntimeError) -> None:  # the others are still worth measuring
            keep({"arm": arm.name, "failed": str(error)})
            arms.remove(arm)

        try:
            # One after another, since engines measure what memory is free; or the first, then all others at once.
            first, others = arguments.methods[:1], arguments.methods[1:]
            batches = [first, others] if arguments.together else [[name] for name in arguments.methods]
            for batch in batches:
                began = time.perf_counter()
                started = [Arm(name, arguments, model, folder) for name in batch]
                arms += started
                ready = {}
                for arm in started:
                    try:
                        arm.answer()
                        ready[arm] = time.perf_counter() - began
                    except RuntimeError as error:
                        drop(arm, error)
                for arm, seconds in ready.items():
                    try:
                        step = arm.step()
                    except RuntimeError as error:
                        drop(arm, error)
                        continue
                    taken = seconds + step["wall"] if len(batch) == 1 else 0.0
                    keep({"arm": arm.name, "first_step": taken, "ready": seconds, **step})
            for _ in range(arguments.repeats):
                if until and time.monotonic() > until:
                    break
                for arm in list(arms):
                    try:
                        keep({"arm": arm.name, **arm.step()})
                    except RuntimeError as error:
                        drop(arm, error)
            for arm in arms if arguments.profile else ():
                arm.step(arguments.out.resolve() / f"{arm.folder}.profile.txt")
        finally:
            for arm in arms:
                arm.close()


def dense_rate() -> float:
    """Operations a second of a large matrix product, in the precision that training computes in."""
    import torch

    gpu = torch.cuda.is_available()
    size, device, dtype = (8192, "cuda", torch.bfloat16) if gpu else (1024, "cpu", torch.float32)
    left = torch.randn(size, size, device=device, dtype=dtype)
    took = []
    for _ in range(12):
        began = time.perf_counter()
        left @ left
        if gpu:
            torch.cuda.synchronize()
        took.append(time.perf_counter() - began)
    return 2 * size**3 / statistics.median(took[2:])


def operations(model: Architecture, step: Mapping[str, Any]) -> float:
    """Useful arithmetic of a step: 2 operations a parameter to score a token, 4 to train on it (the base has no
    weight gradients), and attention over half of a row's mean length, forward and twice in backward."""
    tokens = step["tokens"]
    rows = max(1, step["rows"])
    length = (tokens.get("trained", 0) or tokens.get("scored", 0)) / rows
    attention = 2 * model.full_layers * model.heads * model.head_dim * length
    trained, scored = tokens.get("trained", 0), tokens.get("scored", 0)
    return float(trained * (4 * model.active + 3 * attention) + scored * (2 * model.active + attention))


def summary(lines: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """The medians of each arm, by the order in which the arms were measured."""
    found: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(line["arm"] for line in lines):
        first = [line for line in lines if line["arm"] == name and "first_step" in line]
        steps = [
            line for line in lines if line["arm"] == name and "wall" in line and "first_step" not in line
        ]
        if not steps:
            continue
        shape = steps[0]["shape"]  # by name in older files
        model = architecture(model_path(shape)) if isinstance(shape, str) else Architecture(**shape)

        def middle(values: Sequence[float]) -> float:
            return statistics.median(values)

        training = [sum(step["phases"].get(phase, 0.0) for phase in TRAINING) for step in steps]
        found[name] = {
            "steps": len(steps),
            "wall, s": middle([step["wall"] for step in steps]),
            "cpu, s": middle([step["cpu"] for step in steps]),
            **{f"{phase}, s": middle([step["phases"].get(phase, 0.0) for step in steps]) for phase in PHASES},
            "sampled tokens": middle([step["tokens"].get("sampled", 0) for step in steps]),
            "trained tokens": middle([step["tokens"].get("trained", 0) for step in steps]),
            "sampled tokens/s": middle(
                [
                    step["tokens"].get("sampled", 0) / max(1e-9, step["phases"].get("sampling", 0.0))
                    for step in steps
                ]
            ),
            "trained tokens/s": middle(
                [
                    step["tokens"].get("trained", 0) / max(1e-9, seconds)
                    for step, seconds in zip(steps, training, strict=True)
                ]
            ),
            "share of the dense rate": middle(
                [
                    operations(model, step) / max(1e-9, seconds) / step["dense"]
                    for step, seconds in zip(steps, training, strict=True)
                ]
            ),
            "peak, GB": max(step["peak_gb"] for step in steps),
            "first step, s": middle([line["first_step"] for line in first]) if first else 0.0,
        }
    return found


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Medians side by side, and each arm's ratio to the first."""
    found = summary(lines)
    if not found:
        return "Nothing was measured."
    names = list(found)
    base = found[names[0]]
    heads = [names[0], *(f"{name} | over {names[0]}" for name in names[1:])]
    rows = [f"| median of a step | {' | '.join(heads)} |", "| --- |" + " ---: |" * (2 * len(names) - 1)]
    for what in base:
        cells = [f"{base[what]:.4g}"]
        for name in names[1:]:
            ratio = f"{found[name][what] / base[what]:.2f}" if base[what] else ""
            cells += [f"{found[name][what]:.4g}", ratio]
        rows.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(rows)


def curve(lines: Sequence[Mapping[str, Any]]) -> str:
    """What steps of several sizes cost: a line for every model, size and arm of a file."""
    sizes: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for line in lines:
        each = line["rows"] // line["problems"]
        sizes.setdefault((line["model"], line["problems"], each, line["cap"]), []).append(line)
    shown = {
        "step, s": "wall, s",
        "trained tokens": "trained tokens",
        "trained tokens/s": "trained tokens/s",
        "share": "share of the dense rate",
        "peak, GB": "peak, GB",
    }
    rows = [f"| model | problems | rollouts | cap | arm | {' | '.join(shown)} |"]
    rows.append("| --- | ---: | ---: | ---: | --- |" + " ---: |" * len(shown))
    for size, steps in sizes.items():
        for arm, found in summary(steps).items():
            cells = [f"{found[what]:.4g}" for what in shown.values()]
            rows.append(f"| {' | '.join(map(str, size))} | {arm} | {' | '.join(cells)} |")
    return "\n".join(rows)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, metavar="FILE", help="only print the table of a file of lines")
    parser.add_argument(
        "--curve", type=Path, metavar="FILE", help="only print what steps of several sizes cost"
    )
    parser.add_argument(
        "--model", default=EMBEDDED, help="embedded, a folder, or a model of the plan's table"
    )
    parser.add_argument("--engine", default="transformers", choices=["transformers", "vllm"])
    parser.add_argument("--task", help="as `agon train --task`; the embedded base's own if unset")
    parser.add_argument("--task-path", help="where the task is read from")
    parser.add_argument(
        "--methods", nargs="+", default=["trl", "grpo", "agon"], help="trl, or METHOD[:KEY=VALUE,…]"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--together",
        action="store_true",
        help="all arms but the first start at once: sooner, but without their time to the first step",
    )
    parser.add_argument("--seconds", type=float, help="no further round of steps after so many")
    parser.add_argument(
        "--profile", action="store_true", help="a last step of each arm under torch's profiler"
    )
    parser.add_argument("--checkpointing", default="off", choices=["on", "off"])
    parser.add_argument(
        "--long", type=int, metavar="TOKENS", help="made-up completions of up to so many tokens"
    )
    parser.add_argument("--problems", type=int, help="of a step (16 embedded, 32 otherwise, 4 with --long)")
    parser.add_argument("--rollouts", type=int, default=16, help="of a problem: 2N")
    parser.add_argument(
        "--rows", type=int, help="of a micro-batch (128 embedded, 32 otherwise, 2 with --long)"
    )
    parser.add_argument("--cap", type=int, help="most tokens of a completion (64 embedded, 512 otherwise)")
    parser.add_argument("--prompt", type=int, default=1536, help="most tokens of a prompt, for vLLM")
    parser.add_argument("--threads", type=int, default=None, help="of torch (1 embedded)")
    arguments = parser.parse_args()
    if arguments.table is None and arguments.curve is None and arguments.out is None:
        parser.error("give --out")
    small = arguments.model == EMBEDDED
    arguments.problems = arguments.problems or (4 if arguments.long else 16 if small else 32)
    arguments.rows = arguments.rows or (2 if arguments.long else 128 if small else 32)
    arguments.cap = arguments.cap or (64 if small else 512)
    arguments.threads = arguments.threads if arguments.threads is not None else (1 if small else 0)
    return arguments


def main() -> None:
    arguments = parse()
    for file, draw in ((arguments.table, table), (arguments.curve, curve)):
        if file is not None:
            print(draw([json.loads(line) for line in file.read_text().splitlines()]))
            return
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        model = arguments.model
        if model in MODELS:
            model = _random_base(
                model, Path(scratch) / "model", arguments.prompt + (arguments.long or arguments.cap)
            )
        facts = {
            "model": Path(arguments.model).name,
            "shape": asdict(architecture(model_path(arguments.model))),
            "engine": "made up" if arguments.long else arguments.engine,
            "cap": arguments.long or arguments.cap,
            "problems": arguments.problems,
            "rows": arguments.problems * arguments.rollouts,
            "micro_batch": arguments.rows,
            "checkpointing": arguments.checkpointing,
            "dense": dense_rate(),
        }
        measure(arguments, model, Path(scratch), facts)
    lines = [json.loads(line) for line in (arguments.out / "step.jsonl").read_text().splitlines()]
    shown = table([line for line in lines if all(line[key] == facts[key] for key in facts if key != "dense")])
    (arguments.out / "step.md").write_text(shown + "\n")
    print("\n" + shown)


def _random_base(model: str, folder: Path, longest: int) -> str:
    """A model of the plan's table with random weights in its real shapes."""
    import torch

    from agon.lab.rehearsal.model import make_random_base

    gpu = torch.cuda.is_available()
    dtype = torch.bfloat16 if gpu else torch.float32
    return str(make_random_base(model, folder, dtype, "cuda" if gpu else "cpu", longest).folder)


if __name__ == "__main__":
    main()
