"""The copying trap as a model of two actions: what a challenger learns under cooperation and under competition.

After reading a draft (right with probability p) the challenger copies it (right if the draft is) or works the problem
out (right with q). The choice and the skill are a logit each, learned with GRPO's standardised advantages from groups
of N, with rates of their own. Expected rewards, format aside:

    copy: 2p under either reward        work: 2q (coop), 2q + bonus · q(1 - p) (agon: bonus 1)

so working it out pays from q > p under cooperation and already from q > 2p / (3 - p) under competition. Where skill
grows with practice, and practice needs the choice, a challenger in between stays caught in copying under cooperation
and escapes under competition. How wide that band is depends on how fast skill grows against how fast the choice moves:

    python -m agon.lab.worlds.copying_model            # the map
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agon.printing import say

COOP, AGON = 0.0, 1.0  # weight of the conversion bonus
TOOLS = 10


def threshold(p: float, bonus: float = AGON) -> float:
    """The success rate from which working it out pays more than copying.

    >>> threshold(0.6, COOP), round(threshold(0.6), 3)
    (0.6, 0.5)
    """
    return 2 * p / (2 + bonus * (1 - p))


@dataclass(frozen=True)
class Trap:
    """A setting of the model; `skill_rate` is the growth, `rate` how fast the choice moves.

    With `best` skill is a choice too, as in the world `copying_trap`: of ten tools the best is right with `best`, the
    others so often that all ten together are right with q at first. Growth is then set by `best` instead of by a rate.
    """

    p: float = 0.6
    q: float = 0.5
    skill_rate: float = 0.024
    rate: float = 0.4
    work: float = 0.5  # share of working it out before training
    steps: int = 400
    groups: int = 32
    size: int = 8
    best: float | None = None


@dataclass(frozen=True)
class Learned:
    """What training came to: accuracy of the challenges, share of copies among them, skill."""

    accuracy: float
    copies: float
    skill: float


class Skill:
    """A choice among tools, each of which opens a lock with a chance of its own."""

    def __init__(self, logits: np.ndarray, chances: np.ndarray) -> None:
        self.logits, self.chances = logits, chances

    def shares(self) -> np.ndarray:
        weights = np.exp(self.logits - self.logits.max())
        shares: np.ndarray = weights / weights.sum()
        return shares

    def rate(self) -> float:
        """How often working it out is right."""
        return float(self.shares() @ self.chances)

    def solve(self, rng: np.random.Generator, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Which answers would be right, and the tool of each; a tool opens the lock of a group, or does not."""
        picked = np.searchsorted(self.shares().cumsum()[:-1], rng.random(shape))
        opens = rng.random((shape[0], len(self.logits))) < self.chances
        return np.take_along_axis(opens, picked, axis=1), picked

    def learn(self, picked: np.ndarray, weights: np.ndarray, rate: float) -> None:
        taken = np.bincount(picked.ravel(), weights.ravel(), len(self.logits)) / weights.size
        self.logits = self.logits + rate * (taken - weights.mean() * self.shares())


def initial_skill(trap: Trap) -> Skill:
    """Ten tools with a best one; or two, one that always opens and one that never does: skill as one logit."""
    if trap.best is None:
        return Skill(np.log([trap.q, 1 - trap.q]), np.array([1.0, 0.0]))
    others = (TOOLS * trap.q - trap.best) / (TOOLS - 1)
    return Skill(np.zeros(TOOLS), np.array([trap.best] + [others] * (TOOLS - 1)))


def train(trap: Trap, bonus: float, seed: int = 0) -> Learned:
    """Train the choice and the skill once."""
    *_, (w, q) = trained_steps(trap, bonus, seed)
    return Learned(w * q + (1 - w) * trap.p, 1 - w, q)


def trained_steps(trap: Trap, bonus: float, seed: int) -> Iterator[tuple[float, float]]:
    """The share of working it out and the skill, before each step and after the last."""
    rng = np.random.default_rng(seed)
    choice = logit(trap.work)
    skill = initial_skill(trap)
    # A softmax of two moves twice as fast as the one logit that the map speaks of.
    growth = trap.skill_rate / (2 if trap.best is None else 1)
    shape = (trap.groups, trap.size)
    for _ in range(trap.steps):
        w = share(choice)
        yield w, skill.rate()
        draft, work = (rng.random(shape) < share for share in (trap.p, w))
        solved, picked = skill.solve(rng, shape)
        right = np.where(work, solved, draft)
        advantage = advantages(2.0 * right + bonus * (right & ~draft))
        choice += trap.rate * float((advantage * (work - w)).mean())
        skill.learn(picked, advantage * work, growth)
    yield share(choice), skill.rate()


def mean_accuracy(trap: Trap, bonus: float, seeds: int = 6) -> float:
    return float(np.mean([train(trap, bonus, seed).accuracy for seed in range(seeds)]))


def expected_reward(p: float, q: float, bonus: float, work: bool) -> float:
    """What one action earns on average, by enumeration of what draft and work may come to."""
    earned = 0.0
    for draft, solved in ((a, b) for a in (False, True) for b in (False, True)):
        weight = (p if draft else 1 - p) * (q if solved else 1 - q)
        right = solved if work else draft
        earned += weight * (2.0 * right + bonus * (right and not draft))
    return earned


def draw_map(
    p: float, skills: Sequence[float], rates: Sequence[float], seeds: int = 6, base: Trap | None = None
) -> str:
    """Accuracy after training under cooperation and competition, by initial skill and growth, as Markdown."""
    lines = [
        "| growth | " + " | ".join(f"q = {q:g}" for q in skills) + " |",
        "| ---: |" + " ---: |" * len(skills),
    ]
    for rate in rates:
        cells = []
        for q in skills:
            trap = replace(base or Trap(), p=p, q=q, skill_rate=rate)
            cells.append(" / ".join(f"{mean_accuracy(trap, bonus, seeds):.2f}" for bonus in (COOP, AGON)))
        lines.append(f"| {rate:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def advantages(reward: np.ndarray) -> np.ndarray:
    """GRPO's, within each group; a group without spread says nothing."""
    spread = reward.std(axis=1, ddof=1, keepdims=True)
    apart = (reward - reward.mean(axis=1, keepdims=True)) / (spread + 1e-4)
    return np.where(spread > 1e-9, apart, 0.0)


def logit(share: float) -> float:
    return float(np.log(share / (1 - share)))


def share(logit: float) -> float:
    return float(1 / (1 + np.exp(-logit)))


if __name__ == "__main__":
    for p in (0.5, 0.6, 0.8):
        say(
            f"\np = {p}: coop works it out from q > {threshold(p, COOP):.2f}, agon from q > {threshold(p):.2f}"
        )
        say("accuracy after training, coop / agon\n")
        say(draw_map(p, (0.3, 0.4, 0.5, 0.55, 0.7), (0.0, 0.012, 0.024, 0.048, 0.096)), flush=True)
