"""The copying trap: a two-action model of what a challenger learns, under `coop` and under `agon`.

    python scripts/copying_trap.py               # the map: accuracy after training, by p, q and how fast skill grows
    python scripts/copying_trap.py calibrated    # easy and hard problems, rates as on Qwen2.5-Coder-0.5B, over steps

After reading a draft (right with probability p) the challenger either copies it (right if the draft is) or works the
problem out (right with q). The choice and the skill q are both learned with GRPO's standardised advantages from groups
of N. Static thresholds: `coop` prefers working it out if q > p; `agon` if q > 2p / (3 - p). Whether training escapes
depends on how fast skill grows against how fast the choice moves. It is a source of predictions, not of evidence.
"""

import sys

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SKILL_RATES = (0.0, 0.012, 0.024, 0.048, 0.096)
STARTS = (0.3, 0.4, 0.5, 0.55, 0.7)


def sigmoid(x: Array | float) -> Array:
    return np.asarray(1 / (1 + np.exp(-np.asarray(x))))


def logit(p: Array | float) -> Array:
    return np.asarray(np.log(np.asarray(p) / (1 - np.asarray(p))))


def advantages(reward: Array) -> Array:
    """Standardised within each row; a row without variance has none."""
    spread = reward.std(1, ddof=1, keepdims=True)
    centred = reward - reward.mean(1, keepdims=True)
    return np.where(spread > 1e-9, centred / (spread + 1e-4), 0)


def train(
    bonus: float, p: float, q: float, skill_rate: float, seed: int, steps: int = 400, groups: int = 32
) -> float:
    """Accuracy after training, for drafts that are right with p."""
    rng, size, rate = np.random.default_rng(seed), (groups, 8), 0.4
    choice, skill = logit(0.5), logit(q)
    for _ in range(steps):
        w, able = sigmoid(choice), sigmoid(skill)
        draft, work, solved = rng.random(size) < p, rng.random(size) < w, rng.random(size) < able
        right = np.where(work, solved, draft)
        value = advantages(2.0 * right + bonus * right * ~draft)
        choice = choice + rate * (value * (work - w)).mean()
        skill = skill + skill_rate * (value * work * (solved - able)).mean()
    w, able = sigmoid(choice), sigmoid(skill)
    return float(w * able + (1 - w) * p)


def calibrated(bonus: float, skill_rate: float, seed: int, steps: int = 256, every: int = 16) -> Array:
    """35% easy problems (drafts right 70%, working it out 66%), the rest hard (9%, 8%); skill grows on both."""
    rng, groups, rate = np.random.default_rng(seed), 32, 0.4
    share, drafts, skill = 0.35, (0.70, 0.09), logit(np.array([0.66, 0.08]))
    choice, history = logit(0.6), []
    for step in range(steps):
        w, easy = sigmoid(choice), rng.random((groups, 1)) < share
        able = sigmoid(np.where(easy, skill[0], skill[1]))
        draft = rng.random((groups, 8)) < np.where(easy, *drafts)
        work, solved = rng.random((groups, 8)) < w, rng.random((groups, 8)) < able
        right = np.where(work, solved, draft)
        value = advantages(2.0 * right + bonus * right * ~draft)
        choice = choice + rate * (value * (work - w)).mean()
        skill = skill + skill_rate * (value * work * (solved - able)).mean()
        if (step + 1) % every == 0:
            now = sigmoid(skill)
            alone = share * now[0] + (1 - share) * now[1]
            copied = share * drafts[0] + (1 - share) * drafts[1]
            history.append(float(w * alone + (1 - w) * copied))
    return np.array(history)


def main() -> None:
    if sys.argv[1:] == ["calibrated"]:
        print("| skill rate | method | 16 steps | 32 | 64 | 128 | 256 |")
        print("| --- | --- |" + " ---: |" * 5)
        for skill_rate in (0.0, 0.05, 0.1, 0.2, 0.4):
            for name, bonus in (("coop", 0.0), ("agon", 1.0)):
                mean = np.mean([calibrated(bonus, skill_rate, seed) for seed in range(12)], 0)
                cells = " | ".join(f"{100 * mean[at]:.1f}" for at in (0, 1, 3, 7, 15))
                print(f"| {skill_rate} | `{name}` | {cells} |", flush=True)
        return
    for p in (0.5, 0.6, 0.8):
        print(f"\np = {p}: coop works it out if q > {p:.2f}, agon if q > {2 * p / (3 - p):.2f}\n")
        print("| skill rate | " + " | ".join(f"q = {q:.2f}: coop, agon" for q in STARTS) + " |")
        print("| --- |" + " ---: |" * len(STARTS))
        for skill_rate in SKILL_RATES:
            row = []
            for q in STARTS:
                pair = [
                    np.mean([train(bonus, p, q, skill_rate, seed) for seed in range(6)])
                    for bonus in (0.0, 1.0)
                ]
                row.append("{:.0f}, {:.0f}".format(*(100 * np.array(pair))))
            print(f"| {skill_rate} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
