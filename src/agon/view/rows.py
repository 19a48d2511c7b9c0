"""A duel as one row of 56 bytes: all that a list is filtered and sorted by. The rest is read from its line."""

import numpy as np

from agon.game.answers import answer_section
from agon.game.dialects import DIALECTS, dialect
from agon.game.duel import Entry
from agon.game.verdict import REASONS
from agon.view.sources import Seen

ROW = np.dtype(
    [
        *(("offset", "<u8"), ("length", "<u4"), ("file", "<u2"), ("sub", "<u2")),  # where its line stands
        *(("step", "<i4"), ("ordinal", "<u4"), ("problem", "<u4"), ("index", "<u2"), ("flags", "<u2")),
        *(("drafter", "u1"), ("challenger", "u1"), ("play", "u1"), ("draft_reason", "u1")),
        *(("challenge_reason", "u1"), ("spare", "u1", 3)),
        *(("draft_reward", "<f4"), ("challenge_reward", "<f4")),
        *(("draft_length", "<u4"), ("challenge_length", "<u4")),
    ]
)
# The bits of `flags`, in their order.
FLAGS = (
    *("challenged", "draft right", "challenge right", "copied", "leaked"),
    *("draft truncated", "challenge truncated", "draft malformed", "challenge malformed"),
    *("draft failed", "challenge failed"),
)
BIT = {name: 1 << place for place, name in enumerate(FLAGS)}
FAILED = ("timeout", "error")
LARGEST = 2**31 - 1


class Names:
    """Names by small numbers; the 256th and later ones share the last number."""

    def __init__(self, names: list[str] | None = None) -> None:
        self.names = names or []
        self._numbers = {name: number for number, name in enumerate(self.names)}

    def number(self, name: str) -> int:
        if name not in self._numbers:
            if len(self.names) >= 255:
                return 255
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]

    def find(self, name: str) -> int | None:
        return self._numbers.get(name)

    def __getitem__(self, number: int) -> str:
        return self.names[number] if number < len(self.names) else "other"


def fields(seen: Seen, dialect_name: str | None) -> dict[str, int | float]:
    """The row of a duel, but for its place, its problem and its names."""
    duel, draft, challenge = seen.duel, seen.duel.draft, seen.duel.challenge
    flags = _side(draft, "draft") | (BIT["leaked"] if seen.leaked else 0)
    if challenge is not None:
        flags |= BIT["challenged"] | _side(challenge, "challenge")
        flags |= BIT["copied"] if copied(seen, dialect_name) else 0
    return {
        "step": _bounded(duel.step),
        "index": min(_bounded(duel.index), 2**16 - 1),
        "flags": flags,
        "draft_reason": REASONS.index(draft.verdict.reason),
        "draft_reward": float(draft.reward),
        "draft_length": _bounded(draft.rollout.length),
        "challenge_reason": REASONS.index(challenge.verdict.reason) if challenge else 0,
        "challenge_reward": float(challenge.reward) if challenge else 0.0,
        "challenge_length": _bounded(challenge.rollout.length) if challenge else 0,
    }


def _side(entry: Entry, side: str) -> int:
    return (
        (BIT[f"{side} right"] if entry.correct else 0)
        | (BIT[f"{side} truncated"] if entry.rollout.truncated else 0)
        | (0 if entry.well_formed else BIT[f"{side} malformed"])
        | (BIT[f"{side} failed"] if entry.verdict.reason in FAILED else 0)
    )


def _bounded(number: int) -> int:
    """A number from a file that nobody checked, as one that a row can hold."""
    return max(0, min(int(number), LARGEST))


def copied(seen: Seen, dialect_name: str | None) -> bool:
    """Whether the challenge gave the draft's answer again, spaces aside."""
    duel = seen.duel
    if duel.challenge is None:
        return False
    first, second = (
        answer_in(entry.rollout.text, dialect_name, duel.problem.domain)
        for entry in (duel.draft, duel.challenge)
    )
    return bool(first and second and "".join(first.split()) == "".join(second.split()))


def answer_in(text: str, dialect_name: str | None, domain: str) -> str | None:
    """The answer section of a text, as `agon.game.transcript.split` finds it; the rest of it is left undone.

    >>> answer_in("<think>2+2</think>A sum.<answer>4</answer>", "think", "math")
    '4'
    """
    kind = dialect(dialect_name or dialect_of(text))
    public = text
    if kind.private:
        _, closed, rest = text.rpartition(kind.closes)
        public = (rest if closed else text).partition(kind.opens)[0]
    return answer_section(public, kind, "code" if domain == "code" else "math")


def dialect_of(text: str) -> str:
    """The dialect a text is written in, by its marks.

    >>> dialect_of("<think>2+2</think>So<answer>4</answer>"), dialect_of("it is \\\\boxed{4}")
    ('think', 'boxed')
    """
    marked = [
        name
        for name, kind in DIALECTS.items()
        if kind.private and (kind.opens in text or kind.closes in text)
    ]
    return marked[0] if marked else "think" if "<answer>" in text else "boxed"
