"""Train and evaluate the cells of a comparison, several side by side on one GPU, and bring back what they say.

    python scripts/gpu/cells.py run --cells controls grpo:0:3e-4 coop:0:3e-4 agon:0:3e-4 --side 4
    python scripts/gpu/cells.py watch --cells controls grpo:0:3e-4 coop:0:3e-4 agon:0:3e-4 --out OUT

A cell is METHOD:SEED:RATE, or `controls` for the untrained model. Its stages are `agon train` with
first_light.yaml, and `agon eval` on the test problems of GSM8K and on MATH-500, each in a process of its
own; `--stages train validation` instead is for choosing a learning rate. Logs lie beside the runs. `run`
starts whatever is not finished and can be left in the background; `watch` prints where the cells are and
packs every run without its weights into OUT/NAME.tgz. Unpacked under runs/ on another machine, a packed
cell that is finished stays finished, so a comparison may be spread over several.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RECIPE = "scripts/gpu/first_light.yaml"
TASK = "gsm8k,train=1024,validation=256,test=500"
MODEL = "models/qwen2.5-coder-0.5b-instruct"
ENGINE = ["--engine", "vllm", "--vllm-cache-gb", "5", "--json"]
STAGES = ("train", "validation", "test")
CELL = re.compile(r"controls|[a-z-]+:\d+:[\d.]+(?:e-?\d+)?(?::\w+=[^:]+)*")


@dataclass(frozen=True)
class Cell:
    """One run of the comparison: METHOD:SEED:RATE, where `key=value` after another colon changes an option."""

    text: str

    @property
    def name(self) -> str:
        method, *rest = self.text.split(":")
        if not rest:
            return method
        seed, rate, *changes = rest
        name = f"{method}-s{seed}-lr{float(rate):.0e}".replace("e-0", "e-")
        return "-".join([name, *(re.sub(r"[^\w.+-]", "", change) for change in changes)])

    def commands(self, folder: str, samples: int) -> Iterator[tuple[str, list[str]]]:
        """What `agon` is asked for at each stage."""
        method, *rest = self.text.split(":")
        tasks = ["--task", f"{TASK},math-500", "--path", "data", "--samples", f"{samples},1"]
        if not rest:
            yield "test", ["eval", MODEL, *tasks, "--output", folder, "--max-tokens", "512", *ENGINE]
            return
        seed, rate, *changes = rest
        words = [f"--{change.replace('=', ' ')}" for change in changes]
        options = (
            f"--method {method} --seed {seed} --learning_rate {rate} --output_dir {folder} {' '.join(words)}"
        )
        yield "train", ["train", RECIPE, *options.split()]
        evaluate = ["eval", folder, *ENGINE, "--no-controls"]
        yield "validation", [*evaluate, "--split", "validation", "--samples", str(samples)]
        yield "test", [*evaluate, *tasks]

    def times(self, runs: Path) -> dict[str, float]:
        """The stages that are finished and the seconds each took."""
        path = runs / self.name / "times.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def finished(self, runs: Path, stages: Collection[str]) -> bool:
        wanted = [stage for stage, _ in self.commands("", 1) if stage in stages]
        return set(wanted) <= self.times(runs).keys()


def run(arguments: argparse.Namespace) -> int:
    """Start the cells, so many at a time and a little apart."""
    runs = Path(arguments.runs)
    runs.mkdir(parents=True, exist_ok=True)
    waiting = [cell for cell in map(Cell, arguments.cells) if not cell.finished(runs, arguments.stages)]
    working: list[subprocess.Popen[bytes]] = []
    while waiting or working:
        working = [process for process in working if process.poll() is None]
        if waiting and len(working) < arguments.side:
            cell = waiting.pop(0)
            command = [sys.executable, __file__, "one", "--cells", cell.text, "--runs", str(runs)]
            command += ["--samples", str(arguments.samples), "--stages", *arguments.stages]
            with (runs / f"{cell.name}.log").open("ab") as log:
                working.append(subprocess.Popen(command, stdout=log, stderr=log))
            time.sleep(arguments.apart)
        time.sleep(1)
    return 0


def one(arguments: argparse.Namespace) -> int:
    """One cell, stage by stage, from the first that is not finished."""
    runs, cell = Path(arguments.runs), Cell(arguments.cells[0])
    state = runs / f"{cell.name}.state"
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"}
    for stage, command in cell.commands(str(runs / cell.name), arguments.samples):
        times = cell.times(runs)
        if stage in times or stage not in arguments.stages:
            continue
        if stage == "train" and (runs / cell.name / "config.yaml").exists():
            command = ["train", "--resume", str(runs / cell.name)]
        state.write_text(stage)
        started = time.time()
        with (runs / f"{cell.name}.{stage}.out").open("w") as out:
            done = subprocess.run(
                [sys.executable, "-m", "agon.cli", *command], env=environment, check=False, stdout=out
            )
        if done.returncode:
            state.write_text(f"failed in {stage}")
            return done.returncode
        times[stage] = round(time.time() - started, 1)
        (runs / cell.name / "times.json").write_text(json.dumps(times, indent=2))
    state.write_text("done")
    return 0


def watch(arguments: argparse.Namespace) -> int:
    """Print where the cells are until all are done or the time is up, then pack them."""
    runs, out = Path(arguments.runs), Path(arguments.out)
    cells = [Cell(text) for text in arguments.cells]
    ends = time.time() + arguments.seconds
    while True:
        states = {cell.name: where(cell, runs) for cell in cells}
        print(time.strftime("%H:%M:%S"), gpu(), flush=True)
        for name, state in states.items():
            print(f"  {name:<16} {state}", flush=True)
        over = [state.startswith(("done", "failed")) for state in states.values()]
        if all(over) or time.time() + arguments.every > ends:
            break
        time.sleep(arguments.every)
    out.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        pack(cell, runs, out)
    return 0 if all(state.startswith("done") for state in states.values()) else 1


def where(cell: Cell, runs: Path) -> str:
    path = runs / f"{cell.name}.state"
    state = path.read_text() if path.exists() else "waiting"
    metrics = runs / cell.name / "metrics.jsonl"
    steps = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    trained: list[dict[str, Any]] = [line for line in steps if "loss" in line][-4:]
    if not trained:
        return state
    last = trained[-1]
    right = [line.get("challenge/correct", line["draft/correct"]) for line in trained]
    return (
        f"{state}; step {last['step']}, {sum(right) / len(right):.1%} right, {last['time/step']:.1f} s a step, "
        f"{last['time/sampling']:.1f} s of it sampling; {last.get('memory/training', 0.0):.0f} GB"
    )


def pack(cell: Cell, runs: Path, out: Path) -> None:
    """A cell's run without its weights, its logs beside it."""

    def lean(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if member.name.endswith(".safetensors") else member

    with tarfile.open(out / f"{cell.name}.tgz", "w:gz") as archive:
        for path in sorted(runs.glob(f"{cell.name}*")):
            if path.name == cell.name or path.name.startswith(f"{cell.name}."):
                archive.add(path, arcname=path.name, filter=lean)


def gpu() -> str:
    asked = ["nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("verb", choices=("run", "watch", "one"))
    parser.add_argument("--cells", nargs="+", required=True, metavar="METHOD:SEED:RATE", help="or `controls`")
    parser.add_argument("--runs", default="runs", help="folder of the runs")
    parser.add_argument(
        "--stages", nargs="+", default=["train", "test"], choices=STAGES, help="run: what to do"
    )
    parser.add_argument("--samples", type=int, default=4, help="run: samples of a problem of GSM8K")
    parser.add_argument("--side", type=int, default=4, help="run: cells at a time")
    parser.add_argument("--apart", type=float, default=5, help="run: seconds between two starts")
    parser.add_argument("--seconds", type=float, default=570, help="watch: at most so long")
    parser.add_argument("--every", type=float, default=45, help="watch: seconds between two looks")
    parser.add_argument("--out", default="packed", help="watch: folder for the packed runs")
    arguments = parser.parse_args()
    for cell in arguments.cells:
        if not CELL.fullmatch(cell):
            parser.error(f"a cell is METHOD:SEED:RATE, such as grpo:0:3e-4, or controls; not '{cell}'")
    os.chdir(ROOT)
    return {"run": run, "watch": watch, "one": one}[arguments.verb](arguments)


if __name__ == "__main__":
    sys.exit(main())
