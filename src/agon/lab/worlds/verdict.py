"""What the lab says of a world's runs, beside what construction says.

A difference counts as found where the 95% interval over training runs (Welch's) leaves zero out: it then holds for new
runs too. With one run on a side there is no such interval, and nothing is found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from agon.evaluate.intervals import LEVEL
from agon.lab.worlds.play import Outcome, contrasts, named_habits
from agon.lab.worlds.world import Claim, World

RARE = 0.005  # share of a habit that is not shown
Found = Literal["more", "less", "no difference", "unknown"]
AGREES: Mapping[str, tuple[Found, ...]] = {
    "more": ("more",),
    "same": ("no difference",),
    "not more": ("no difference", "less"),
}


@dataclass(frozen=True)
class Verdict:
    """One claim, what was measured of it, and what the lab says."""

    claim: Claim
    difference: float
    interval: tuple[float, float] | None
    found: Found

    @property
    def agrees(self) -> bool | None:
        """Whether the lab says what construction says; None where there are too few runs to say anything."""
        return None if self.found == "unknown" else self.found in AGREES[self.claim.expected]


def verdicts(world: World, outcomes: Sequence[Outcome]) -> list[Verdict]:
    """A verdict for each claim of a world whose methods have been run."""
    methods = {outcome["method"] for outcome in outcomes}
    claims = [claim for claim in world.claims if {claim.first, claim.second} <= methods]
    if not claims:
        return []
    rows = contrasts(outcomes, [(claim.first, claim.second) for claim in claims])
    return [_verdict(claim, row, outcomes) for claim, row in zip(claims, rows, strict=True)]


def _verdict(claim: Claim, row: Mapping[str, Any], outcomes: Sequence[Outcome]) -> Verdict:
    welch = row["across_seeds"]
    if welch is None:
        runs = [
            sum(outcome["method"] == name for outcome in outcomes) for name in (claim.first, claim.second)
        ]
        return Verdict(claim, row["difference"], None, _without_spread(row["difference"], min(runs)))
    low, high = welch["ci95"]
    found: Found = "more" if low > 0 else "less" if high < 0 else "no difference"
    return Verdict(claim, row["difference"], (low, high), found)


def _without_spread(difference: float, runs: int) -> Found:
    """Several runs that are all equal on both sides: whatever lies between the sides is a difference."""
    if runs < 2:
        return "unknown"
    return "more" if difference > 0 else "less" if difference < 0 else "no difference"


def table(world: World, outcomes: Sequence[Outcome]) -> str:
    """The accuracies and the verdicts of a world as Markdown."""
    return f"{methods_table(world, outcomes)}\n\n{claims_table(verdicts(world, outcomes))}"


def methods_table(world: World, outcomes: Sequence[Outcome]) -> str:
    """Every method that was run, its accuracy beside what construction predicts, and the habits of its finals."""
    lines = [
        "| method | runs | accuracy | 95% over runs | construction | finals |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for method in world.methods:
        own = [outcome for outcome in outcomes if outcome["method"] == method]
        if own:
            lines.append(_row(world, method, own))
    return "\n".join(lines)


def claims_table(found: Sequence[Verdict]) -> str:
    lines = [
        "| construction says | points | 95% over runs | the lab says | agree |",
        "| --- | ---: | ---: | --- | --- |",
    ]
    for said in found:
        ends = "" if said.interval is None else _ends(said.interval)
        agree = {True: "yes", False: "**no**", None: "too few runs"}[said.agrees]
        lines.append(f"| {said.claim} | {100 * said.difference:+.1f} | {ends} | {said.found} | {agree} |")
    return "\n".join(lines)


def _row(world: World, method: str, own: Sequence[Outcome]) -> str:
    accuracies = np.array([outcome["accuracy"] for outcome in own])
    habits: dict[str, float] = {}
    for outcome in own:
        for habit, share in named_habits(outcome["habits"], world.habits).items():
            habits[habit] = habits.get(habit, 0.0) + share / len(own)
    often = sorted(
        ((habit, share) for habit, share in habits.items() if share >= RARE), key=lambda one: -one[1]
    )
    written = ", ".join(f"{habit} {100 * share:.0f}" for habit, share in often)
    said = world.accuracy.get(method)
    wanted = "" if said is None else f"{100 * said:.0f}"
    ends = _ends(_over_runs(accuracies)) if len(own) > 1 else ""
    return f"| {method} | {len(own)} | {100 * accuracies.mean():.1f} | {ends} | {wanted} | {written} |"


def _over_runs(accuracies: np.ndarray) -> tuple[float, float]:
    """Student's interval of the mean over runs, within the unit interval."""
    from scipy import stats

    wide = stats.t.ppf((1 + LEVEL) / 2, len(accuracies) - 1) * accuracies.std(ddof=1) / len(accuracies) ** 0.5
    return max(0.0, float(accuracies.mean() - wide)), min(1.0, float(accuracies.mean() + wide))


def _ends(interval: tuple[float, float]) -> str:
    return "[{:.1f}, {:.1f}]".format(*(100 * end for end in interval))
