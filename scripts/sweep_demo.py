"""Choose the demo's learning rate and batch size on validation: every pair of values, a few seeds each.

    python scripts/sweep_demo.py --rates 1e-3 2e-3 4e-3 --problems 16 --seeds 0 1 --out /tmp/sweep

Each row is a whole `agon train` of the embedded default, measured on validation problems at the
evaluation temperature. Prints one JSON line per run, then the settings in order of their worst seed: a demo
must not fail for anyone.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from agon.runs.folder import Run

AGON = Path(sys.executable).with_name("agon")
GENERATIONS = 16  # 2N rollouts per problem


def train(folder: Path, rate: float, problems: int, seed: int, steps: int) -> dict[str, Any]:
    """One run of the default recipe with these values, and its validation rates."""
    options = {
        "learning_rate": rate,
        "per_device_train_batch_size": problems * GENERATIONS // 2,
        "max_steps": steps,
        "seed": seed,
        "eval_strategy": "steps",
        "eval_steps": steps,
        "validation_size": 200,
        "output_dir": folder,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    started = time.monotonic()
    subprocess.run([AGON, "train", *words], check=True, stdout=subprocess.DEVNULL)
    last = [line for line in Run(folder).read_metrics() if "eval_best" in line][-1]
    rates = {name: round(last[f"eval_{name}/correct"], 3) for name in ("A", "B", "A->B", "B->A")}
    return {
        "rate": rate,
        "problems": problems,
        "steps": steps,
        "seed": seed,
        "seconds": round(time.monotonic() - started),
        **rates,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-3, 2e-3, 4e-3])
    parser.add_argument("--problems", type=int, nargs="+", default=[16], help="problems per step")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    args = parser.parse_args()
    worst: dict[tuple[float, int], float] = defaultdict(lambda: 1.0)
    for rate in args.rates:
        for problems in args.problems:
            for seed in args.seeds:
                folder = args.out / f"rate{rate:g}-problems{problems}-seed{seed}"
                row = train(folder, rate, problems, seed, args.steps)
                print(json.dumps(row), flush=True)
                worst[rate, problems] = min(worst[rate, problems], row["A->B"], row["B->A"])
    for (rate, problems), value in sorted(worst.items(), key=lambda item: -item[1]):
        print(f"rate {rate:g}, {problems} problems per step: worst direction of the worst seed {value:.3f}")


if __name__ == "__main__":
    main()
