"""Train and evaluate the cells of a comparison, several side by side on one GPU, and bring back what they say.

    python scripts/gpu/cells.py run --cells controls grpo:0:1e-4 coop:0:1e-4 agon:0:1e-4 --side 4
    python scripts/gpu/cells.py watch --seconds 570 --out OUT

A cell is METHOD:SEED:RATE, or `controls` for the untrained model. Each is `agon train` with
first_light.yaml, then `agon eval` on GSM8K (test, and validation where there is a direction to choose)
and on MATH-500, in processes of their own; logs lie beside the runs. `run` starts whatever is not
finished yet and can be left in the background; `watch` prints where the cells are and packs every run
without its weights into OUT/NAME.tgz. Unpacked under runs/ elsewhere, a packed cell counts as done, so
a comparison may be spread over several machines.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RECIPE = HERE / "first_light.yaml"
TASK = "gsm8k,train=1024,validation=128,test=500"
MODEL = "models/qwen2.5-coder-0.5b-instruct"
CACHE_GB = "5"
# What is never brought back: weights, and copies of what the packed files say.
LEFT = ("adapters/A/adapter_model.safetensors", "adapters/B/adapter_model.safetensors", "checkpoints")


@dataclass(frozen=True)
class Cell:
    """One run of the comparison and the commands it takes."""

    method: str
    seed: int = 0
    rate: float = 0.0
    steps: int = 0

    @staticmethod
    def parse(text: str, steps: int = 0) -> "Cell":
        if text == "controls":
            return Cell("controls")
        method, seed, rate = text.split(":")
        return Cell(method, int(seed), float(rate), steps)

    @property
    def name(self) -> str:
        if self.method == "controls":
            return self.method
        short = f"-{self.steps}steps" if self.steps else ""
        return f"{self.method}-s{self.seed}-lr{self.rate:.0e}{short}".replace("e-0", "e-")

    def commands(self, folder: Path, samples: int, splits: Sequence[str]) -> list[list[str]]:
        shared = ["--engine", "vllm", "--vllm-cache-gb", CACHE_GB, "--json"]
        tasks = ["--task", f"{TASK},math-500", "--path", "data", "--samples", f"{samples},1"]
        if self.method == "controls":
            place = ["--output", str(folder), "--max-tokens", "512", "--max-model-len", "2048"]
            return [["eval", MODEL, *tasks, *place, *shared]]
        train = ["train", str(RECIPE), "--method", self.method, "--seed", str(self.seed)]
        train += ["--learning_rate", str(self.rate), "--output_dir", str(folder)]
        if self.steps:
            return [[*train, "--max_steps", str(self.steps)]]
        asked = [*shared, "--no-controls"]
        own = [["eval", str(folder), "--split", split, "--samples", str(samples), *asked] for split in splits]
        return [train, *own, ["eval", str(folder), *tasks, *asked]]

    def state(self, runs: Path) -> str:
        folder = runs / self.name
        if (folder / "done").exists():
            return "done"
        return (
            (folder.with_suffix(".state")).read_text() if folder.with_suffix(".state").exists() else "waiting"
        )


def run(arguments: argparse.Namespace) -> int:
    """Start the cells, `side` at a time, a little apart: the first one compiles for all."""
    runs = Path(arguments.runs)
    runs.mkdir(parents=True, exist_ok=True)
    cells = [Cell.parse(text, arguments.steps) for text in arguments.cells]
    waiting = [cell for cell in cells if cell.state(runs) != "done"]
    working: list[subprocess.Popen[bytes]] = []
    while waiting or working:
        working = [process for process in working if process.poll() is None]
        if waiting and len(working) < arguments.side:
            cell = waiting.pop(0)
            log = (runs / f"{cell.name}.log").open("ab")
            command = [
                sys.executable,
                __file__,
                "one",
                arguments.cells[cells.index(cell)],
                "--runs",
                str(runs),
            ]
            command += ["--samples", str(arguments.samples), "--steps", str(arguments.steps)]
            working.append(subprocess.Popen(command, stdout=log, stderr=log))
            time.sleep(arguments.apart)
        time.sleep(1)
    return 0


def one(arguments: argparse.Namespace) -> int:
    """One cell, command by command."""
    runs = Path(arguments.runs)
    cell = Cell.parse(arguments.cell, arguments.steps)
    folder = runs / cell.name
    # Only grpo's learning rate is chosen, on validation; for the pairs `agon eval` plays that split itself.
    splits = ["validation"] if cell.method == "grpo" else []
    times: dict[str, float] = {}
    for number, command in enumerate(cell.commands(folder, arguments.samples, splits)):
        what = " ".join(command[:1] + [word for word in command if word in ("validation",)])
        folder.with_suffix(".state").write_text(what)
        started = time.time()
        environment = {**os.environ, "OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"}
        done = subprocess.run(
            [sys.executable, "-m", "agon.cli", *command],
            env=environment,
            check=False,
            stdout=(runs / f"{cell.name}.{number}.out").open("w"),
        )
        times[what] = round(time.time() - started, 1)
        if done.returncode:
            folder.with_suffix(".state").write_text(f"failed: {what}")
            return done.returncode
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "times.json").write_text(json.dumps(times, indent=2))
    (folder / "done").touch()
    return 0


def watch(arguments: argparse.Namespace) -> int:
    """Print where the cells are until all are done or the time is up, then pack them."""
    runs, out = Path(arguments.runs), Path(arguments.out)
    cells = [Cell.parse(text, arguments.steps) for text in arguments.cells]
    ends = time.time() + arguments.seconds
    while True:
        states = {cell.name: where(cell, runs) for cell in cells}
        print(time.strftime("%H:%M:%S"), gpu(), flush=True)
        for name, state in states.items():
            print(f"  {name:<24} {state}", flush=True)
        over = [state.startswith(("done", "failed")) for state in states.values()]
        if all(over) or time.time() + arguments.every > ends:
            break
        time.sleep(arguments.every)
    out.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        pack(cell, runs, out)
    return 0 if all(state.startswith("done") for state in states.values()) else 1


def where(cell: Cell, runs: Path) -> str:
    state = cell.state(runs)
    last = _last(runs / cell.name / "metrics.jsonl")
    if last and state != "done":
        seconds = last.get("time/step", 0.0)
        right = last.get("challenge/correct", last.get("draft/correct", 0.0))
        state += f", step {last['step']}, {right:.0%} right, {seconds:.1f} s a step"
        state += f" ({last.get('time/sampling', 0.0):.1f} s sampling)"
    return state


def pack(cell: Cell, runs: Path, out: Path) -> None:
    """A cell's run without its weights, its logs beside it."""
    folder = runs / cell.name
    with tarfile.open(out / f"{cell.name}.tgz", "w:gz") as archive:
        if folder.exists():
            archive.add(folder, arcname=cell.name, filter=_lean)
        for log in sorted(runs.glob(f"{cell.name}.*")):
            archive.add(log, arcname=log.name)


