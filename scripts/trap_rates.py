"""Fit the two rates of the copying trap's model to trainings: how fast the choice moves, and how fast the skill.

    TASK=agon.lab.worlds.copying_trap:copying_trap,p=0.6,best=0.8,train=2400
    for q in 0.4 0.5 0.55; do
        python scripts/worlds.py --out rates-$q --worlds trap-inside --methods coop agon --first-seed 100 --seeds 2 \
            --keep --set log_duels=true task=$TASK,q=$q
    done
    python scripts/trap_rates.py rates-*/runs/*

Prints how often challengers worked their locks out in each 25 steps of a training, what the model says for the rates
that fit best, and the largest difference.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np

from agon.lab.worlds.catalogue import BEST, WORK, P
from agon.lab.worlds.copying_model import AGON, COOP, Trap, work_by_step
from agon.runs.folder import Run

SPAN, SPANS, SEEDS = 25, 4, 8
RATES = list(product((0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0), (0.25, 0.35, 0.5, 0.75, 1.0, 1.5)))


def shares(work: np.ndarray) -> np.ndarray:
    """Means over each span of steps."""
    means: np.ndarray = work[: SPAN * SPANS].reshape(SPANS, SPAN).mean(axis=1)
    return means


def observed(run: Run) -> tuple[float, float, np.ndarray]:
    """The run's q, its bonus, and the share of challenges that worked it out, by span."""
    works: dict[int, list[bool]] = {}
    for duel in run.duels():
        assert duel.challenge is not None
        works.setdefault(duel.step, []).append("<answer>tool" in duel.challenge.rollout.text)
    config = run.read_config()
    q = float(dict(pair.split("=") for pair in config["task"].split(",")[1:])["q"])
    by_step = np.array([np.mean(works[step]) for step in sorted(works)])
    return q, AGON if config["method"] == "agon" else COOP, shares(by_step)


def predicted(q: float, bonus: float, rate: float, skill_rate: float) -> np.ndarray:
    trap = Trap(
        p=P, q=q, best=BEST, rate=rate, skill_rate=skill_rate, work=WORK, steps=SPAN * SPANS, groups=16
    )
    means: np.ndarray = np.mean([shares(work_by_step(trap, bonus, seed)) for seed in range(SEEDS)], axis=0)
    return means


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+", help="run folders of a trap, with their duels")
    runs = [observed(Run(folder)) for folder in parser.parse_args().runs]

    def error(rates: tuple[float, float]) -> float:
        return sum(float(((predicted(q, bonus, *rates) - found) ** 2).sum()) for q, bonus, found in runs)

    best = min(RATES, key=error)
    print(f"choice {best[0]:g}, skill {best[1]:g}\n\n| q | method | work, by 25 steps | the model |")
    print("| ---: | --- | --- | --- |")
    worst = 0.0
    for q, bonus, found in runs:
        said = predicted(q, bonus, *best)
        worst = max(worst, float(np.abs(said - found).max()))
        name = "agon" if bonus else "coop"
        print(
            f"| {q:g} | {name} | {' '.join(f'{x:.2f}' for x in found)} | {' '.join(f'{x:.2f}' for x in said)} |"
        )
    print(f"\nlargest difference: {worst:.2f}")


if __name__ == "__main__":
    main()
