"""From the duels that the arena played to the samples that an evaluation keeps."""

from collections.abc import Mapping, Sequence
from typing import Any

from agon.engines.chat import Chat
from agon.game.duel import Duel, Entry
from agon.game.methods import Method
from agon.game.problem import Problem
from agon.game.transcript import leaks
from agon.runs.samples import Attempt, Sample


def sample_from_duels(play: str, number: int, method: Method, duels: Sequence[Duel], chat: Chat) -> Sample:
    """The duels that the arena played for one problem, as one sample."""
    problem = duels[0].problem
    plain = len(chat.encode(chat.plain(problem)))
    drafts = tuple(_attempt(duel.draft, plain) for duel in duels)
    finals = tuple(
        _final(duel.challenge, problem, duel.shown, method.draft_read(duel.index, len(duels)), plain, chat)
        for duel in duels
        if duel.challenge is not None
    )
    return Sample(play, problem.id, number, drafts, finals)


def _attempt(entry: Entry, prompt_length: int, **reading: Any) -> Attempt:
    rollout = entry.rollout
    return Attempt(
        policy=rollout.policy,
        text=rollout.text,
        length=rollout.length,
        prompt_length=prompt_length,
        truncated=rollout.truncated,
        well_formed=entry.well_formed,
        correct=entry.correct,
        reason=entry.verdict.reason,
        **reading,
    )


def _final(
    entry: Entry, problem: Problem, shown: str | None, read: int | None, plain: int, chat: Chat
) -> Attempt:
    if shown is None:
        return _attempt(entry, plain)
    prompt = chat.challenge(problem, shown)
    reading: Mapping[str, Any] = {"read": read, "shown": shown, "leaked": leaks(shown, problem.answer)}
    return _attempt(entry, len(chat.encode(prompt)), **reading)
