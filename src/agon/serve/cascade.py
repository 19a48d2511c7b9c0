"""Both stages as they are sampled: the draft, then the final that reads its summary.

    async for event in cascade.answer(ask): ...   # deltas of text, then one `Answer`

A final is submitted the moment its draft ends. All of it is one generator: whoever closes it, or is
cancelled while waiting for it, ends the stage that runs and starts no other.
"""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from agon.engines.live_text import LiveTexts
from agon.engines.protocol import Request, Sampling
from agon.game.live_split import LiveSplit, LiveStop
from agon.game.rollout import FinishReason
from agon.serve.routes import Route
from agon.serve.sampling import Sampler
from agon.serve.stages import Answer, Question, StageResult, Stages, draft_seed, final_seed

StageName = Literal["draft", "final"]


@dataclass(frozen=True)
class Ask:
    """A question, who answers it, and how. `number` tells apart the answers to one question.

    `prompt_ids` is the plain prompt. With `whole` nothing is streamed but the finished text. Without `seeded`
    nobody asked for the seed, and an engine that samples faster without one may ignore it.
    """

    question: Question
    prompt_ids: tuple[int, ...]
    route: Route
    sampling: Sampling
    seed: int
    number: int = 0
    stops: tuple[str, ...] = ()
    whole: bool = False
    seeded: bool = True


@dataclass(frozen=True)
class Delta:
    """New text of an answer."""

    kind: Literal["reasoning", "content"]
    text: str


class Cascade:
    """Answers questions with a pair on a sampler."""

    def __init__(
        self,
        stages: Stages,
        sampler: Sampler,
        versions: Mapping[str, int],
        observe: Callable[[StageName, StageResult], None] = lambda name, result: None,
    ) -> None:
        self.stages = stages
        self.sampler = sampler
        self._versions = versions
        self._observe = observe
        self._texts = LiveTexts(stages.chat)

    def room(self, prompt_tokens: int) -> int | None:
        """Tokens that can be sampled after a prompt; None if there is no limit."""
        limit = self.sampler.max_model_len
        return None if limit is None else max(0, limit - prompt_tokens)

    async def answer(self, ask: Ask) -> AsyncGenerator[Delta | Answer, None]:
        """The text of an answer as it is sampled, and in the end the answer."""
        reasoning = _Reasoning()
        kind, prefilled = self.stages.chat.dialect, self.stages.chat.prefilled
        draft: StageResult | None = None
        shown: str | None = None
        prompt, role_seed = ask.prompt_ids, draft_seed
        if ask.route.drafter:
            stage = self._stage(ask, ask.route.drafter, prompt, draft_seed)
            parts = LiveSplit(kind, prefilled)
            async with aclosing(stage.texts()) as texts:
                async for text in texts:
                    for private, part in parts.feed(text):
                        if said := reasoning.add(("draft", private), part):
                            yield Delta("reasoning", said)
            for private, part in parts.finish():
                if said := reasoning.add(("draft", private), part):
                    yield Delta("reasoning", said)
            draft = stage.result()
            self._observe("draft", draft)
            shown = self.stages.shown(ask.question, draft.text)
            prompt, role_seed = self.stages.challenge(ask.question, shown), final_seed

        stage = self._stage(ask, ask.route.final, prompt, role_seed)
        parts, stop, content = LiveSplit(kind, prefilled), LiveStop(ask.stops), _Content()
        async with aclosing(stage.texts()) as texts:
            async for text in texts:
                for delta in _final_deltas(parts.feed(text), reasoning, stop, content):
                    yield delta
                if stop.hit:
                    break
        if not stop.hit:
            for delta in _final_deltas(parts.finish(), reasoning, stop, content):
                yield delta
            if said := content.add(stop.finish()):
                yield Delta("content", said)
        final = stage.result("stop" if stop.hit else None)
        self._observe("final", final)
        yield Answer(
            final=final,
            reasoning=reasoning.text,
            content=content.text,
            reasoning_tokens=(draft.tokens if draft else 0) + self.stages.private_tokens(final.token_ids),
            answer=self.stages.read(ask.question, final.text).answer,
            draft=draft,
            shown=shown,
            stopped=stop.hit,
        )

    def _stage(
        self,
        ask: Ask,
        policy: str,
        prompt: tuple[int, ...],
        role_seed: Callable[[Question, int, int], int],
    ) -> "_Stage":
        room = self.room(len(prompt))
        tokens = ask.sampling.max_tokens if room is None else min(ask.sampling.max_tokens, room)
        request = Request(
            key="",
            prompt_ids=prompt,
            policy=policy,
            version=self._versions[policy],
            sampling=replace(ask.sampling, max_tokens=tokens),
            seed=role_seed(ask.question, ask.seed, ask.number),
        )
        return _Stage(self.sampler, self._texts, request, ask)


class _Stage:
    """One request while it is sampled."""

    def __init__(self, sampler: Sampler, texts: LiveTexts, request: Request, ask: Ask) -> None:
        self._sampler = sampler
        self._text = texts.start()
        self._request = request
        self._whole, self._seeded = ask.whole, ask.seeded
        self._finish_reason: FinishReason = "length"
        self._began = time.monotonic()
        self._first: float | None = None

    async def texts(self) -> AsyncGenerator[str, None]:
        """The text as it grows. Without room for a single token there is none."""
        if self._request.sampling.max_tokens < 1:
            return
        text = self._text
        async with aclosing(self._sampler.stream(self._request, self._whole, self._seeded)) as pieces:
            async for piece in pieces:
                if self._first is None and not self._whole:
                    self._first = time.monotonic() - self._began
                if self._whole:
                    text.token_ids += piece.token_ids
                elif new := text.feed(piece.token_ids):
                    yield new
                if piece.finish_reason is not None:
                    self._finish_reason = piece.finish_reason
        if rest := text.finish():
            yield rest

    def result(self, finish_reason: FinishReason | None = None) -> StageResult:
        """What was sampled, to its end or to where somebody stopped it."""
        return StageResult(
            policy=self._request.policy,
            text=self._text.text,
            token_ids=tuple(self._text.token_ids),
            prompt_tokens=len(self._request.prompt_ids),
            finish_reason=finish_reason or self._finish_reason,
            seconds=time.monotonic() - self._began,
            first_token_s=self._first,
        )


class _Reasoning:
    """The draft, its summary and the final's private part, with an empty line between them."""

    def __init__(self) -> None:
        self._section: tuple[str, bool] | None = None
        self._parts: list[str] = []

    def add(self, section: tuple[str, bool], text: str) -> str:
        """What a reader is to see of this text."""
        if section != self._section:
            text = text.lstrip()
            if not text:
                return ""
            self._section = section
            text = f"\n\n{text}" if self._parts else text
        self._parts.append(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self._parts)


class _Content:
    """The final's public part, without the white space that a private block leaves before it."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def add(self, text: str) -> str:
        text = text if self._parts else text.lstrip()
        if text:
            self._parts.append(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self._parts)


def _final_deltas(
    parts: list[tuple[bool, str]], reasoning: _Reasoning, stop: LiveStop, content: _Content
) -> list[Delta]:
    deltas = []
    for private, part in parts:
        if private:
            if said := reasoning.add(("final", True), part):
                deltas.append(Delta("reasoning", said))
        elif said := content.add(stop.feed(part)):
            deltas.append(Delta("content", said))
        if stop.hit:
            break
    return deltas
