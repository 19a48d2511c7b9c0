"""The methods: rows of one table, never code paths.

A method says who plays, what the challenger reads, whose outcome it is paid against, and by which
reward. Adding a method is adding a row, or naming one of your own as `module:object`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from agon.errors import unknown
from agon.game import rewards
from agon.own_parts import is_part, load_part

Policy = Literal["A", "B"]
Reads = Literal["no challenge", "own draft", "rival draft", "nothing", "another draft"]
PaidAgainst = Literal["nobody", "own pair", "one draft"]
Roles = Literal["solo", "same", "rotate", "fixed"]
Evaluation = Literal["single", "two-pass", "cascade"]
LearnsFrom = Literal["own", "both"]
Advantage = Literal["group", "paired"]


@dataclass(frozen=True)
class Method:
    """One row of the table.

    `learns_from` says whose rollouts a policy's gradient is made of: its own, or both policies', the
    rival's weighted by how likely they are under the reader (`agon.train.pooling`). `advantage` says how
    a group's rewards become advantages: less the group's mean, or as in `agon.game.paired`.
    """

    name: str
    policies: Literal[1, 2]
    reads: Reads
    paid_against: PaidAgainst
    challenge_reward: rewards.Stack
    formula: str
    roles: Roles
    evaluated_as: Evaluation
    note: str = ""
    draft_reward: rewards.Stack = rewards.DRAFT
    learns_from: LearnsFrom = "own"
    advantage: Advantage = "group"

    @property
    def challenges(self) -> bool:
        """Whether there is a second stream at all."""
        return self.reads != "no challenge"

    @property
    def shows_attempt(self) -> bool:
        """Whether the challenger's prompt holds a draft's summary."""
        return self.reads in ("own draft", "rival draft", "another draft")

    def players(self, step: int) -> tuple[Policy, Policy]:
        """Who drafts and who challenges at this optimizer step (the same policy when alone)."""
        if self.policies == 1:
            return "A", "A"
        if self.roles == "rotate" and step % 2 == 1:
            return "B", "A"
        return "A", "B"

    def draft_read(self, challenge: int, drafts: int) -> int | None:
        """Which draft of its problem a challenge reads; None if it sees the plain prompt."""
        if not self.shows_attempt:
            return None
        # A cyclic shift is a derangement: nobody reads its own pair, every draft is read once.
        return (challenge + 1) % drafts if self.reads == "another draft" else challenge

    def opponent(self, challenge: int) -> int:
        """Which draft of its problem a challenge is paid against."""
        return 0 if self.paid_against == "one draft" else challenge


_AGON = "2c(b) + c(b)(1-c(a))"
_ROWS = (
    Method("grpo", 1, "no challenge", "nobody", (), "2c", "solo", "single",
           "one group of 2N; also evaluated as a two-pass self-cascade"),
    Method("self-refine", 1, "own draft", "nobody", rewards.COOPERATIVE, "2c(b)", "same", "two-pass",
           "one model trained on both turns, as SDRL does: the cheap control of every exchange"),
    Method("coop", 2, "rival draft", "nobody", rewards.COOPERATIVE, "2c(b)", "rotate", "cascade"),
    Method("agon", 2, "rival draft", "own pair", rewards.COMPETITIVE, _AGON, "rotate", "cascade"),
    Method("agon-density", 2, "rival draft", "own pair", rewards.DENSITY,
           f"{_AGON} + 0.5 c(b)c(a)[len b < len a]", "rotate", "cascade"),
    Method("margin", 2, "rival draft", "own pair", rewards.MARGIN, "2c(b) + c(b)-c(a)", "rotate", "cascade"),
    Method("fixed-roles", 2, "rival draft", "own pair", rewards.COMPETITIVE, _AGON, "fixed", "cascade",
           "A always drafts"),
    Method("shared", 2, "nothing", "one draft", rewards.COMPETITIVE, _AGON, "rotate", "single",
           "one draft per problem is the opponent of all N"),
    Method("hidden", 2, "nothing", "own pair", rewards.COMPETITIVE, _AGON, "rotate", "single",
           "competition without exchange"),
    Method("shuffled", 2, "another draft", "own pair", rewards.COMPETITIVE, _AGON, "rotate", "cascade",
           "tells competitive pressure from difficulty-weighted shaping"),
    Method("coop-pooled", 2, "rival draft", "nobody", rewards.COOPERATIVE, "2c(b)", "rotate", "cascade",
           "both adapters learn from every rollout, the rival's importance-weighted", learns_from="both"),
    Method("agon-pooled", 2, "rival draft", "own pair", rewards.COMPETITIVE, _AGON, "rotate", "cascade",
           "both adapters learn from every rollout, the rival's importance-weighted", learns_from="both"),
    Method("agon-paired", 2, "rival draft", "own pair", rewards.COMPETITIVE, _AGON, "rotate", "cascade",
           "the expected gradient of agon, and no advantage where all challenges end alike",
           advantage="paired"),
)  # fmt: skip

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}


def place_of(name: str) -> int:
    """The place of a method in the table; those of one's own come last."""
    order = list(METHODS)
    return order.index(name) if name in order else len(order)


def method(name: str) -> Method:
    """The method of this name, or the one that `module:object` names; that is then its name."""
    if is_part(name):
        return _own(name)
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


@cache  # a configuration asks for its method many times a step
def _own(name: str) -> Method:
    found: Method = load_part(name, "method", Method)
    return replace(found, name=name)


def with_rewards(row: Method, draft: Sequence[str] | None, challenge: Sequence[str] | None) -> Method:
    """A method with other rewards, given as names of terms; None leaves a reward as it is."""
    if draft:
        row = replace(row, draft_reward=rewards.stack(draft))
    if challenge:
        row = replace(row, challenge_reward=rewards.stack(challenge), formula=" + ".join(challenge))
    return row


def graded(row: Method) -> Method:
    """A method that pays for the judge's score, from 0 to 1, wherever it pays for a right answer."""
    return replace(
        row,
        draft_reward=rewards.graded_stack(row.draft_reward),
        challenge_reward=rewards.graded_stack(row.challenge_reward),
    )
