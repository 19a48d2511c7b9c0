"""Fit the two rates of the copying trap's model to trainings: how fast the choice moves, and how fast the skill.

    TASK=agon.lab.worlds.copying_trap:copying_trap,p=0.6,best=0.8,train=1920
    for q in 0.4 0.5; do
        python scripts/worlds.py --out rates-$q --worlds trap-inside --methods coop agon --first-seed 100 --seeds 1 \
            --keep --set log_duels=true task=$TASK,q=$q
    done
    python scripts/trap_rates.py rates-*/runs/*

Prints how often challengers worked their locks out in each 25 steps of a training and how often with the best tool,
what the model says of both for the rates that fit best, and the largest difference. The first follows the choice, the
second the skill.
"""

import argparse
import re
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from agon.lab.worlds.catalogue import BEST, WORK, P
from agon.lab.worlds.copying_model import AGON, COOP, Trap, trained_steps
from agon.lab.worlds.copying_trap import BEST as BEST_TOOL
from agon.lab.worlds.copying_trap import chance
from agon.runs.folder import Run

SPAN, SPANS, SEEDS = 25, 4, 8
RATES = list(product((0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0), (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)))
TOOL = re.compile(r"<answer>tool (.)</answer>")


def shares(work: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Of steps: in each span the share that was worked out and, of what was, the share with the best tool."""
    spans = [slice(start, start + SPAN) for start in range(0, SPAN * SPANS, SPAN)]
    return np.array([[work[span].mean(), best[span].sum() / work[span].sum()] for span in spans]).T


def observed(run: Run) -> tuple[float, float, np.ndarray]:
    """The run's q, its bonus, and the shares of its challenges."""
    tools: dict[int, list[str]] = {}
    for duel in run.duels():
        assert duel.challenge is not None
        named = TOOL.search(duel.challenge.rollout.text)
        tools.setdefault(duel.step, []).append(named[1] if named else "")
    config = run.read_config()
    q = float(dict(pair.split("=") for pair in config["task"].split(",")[1:])["q"])
    steps = [np.array(tools[step]) for step in sorted(tools)]
    work, best = (np.array([np.mean(step == x) for step in steps]) for x in ("", BEST_TOOL))
    return q, AGON if config["method"] == "agon" else COOP, shares(1 - work, best)


@cache
def predicted(q: float, bonus: float, rate: float, skill_rate: float) -> np.ndarray:
    """What the model says of the same shares, the mean over its seeds."""
    trap = Trap(
        p=P, q=q, best=BEST, rate=rate, skill_rate=skill_rate, work=WORK, steps=SPAN * SPANS, groups=16
    )
    # Of tools with the mean success `skill`, the share of the best: the others have one chance in common.
    others = chance("", q, BEST)
    found = []
    for seed in range(SEEDS):
        work, skill = np.array(list(trained_steps(trap, bonus, seed))[:-1]).T
        found.append(shares(work, work * (skill - others) / (BEST - others)))
    means: np.ndarray = np.mean(found, axis=0)
    return means


def written(series: np.ndarray) -> str:
    return " ".join(f"{x:.2f}" for x in series)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+", help="run folders of a trap, with their duels")
    runs = [observed(Run(folder)) for folder in parser.parse_args().runs]

    def error(rates: tuple[float, float]) -> float:
        return sum(float(np.nansum((predicted(q, bonus, *rates) - found) ** 2)) for q, bonus, found in runs)

    best = min(RATES, key=error)
    print(f"choice {best[0]:g}, skill {best[1]:g}\n")
    print("| q | method | tool, by 25 steps | the model | of these the best | the model |")
    print("| ---: | --- | --- | --- | --- | --- |")
    worst = 0.0
    for q, bonus, found in runs:
        said = predicted(q, bonus, *best)
        worst = max(worst, float(np.nanmax(np.abs(said - found))))
        cells = [written(series) for row in zip(found, said, strict=True) for series in row]
        print(f"| {q:g} | {'agon' if bonus else 'coop'} | {' | '.join(cells)} |")
    print(f"\nlargest difference: {worst:.2f}")


if __name__ == "__main__":
    main()
