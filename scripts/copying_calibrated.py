"""What the copying trap's model predicts for Qwen2.5-Coder-0.5B on GSM8K: accuracy over steps, `coop` and `agon`.

    python scripts/copying_calibrated.py

As `agon.lab.worlds.copying_model`, with easy and hard problems: drafts right and working it out as often as measured on
that model, and skill that grows on both kinds at once. A source of predictions, not of evidence.
"""

import numpy as np

from agon.lab.worlds.copying_model import AGON, COOP, advantages, logit, share

EASY = 0.35  # of the problems
DRAFTS, SKILL, WORK = (0.70, 0.09), (0.66, 0.08), 0.6  # easy and hard
GROUPS, SIZE, RATE = 32, 8, 0.4
SHOWN = (16, 32, 64, 128, 256)


def accuracies(bonus: float, skill_rate: float, seed: int) -> list[float]:
    """Accuracy after each of the steps that are shown."""
    rng, shape = np.random.default_rng(seed), (GROUPS, SIZE)
    choice, skill = logit(WORK), np.array([logit(each) for each in SKILL])
    found = []
    for step in range(1, max(SHOWN) + 1):
        w, easy = share(choice), rng.random((GROUPS, 1)) < EASY
        able = np.where(easy, *(share(each) for each in skill))
        draft = rng.random(shape) < np.where(easy, *DRAFTS)
        work, solved = rng.random(shape) < w, rng.random(shape) < able
        right = np.where(work, solved, draft)
        advantage = advantages(2.0 * right + bonus * (right & ~draft))
        choice += RATE * float((advantage * (work - w)).mean())
        skill += skill_rate * float((advantage * work * (solved - able)).mean())
        if step in SHOWN:
            alone, copied = (
                EASY * easier + (1 - EASY) * harder
                for easier, harder in ((share(skill[0]), share(skill[1])), DRAFTS)
            )
            found.append(w * alone + (1 - w) * copied)
    return found


def main() -> None:
    print(f"| skill rate | method | {SHOWN[0]} steps | {' | '.join(map(str, SHOWN[1:]))} |")
    print("| --- | --- |" + " ---: |" * len(SHOWN))
    for skill_rate in (0.0, 0.05, 0.1, 0.2, 0.4):
        for name, bonus in (("coop", COOP), ("agon", AGON)):
            mean = np.mean([accuracies(bonus, skill_rate, seed) for seed in range(12)], axis=0)
            cells = " | ".join(f"{100 * accuracy:.1f}" for accuracy in mean)
            print(f"| {skill_rate} | `{name}` | {cells} |", flush=True)


if __name__ == "__main__":
    main()
