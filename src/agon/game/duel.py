"""A duel: a draft, what its rival was shown of it, the challenge, and how both ended."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agon.game.problem import Problem
from agon.game.rollout import Rollout
from agon.game.transition import Transition, transition
from agon.game.verdict import Verdict


@dataclass(frozen=True)
class Entry:
    """One side of a duel: a rollout, its verdict and form, what it earned and what that is worth.

    `advantage` is what the trainer used; it stays 0 where nothing is trained.
    """

    rollout: Rollout
    verdict: Verdict
    well_formed: bool
    reward: float = 0.0
    advantage: float = 0.0
    terms: Mapping[str, float] | None = None

    @property
    def correct(self) -> bool:
        return self.verdict.correct

    def to_dict(self) -> dict[str, Any]:
        return {
            "rollout": self.rollout.to_dict(),
            "verdict": self.verdict.to_dict(),
            "well_formed": self.well_formed,
            "reward": self.reward,
            "advantage": self.advantage,
            "terms": dict(self.terms) if self.terms is not None else None,
        }

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> "Entry":
        return Entry(
            **{
                **fields,
                "rollout": Rollout.from_dict(fields["rollout"]),
                "verdict": Verdict.from_dict(fields["verdict"]),
            }
        )


@dataclass(frozen=True)
class Duel:
    """One duel. `challenge` is None in a method without challenges, `shown` None if nothing was read.

    `index` numbers the duels of one problem; `opponent` is the index of the draft that the challenge
    was paid against.
    """

    problem: Problem
    draft: Entry
    step: int
    index: int = 0
    shown: str | None = None
    challenge: Entry | None = None
    opponent: int | None = None

    @property
    def drafter(self) -> str:
        return self.draft.rollout.policy

    @property
    def transition(self) -> Transition | None:
        """How draft and challenge ended; None in a method without challenges."""
        return transition(self.draft.correct, self.challenge.correct) if self.challenge else None

    @property
    def converted(self) -> bool:
        """The draft was wrong and the challenge right."""
        return self.transition == "converted"

    @property
    def corrupted(self) -> bool:
        """The draft was right and the challenge wrong."""
        return self.transition == "corrupted"

    def for_log(self) -> "Duel":
        """The same duel without tokens and tests: what people read, at a fraction of the size."""
        bare = [
            entry and replace(entry, rollout=entry.rollout.without_tokens())
            for entry in (self.draft, self.challenge)
        ]
        assert bare[0] is not None
        return replace(self, problem=self.problem.without_tests(), draft=bare[0], challenge=bare[1])

    def to_json(self) -> str:
        """The duel as one line of JSON, without loss."""
        fields = {
            "problem": self.problem.to_dict(),
            "step": self.step,
            "index": self.index,
            "draft": self.draft.to_dict(),
            "shown": self.shown,
            "challenge": self.challenge.to_dict() if self.challenge else None,
            "opponent": self.opponent,
        }
        return json.dumps(fields, ensure_ascii=True, separators=(",", ":"))

    @staticmethod
    def from_json(line: str) -> "Duel":
        fields = json.loads(line)
        challenge = fields["challenge"]
        return Duel(
            **{
                **fields,
                "problem": Problem.from_dict(fields["problem"]),
                "draft": Entry.from_dict(fields["draft"]),
                "challenge": Entry.from_dict(challenge) if challenge else None,
            }
        )