def _lean(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if member.name.split("/", 1)[-1].startswith(LEFT) else member


def _last(path: Path) -> dict[str, Any] | None:
    lines = path.read_text().splitlines() if path.exists() else []
    trained = [line for line in lines[-3:] if '"loss"' in line]
    return dict(json.loads(trained[-1])) if trained else None


def gpu() -> str:
    asked = ["nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    for name, verb in (("run", run), ("watch", watch), ("one", one)):
        each = verbs.add_parser(name)
        each.set_defaults(verb=verb)
        each.add_argument("--runs", default="runs", help="folder of the runs")
        each.add_argument(
            "--steps", type=int, default=0, help="train this many steps only, and do not evaluate"
        )
        if name == "one":
            each.add_argument("cell")
        else:
            each.add_argument("--cells", nargs="+", required=True, help="METHOD:SEED:RATE, or controls")
        if name == "watch":
            each.add_argument("--seconds", type=float, default=570)
            each.add_argument("--every", type=float, default=45)
            each.add_argument("--out", required=True)
        else:
            each.add_argument("--samples", type=int, default=4, help="samples of a test problem of GSM8K")
        if name == "run":
            each.add_argument("--apart", type=float, default=12, help="seconds between two starts")
            each.add_argument("--side", type=int, default=4, help="cells that run at a time")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    return int(arguments.verb(arguments))


if __name__ == "__main__":
    sys.exit(main())
