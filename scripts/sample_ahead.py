"""What a round of staleness costs: the embedded default with and without `sample_ahead`, over seeds.

    python scripts/sample_ahead.py --out OUT
    python scripts/sample_ahead.py --out OUT --methods agon grpo --seeds 0 1 2 3 4 5 6 7

Each run is the whole embedded default (`--option max_steps=10` changes an option of `agon train` for all of them). Its
accuracy is that of the finished policies on test problems at the evaluation's temperature: of the cascade, the mean of
its directions, and of the policies alone. Prints one row per run, then the means, their difference with the two runs of
a seed as a pair, and Student's 95% interval over the seeds. A run whose row is in OUT is not made again. The engine of
the embedded default samples in line, so this says nothing about time.
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy import stats
from transformers import PrinterCallback

from agon.embedded import default_recipe
from agon.evaluate.validate import validate
from agon.train.recipes import build_config, request_of
from agon.train.trainer import AgonTrainer

SIDES = (False, True)
MEASURES = ("cascade", "alone")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--methods", nargs="+", default=["agon"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--problems", type=int, default=500, help="test problems (default 500)")
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE of `agon train`")
    asked = parser.parse_args()
    options = dict(given.split("=", 1) for given in asked.option)
    rows = []
    for method in asked.methods:
        for seed in asked.seeds:
            for ahead in SIDES:
                rows.append(measured(asked.out, method, seed, ahead, asked.problems, options))
                print(json.dumps(rows[-1]), flush=True)
    print(table(rows))


def measured(
    out: Path, method: str, seed: int, ahead: bool, problems: int, options: Mapping[str, str]
) -> dict[str, Any]:
    """One run and what its policies reach."""
    name = f"{method}-s{seed}-{'ahead' if ahead else 'fresh'}"
    done = out / f"{name}.json"
    if done.exists():
        row: dict[str, Any] = json.loads(done.read_text())
        return row
    given = {"method": method, "seed": seed, "sample_ahead": ahead, "log_duels": False, **options}
    request = request_of(default_recipe(), {**given, "output_dir": str(out / name)})
    trainer = AgonTrainer(request.what.model, request.what.task, build_config(request.options))
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=True)
    rates = validate(
        trainer.arena,
        trainer.task.problems("test")[:problems],
        trainer.pair.names,
        trainer.method,
        trainer.args.eval_sampling,
        trainer._sync(),
        seed=seed,
    )
    stale = [line["staleness"] for line in trainer.run.read_metrics() if "staleness" in line]
    trainer.close()
    arms = {key.removesuffix("/correct"): rate for key, rate in rates.items() if key.endswith("/correct")}
    row = {
        "method": method,
        "seed": seed,
        "ahead": ahead,
        "steps": int(trainer.state.global_step),
        "staleness": fmean(stale) if stale else 0.0,
        "cascade": fmean(rate for arm, rate in arms.items() if "->" in arm),
        "alone": fmean(rate for arm, rate in arms.items() if "->" not in arm),
    }
    done.write_text(json.dumps(row))
    return row


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Means of both ways to sample and their difference, in percentage points."""
    lines = [
        "| method | measure | seeds | fresh | ahead | difference | 95% interval |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for method in dict.fromkeys(row["method"] for row in rows):
        for measure in MEASURES:
            fresh, ahead = (
                {
                    row["seed"]: 100 * row[measure]
                    for row in rows
                    if (row["method"], row["ahead"]) == (method, side)
                }
                for side in SIDES
            )
            apart = [ahead[seed] - fresh[seed] for seed in fresh]
            lines.append(
                f"| {method} | {measure} | {len(apart)} | {fmean(fresh.values()):.1f} | {fmean(ahead.values()):.1f} "
                f"| {fmean(apart):+.1f} | {interval(apart)} |"
            )
    return "\n".join(lines)


def interval(differences: Sequence[float]) -> str:
    if len(differences) < 2:
        return "needs two seeds"
    half = stats.t.ppf(0.975, len(differences) - 1) * stdev(differences) / math.sqrt(len(differences))
    mean = fmean(differences)
    return f"{mean - half:+.1f} to {mean + half:+.1f}"


if __name__ == "__main__":
    main()
