"""An engine whose completions have the lengths that a rehearsal asks for.

Random weights neither stop nor write a summary. So every request gets its length from its seed and
samples through stop tokens; the tokens and their log-probs are what the model drew, and the text,
which only decides what the challenger reads and what the judge is asked, is made up.
"""

from collections.abc import Sequence
from dataclasses import replace

from agon.engines.chat import Chat
from agon.engines.protocol import Capabilities, Engine, Finished, Request
from agon.errors import InputError
from agon.game.problem import Domain
from agon.game.rollout import FinishReason
from agon.lab.rehearsal.phases import Phases
from agon.planning.lengths import Lengths

# Tokens of a made-up summary. A challenge's prompt is the problem's and this.
SUMMARY_TOKENS = 300


class ForcedLengths:
    """Hands requests to another engine, which is started later than this one is made."""

    def __init__(self, name: str, lengths: Lengths, phases: Phases) -> None:
        live = name == "transformers"
        self.capabilities = Capabilities(name, streams=not live, live_weights=live, logprobs=True)
        self._lengths = lengths
        self._phases = phases
        self._inner: Engine | None = None
        self._writer: Writer | None = None

    def start(self, inner: Engine, writer: "Writer") -> None:
        self._inner, self._writer = inner, writer

    @property
    def inner(self) -> Engine:
        assert self._inner is not None
        return self._inner

    def sync(self, policy: str, version: int) -> None:
        with self._phases("sync"):
            self.inner.sync(policy, version)

    def submit(self, requests: Sequence[Request]) -> None:
        self.inner.submit([self._forced(request) for request in requests])

    def collect(self) -> list[Finished]:
        return [self._told(done) for done in self.inner.collect()]

    def sleep(self) -> None:
        self.inner.sleep()

    def wake(self) -> None:
        self.inner.wake()

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()

    def _forced(self, request: Request) -> Request:
        length = min(self._lengths.draw(request.seed), request.sampling.max_tokens)
        return replace(request, sampling=replace(request.sampling, max_tokens=length, ignore_stop=True))

    def _told(self, done: Finished) -> Finished:
        assert self._writer is not None
        reason: FinishReason = "length" if done.rollout.length >= self._lengths.cap else "stop"
        text = self._writer.completion(done.request.seed)
        return Finished(done.request, replace(done.rollout, text=text, finish_reason=reason))


class Writer:
    """Makes up text: of a stated number of tokens, and completions in the form that a dialect asks for."""

    def __init__(self, chat: Chat, domain: Domain = "math", summary_tokens: int = SUMMARY_TOKENS) -> None:
        self._chat = chat
        self._domain = domain
        self._summary_tokens = summary_tokens
        many = chat.tokenizer(" word" * 1000, add_special_tokens=False)["input_ids"]
        self._tokens_per_word = len(many) / 1000

    def text(self, start: str, tokens: int) -> str:
        """So many tokens of words, after a start that makes them differ."""
        return start + " word" * max(1, round(tokens / self._tokens_per_word))

    def completion(self, seed: int) -> str:
        """A well-formed completion whose answer is the seed."""
        kind = self._chat.dialect
        # A solution without a private part shows the lines that compute something: those with a "=".
        summary = self.text(f"{seed} =", self._summary_tokens)
        if kind.answer == "block":
            answer = f"<answer>{seed}</answer>"
        else:
            answer = f"```\n{seed}\n```" if self._domain == "code" else f"\\boxed{{{seed}}}"
        if not kind.private:
            return f"{summary}\n{answer}"
        opening = "" if self._chat.prefilled else kind.opens
        return f"{opening}\n{kind.closes}\n{summary}\n{answer}"


def checked_lengths(text: str | None, limit: int, share: float) -> Lengths:
    """The lengths that were asked for, or the plan's share of a recipe's cap; none above that cap."""
    if text is None:
        return Lengths(max(1, int(limit * share)), limit)
    lengths = Lengths.parse(text)
    if lengths.cap > limit:
        raise InputError(
            f"Lengths up to {lengths.cap} tokens were asked for, but max_completion_length is {limit}; "
            "lower the cap, or set max_completion_length too."
        )
    return lengths
