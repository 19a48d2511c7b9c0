"""Validation during training: both directions of the cascade and each adapter alone, as flat rates.

A pair can win by one adapter carrying the other, or lose its difference and become one policy that
reads itself. Both show here first: each adapter's standalone accuracy stands beside the cascade's,
with how often the two agree.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from agon.arena import Arena
from agon.engines.protocol import Sampling, derive_seed
from agon.evaluate.arms import directions
from agon.evaluate.from_duels import sample_from_duels
from agon.game.methods import METHODS, Method
from agon.game.problem import Problem
from agon.game.transition import transition
from agon.runs.samples import Attempt, Sample


def validate(
    arena: Arena,
    problems: Sequence[Problem],
    policies: Sequence[str],
    method: Method,
    sampling: Sampling,
    versions: Mapping[str, int],
    seed: int,
    samples: int = 1,
    gather: Callable[[list[Sample]], list[Sample]] = list,
) -> dict[str, float]:
    """Play the cascade in every direction and return its rates and those of each adapter alone.

    `best` is the accuracy of the better direction, `headline` that of what the method is judged by
    (the better adapter alone for a single-pass method). Both are maxima, so they are for choosing
    and watching; what is chosen is then measured on problems that had no part in the choice. `gather`
    puts the samples of several processes together, each of which played a share of the problems.
    """
    reading = METHODS["coop"]
    rates: dict[str, float] = {}
    alone: dict[str, list[Attempt]] = {}
    plays = directions(policies)
    for play in plays:
        own = [
            sample_from_duels(play.name, number, reading, duels, arena.chat)
            for number in range(samples)
            for duels in arena.play(
                problems,
                reading,
                drafts=1,
                sampling=sampling,
                versions=versions,
                seed=derive_seed(seed, play.name, number),
                players=(play.drafter, play.challenger),
            )
        ]
        played = gather(own)
        rates |= {f"{play.name}/{what}": rate for what, rate in _cascade(played).items()}
        alone[play.drafter] = [sample.drafts[0] for sample in played]
    for policy, drafts in alone.items():
        rates |= {f"{policy}/{what}": rate for what, rate in _stage(drafts).items()}
        rates[f"{policy}/length"] = fmean(draft.length for draft in drafts)
    if len(alone) == 2:
        both = list(zip(*alone.values(), strict=True))
        rates["agreement"] = fmean(first.correct == second.correct for first, second in both)
        rates["union"] = fmean(first.correct or second.correct for first, second in both)
    rates["best"] = max(rates[f"{play.name}/correct"] for play in plays)
    standalone = max(rates[f"{policy}/correct"] for policy in alone)
    rates["headline"] = standalone if method.evaluated_as == "single" else rates["best"]
    return rates


def _cascade(samples: Sequence[Sample]) -> dict[str, float]:
    """Rates of a two-stage play; `converted` and `corrupted` are shares of all samples."""
    seen = [transition(sample.drafts[0].correct, sample.finals[0].correct) for sample in samples]
    return {
        **_stage([sample.finals[0] for sample in samples]),
        "converted": fmean(each == "converted" for each in seen),
        "corrupted": fmean(each == "corrupted" for each in seen),
        "final_length": fmean(sample.finals[0].length for sample in samples),
    }


def _stage(attempts: Sequence[Attempt]) -> dict[str, float]:
    return {
        "correct": fmean(attempt.correct for attempt in attempts),
        "truncated": fmean(attempt.truncated for attempt in attempts),
        "well_formed": fmean(attempt.well_formed for attempt in attempts),
    }
