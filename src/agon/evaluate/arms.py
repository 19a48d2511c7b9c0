"""What is played and what is reported, as two tables.

A play is what the arena samples; an arm is a way to read an answer off plays. An adapter alone needs
no sampling of its own, as its drafts in the cascade are just that; nor do `zero-shot` (the drafts of
the base's self-cascade) and `majority` (two independent drafts and a vote). So an arm and the
cascade it is compared with share their drafts, and nothing is paid for twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agon.engines.protocol import derive_seed
from agon.errors import unknown
from agon.game.methods import METHODS, Method
from agon.policies.pair import BASE
from agon.runs.samples import Attempt, Sample, SampleKey

Stage = Literal["draft", "final"]


@dataclass(frozen=True)
class Play:
    """What is sampled for one problem: who drafts, who answers, how the drafts are read."""

    name: str
    drafter: str
    challenger: str
    reading: str = "coop"  # the row of the methods table whose prompts it uses
    drafts: int = 1

    @property
    def method(self) -> Method:
        return METHODS[self.reading]

    @property
    def rollouts(self) -> int:
        return self.drafts * (2 if self.method.challenges else 1)


@dataclass(frozen=True)
class Arm:
    """A row of the results: the attempts of these plays at this stage, by vote where they are several."""

    name: str
    plays: tuple[Play, ...]
    stage: Stage

    @property
    def policy(self) -> str | None:
        """The one policy whose attempts these are, if it is one."""
        speakers = {play.drafter if self.stage == "draft" else play.challenger for play in self.plays}
        return speakers.pop() if len(speakers) == 1 else None

    @property
    def cascade(self) -> bool:
        return self.stage == "final"


SELF_CASCADE = Play("self-cascade", BASE, BASE)
# Two independent drafts; the answer to each is written after reading the other one.
MOA = Play("moa", BASE, BASE, "shuffled", drafts=2)
CONTROLS = (
    Arm("zero-shot", (SELF_CASCADE,), "draft"),
    Arm("self-cascade", (SELF_CASCADE,), "final"),
    Arm("moa", (MOA,), "final"),
)


def direction(drafter: str, challenger: str) -> Play:
    return Play(f"{drafter}->{challenger}", drafter, challenger)


def directions(policies: Sequence[str]) -> tuple[Play, ...]:
    """Every direction of the cascade: two for a pair, a policy that reads itself, none for a bare base."""
    if len(policies) == 2:
        first, second = policies
        return direction(first, second), direction(second, first)
    return tuple(direction(policy, policy) for policy in policies)


def arms_for(policies: Sequence[str], wanted: str = "both", controls: bool = True) -> tuple[Arm, ...]:
    """The arms of a pair, of one policy, or of a bare base; `wanted` may narrow a pair to one direction."""
    plays = directions(policies)
    if wanted != "both":
        names = [play.name for play in plays]
        if wanted not in names:
            raise unknown("direction", wanted, ["both", *names])
        plays = tuple(play for play in plays if play.name == wanted)
    alone = tuple(_alone(policy, plays) for policy in policies)
    cascades = tuple(Arm(play.name, (play,), "final") for play in plays)
    return (*cascades, *alone, *(CONTROLS if controls else ()), *_majority(alone, controls))


def _alone(policy: str, plays: Sequence[Play]) -> Arm:
    """A policy by itself: its drafts in a cascade, or a play of its own where it drafts in none."""
    own = [play for play in plays if play.drafter == policy]
    return Arm(policy, (own[0] if own else Play(policy, policy, policy, "grpo"),), "draft")


def _majority(alone: Sequence[Arm], controls: bool) -> tuple[Arm, ...]:
    """Two attempts and a vote, at the two passes of a cascade."""
    if len(alone) == 2:
        return (Arm("majority", (*alone[0].plays, *alone[1].plays), "draft"),)
    if len(alone) == 1:
        policy = alone[0].name
        second = Play(f"{policy} again", policy, policy, "grpo")
        return (Arm("majority", (*alone[0].plays, second), "draft"),)
    return (Arm("majority", (MOA,), "draft"),) if controls else ()


def plays_of(arms: Iterable[Arm]) -> tuple[Play, ...]:
    """What has to be sampled for these arms, each play once."""
    return tuple(dict.fromkeys(play for arm in arms for play in arm.plays))


def without_draft(arm: Arm, plays: Iterable[Play]) -> Play | None:
    """A play in which the arm's final policy drafts by itself, sampled separately from the arm's own drafts.

    The drafts of the arm will not do: of a policy that reads itself, the wrong ones are all wrong.
    """
    others = (play for play in plays if play.drafter == arm.policy and play not in arm.plays)
    return next(others, None) if arm.cascade else None


@dataclass(frozen=True)
class Answer:
    """What an arm says to one problem in one sample, and everything that was written for it."""

    chosen: Attempt
    attempts: tuple[Attempt, ...]
    # Each final with the draft it read; empty for an arm that reads nothing.
    readings: tuple[tuple[Attempt, Attempt], ...] = ()
    drafts: tuple[Attempt, ...] = ()


def answer(arm: Arm, problem: str, number: int, samples: Mapping[SampleKey, Sample]) -> Answer:
    """Read an arm's answer off the samples of its plays."""
    found = [samples[play.name, problem, number] for play in arm.plays]
    if arm.stage == "draft":
        attempts = tuple(draft for sample in found for draft in sample.drafts)
        return Answer(vote(attempts, arm.name, problem, number), attempts)
    finals = tuple(final for sample in found for final in sample.finals)
    readings = tuple(
        (sample.drafts[final.read], final)
        for sample in found
        for final in sample.finals
        if final.read is not None
    )
    drafts = tuple(draft for sample in found for draft in sample.drafts)
    return Answer(vote(finals, arm.name, problem, number), finals, readings, drafts)


def vote(attempts: Sequence[Attempt], *coin: object) -> Attempt:
    """The attempt that stands for all of them: a seeded coin among those that gave an answer.

    Two votes have no majority unless they agree, and then either may stand for both. So this is
    majority of two with ties settled by a coin; it beats one attempt only where one gave no answer.
    """
    voters = [attempt for attempt in attempts if attempt.answered] or list(attempts)
    return voters[derive_seed("coin", *coin) % len(voters)]
