"""Train and evaluate the cells of the comparison in comparison.yaml, several at a time on one GPU.

    python scripts/gpu/cells.py run --cells controls grpo:0:3e-4 coop:0:3e-4 agon:0:3e-4 --parallel 4
    python scripts/gpu/cells.py watch --cells controls grpo:0:3e-4 coop:0:3e-4 agon:0:3e-4 --out packed

A cell is METHOD:SEED:RATE, or `controls` for the untrained model; `key=value` after another colon changes an option.
Its stages are `agon train` with the recipe, and `agon eval` on the test problems of GSM8K and on MATH-500; `--stages
train validation` instead is for choosing a learning rate. `run` starts whatever is not finished and can be left in the
background. `watch` prints the state of the cells, until all are done or the time is up, and then packs every run
without its weights into OUT/NAME.tgz. Unpacked under runs/ on another machine, a packed cell that is finished stays
finished, so a comparison may be spread over several machines.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from agon.errors import InputError
from agon.lab.cells import DONE, FAILED, Cell, pack, progress, read_comparison, read_state, run_cells
from agon.runs.folder import STAGES

ROOT = Path(__file__).parents[2]
RECIPE = "scripts/gpu/comparison.yaml"
TRANSFER = "math-500"
# Several cells share the GPU, so vLLM's cache is given in bytes and not as a share of the memory.
EVAL_OPTIONS = ("--engine", "vllm", "--vllm-kv-cache-bytes", "5000000000", "--json")


def watch(cells: Sequence[Cell], runs: Path, out: Path, seconds: float, every: float) -> bool:
    """Print the state of the cells until all have ended or the time is up, pack them, and say whether all are done."""
    deadline = time.time() + seconds
    while True:
        print(time.strftime("%H:%M:%S"), gpu_use(), flush=True)
        for cell in cells:
            print(f"  {cell.name:<16} {progress(cell, runs)}", flush=True)
        states = [read_state(cell, runs) for cell in cells]
        if all(state.startswith((DONE, FAILED)) for state in states) or time.time() + every > deadline:
            break
        time.sleep(every)
    for cell in cells:
        pack(cell, runs, out)
    return all(state == DONE for state in states)


def gpu_use() -> str:
    """How busy the GPU is and how much of its memory is in use; empty without nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("run", "watch"))
    parser.add_argument("--cells", nargs="+", required=True, metavar="METHOD:SEED:RATE", help="or `controls`")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs")
    parser.add_argument(
        "--stages", nargs="+", default=["train", "test"], choices=STAGES, help="run: which stages"
    )
    parser.add_argument("--samples", type=int, default=4, help="run: samples per problem of GSM8K")
    parser.add_argument("--parallel", type=int, default=4, help="run: cells at a time")
    parser.add_argument("--stagger", type=float, default=5, help="run: seconds between two starts")
    parser.add_argument("--seconds", type=float, default=570, help="watch: longest time")
    parser.add_argument("--every", type=float, default=45, help="watch: seconds between two reports")
    parser.add_argument("--out", type=Path, default=Path("packed"), help="watch: folder for the packed runs")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    try:
        cells = [Cell(text) for text in arguments.cells]
        if arguments.action == "watch":
            done = watch(cells, arguments.runs, arguments.out, arguments.seconds, arguments.every)
            return 0 if done else 1
        comparison = read_comparison(RECIPE, TRANSFER, arguments.samples, EVAL_OPTIONS)
        run_cells(comparison, cells, arguments.runs, arguments.stages, arguments.parallel, arguments.stagger)
    except InputError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
