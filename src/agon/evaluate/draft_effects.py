"""What a final answer did with the draft it read: kept, fixed or broke it, or repeated its error.

Two right answers are the same answer, a right and a wrong one are not. Of two wrong ones the math judge
is asked, with the draft's answer as its gold, whichever judge had found them wrong.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from agon.evaluate.arms import arms_for, plays_of, without_draft
from agon.game.markup import boxes
from agon.game.problem import Problem
from agon.game.transcript import split
from agon.game.transition import transition
from agon.judges.pool import JudgePool
from agon.runs.samples import Attempt, Sample, SampleKey


@dataclass(frozen=True)
class Exchange:
    """A draft, the final that read it, and what the final's policy wrote without reading any draft."""

    play: str
    problem: str
    number: int
    draft: Attempt
    final: Attempt
    alone: Attempt | None = None


@dataclass(frozen=True)
class DraftEffects:
    """The exchanges of one direction, counted.

    `repeated` is how many answered wrong drafts came back with the same wrong answer; the shares `alone_…` are
    how often the final's policy gives the draft's answer anyway, without reading it.
    """

    both_right: int
    corrupted: int
    converted: int
    both_wrong: int
    answered_wrong: int
    repeated: int
    alone_after_right: float | None
    alone_after_wrong: float | None

    @property
    def copied_right(self) -> float | None:
        """The share of right drafts whose answer the final gives too."""
        drafts = self.both_right + self.corrupted
        return self.both_right / drafts if drafts else None

    @property
    def copied_wrong(self) -> float | None:
        """The share of wrong drafts with an answer whose answer the final gives too."""
        return self.repeated / self.answered_wrong if self.answered_wrong else None

    @property
    def conversion_rate(self) -> float | None:
        """The share of wrong drafts whose final is right."""
        drafts = self.converted + self.both_wrong
        return self.converted / drafts if drafts else None


def exchanges(result: Mapping[str, Any], samples: Mapping[SampleKey, Sample]) -> dict[str, list[Exchange]]:
    """Every direction in which an evaluation let one draft be read, with all that was read in it."""
    arms = arms_for(result["policies"], result["directions"], controls="zero-shot" in result["arms"])
    plays = plays_of(arms)
    found = {}
    for arm in arms:
        if arm.cascade and arm.plays[0].drafts == 1:
            separate = without_draft(arm, plays)
            found[arm.name] = [
                Exchange(
                    arm.plays[0].name,
                    problem,
                    number,
                    (sample := samples[arm.plays[0].name, problem, number]).drafts[0],
                    sample.finals[0],
                    samples[separate.name, problem, number].drafts[0] if separate else None,
                )
                for problem in result["problems"]
                for number in range(result["samples"])
            ]
    return found


def draft_effects(direction: Sequence[Exchange], dialect_name: str, pool: JudgePool) -> DraftEffects:
    """Count the exchanges of one direction; `pool` judges math."""
    counts = Counter(transition(each.draft.correct, each.final.correct) for each in direction)
    copied = same_answers([(each.draft, each.final) for each in direction], dialect_name, pool)
    wrong = [
        same
        for same, each in zip(copied, direction, strict=True)
        if each.draft.answered and not each.draft.correct
    ]
    unread = [
        (each.draft, each.alone) for each in direction if each.alone is not None and each.draft.answered
    ]
    by_chance = list(zip(unread, same_answers(unread, dialect_name, pool), strict=True))
    return DraftEffects(
        both_right=counts["both right"],
        corrupted=counts["corrupted"],
        converted=counts["converted"],
        both_wrong=counts["both wrong"],
        answered_wrong=len(wrong),
        repeated=sum(wrong),
        alone_after_right=_share([same for (draft, _), same in by_chance if draft.correct]),
        alone_after_wrong=_share([same for (draft, _), same in by_chance if not draft.correct]),
    )


def same_answers(pairs: Sequence[tuple[Attempt, Attempt]], dialect_name: str, pool: JudgePool) -> list[bool]:
    """Whether the two attempts of each pair give the same answer, right or wrong."""
    asked = list(dict.fromkeys(filter(None, (_question(*pair, dialect_name) for pair in pairs))))
    golds = (Problem("", "", "", answer=first) for first, _ in asked)
    verdicts = pool.judge_all(zip(golds, (second for _, second in asked), strict=True))
    same = {question for question, verdict in zip(asked, verdicts, strict=True) if verdict.correct}
    return [
        (one.correct and other.correct) or _question(one, other, dialect_name) in same for one, other in pairs
    ]


def _question(one: Attempt, other: Attempt, dialect_name: str) -> tuple[str, str] | None:
    """The answers of two wrong attempts, where there is anything to ask: the first as a gold."""
    if one.correct or other.correct or not (one.answered and other.answered):
        return None
    first, second = (split(attempt.text, dialect_name).answer for attempt in (one, other))
    return (_last(first), second) if first and second else None


def _last(section: str) -> str:
    *_, last = (section, *(box.content for box in boxes(section)))
    return last


def _share(outcomes: Sequence[bool]) -> float | None:
    return fmean(outcomes) if outcomes else None
