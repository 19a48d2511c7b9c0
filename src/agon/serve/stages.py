"""What each stage of the cascade is asked, and what is made of what it wrote. No sampling, no HTTP.

The prompts and what a rival may read are those of `agon.game`, the seeds those of the arena: a
question is a problem without a gold answer, and the same seed gives the same duel as `Arena.play`.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from agon.arena import CHALLENGE, DRAFT
from agon.engines.chat import Chat
from agon.engines.protocol import derive_seed
from agon.game.problem import Domain, Problem
from agon.game.prompts import Message
from agon.game.rollout import FinishReason
from agon.game.transcript import Transcript, split

TASK = "serve"  # of a problem that somebody asks


@dataclass(frozen=True)
class Question:
    """A problem and the messages before it: system prompts, earlier turns."""

    problem: Problem
    before: tuple[Message, ...] = ()

    @staticmethod
    def of(prompt: str, before: Sequence[Message] = (), domain: Domain = "math") -> "Question":
        """What somebody asks. Its id is made of its text: one seed for many questions is another seed for each.

        With the same random numbers for all of them, a pair that begins in one of several ways would begin in
        the same way everywhere, and an evaluation with a fixed seed would measure that one.
        """
        text = json.dumps([*before, prompt])
        name = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        return Question(Problem(name, prompt, TASK, domain=domain), tuple(before))


@dataclass(frozen=True)
class StageResult:
    """One stage as it was sampled."""

    policy: str
    text: str
    token_ids: tuple[int, ...]
    prompt_tokens: int
    finish_reason: FinishReason
    seconds: float
    first_token_s: float | None = None

    @property
    def tokens(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True)
class Answer:
    """What a question was answered: the final, and the draft it read with what was shown of it."""

    final: StageResult
    reasoning: str  # as it was streamed: the draft, then the final's private part
    content: str  # the final's public part
    reasoning_tokens: int
    answer: str | None  # what a judge would read
    draft: StageResult | None = None
    shown: str | None = None
    stopped: bool = False  # by a stop sequence

    @property
    def stages(self) -> tuple[StageResult, ...]:
        return (self.draft, self.final) if self.draft else (self.final,)

    @property
    def tokens(self) -> int:
        return sum(stage.tokens for stage in self.stages)

    @property
    def finish_reason(self) -> FinishReason:
        """`length` if either stage ran out of tokens."""
        return "length" if any(stage.finish_reason == "length" for stage in self.stages) else "stop"


class Stages:
    """The two prompts of a cascade and the reading of a completion, for one model and its dialect."""

    def __init__(self, chat: Chat, summary_limit: int | None = None) -> None:
        self.chat = chat
        self._summary_limit = summary_limit

    def plain(self, question: Question) -> tuple[int, ...]:
        """The prompt of a draft, or of a policy that answers alone."""
        return self._encode(question, self.chat.plain(question.problem))

    def challenge(self, question: Question, shown: str) -> tuple[int, ...]:
        """The prompt of a final that reads a draft's summary."""
        messages = self.chat.challenge(question.problem, shown)
        return self._encode(question, messages)

    def read(self, question: Question, text: str) -> Transcript:
        return split(text, self.chat.dialect.name, question.problem.domain, self.chat.prefilled)

    def shown(self, question: Question, draft: str) -> str:
        """What the final's policy may read of a draft."""
        return self.read(question, draft).shown(self._summary_limit)

    def private_tokens(self, token_ids: Sequence[int]) -> int:
        """How many tokens, from the first, it took to close the private block; all if it stayed open."""
        kind = self.chat.dialect
        if not kind.private:
            return 0
        text = self.chat.decode(token_ids)
        if kind.closes not in text:
            opened = self.chat.prefilled or kind.opens in text
            return len(token_ids) if opened else 0
        low, high = 0, len(token_ids)
        while low < high:  # the shortest beginning with the mark in it
            middle = (low + high) // 2
            if kind.closes in self.chat.decode(token_ids[:middle]):
                high = middle
            else:
                low = middle + 1
        return low

    def _encode(self, question: Question, messages: Sequence[Message]) -> tuple[int, ...]:
        return self.chat.encode([*question.before, *messages])


def draft_seed(question: Question, seed: int, number: int) -> int:
    return _seed(question, seed, DRAFT, number)


def final_seed(question: Question, seed: int, number: int) -> int:
    return _seed(question, seed, CHALLENGE, number)


def _seed(question: Question, seed: int, role: str, number: int) -> int:
    return derive_seed(seed, 0, question.problem.task, question.problem.id, role, number)
