"""A cascade ready to be asked, and the rules under which it answers. No HTTP."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agon.engines.protocol import Sampling
from agon.game.problem import Domain
from agon.game.prompts import Message
from agon.serve.cascade import Ask, Cascade
from agon.serve.errors import bad_request, too_long, unknown_model
from agon.serve.limits import CHARACTERS_PER_TOKEN, Gate, Limits
from agon.serve.metrics import Metrics
from agon.serve.routes import Route
from agon.serve.schema import ChatRequest, conversation
from agon.serve.stages import Question


@dataclass
class Service:
    """A cascade ready to be asked, and the rules under which it answers."""

    cascade: Cascade
    routes: Mapping[str, Route]
    sampling: Sampling  # where a request says nothing
    fingerprint: str
    domain: Domain = "math"
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=Metrics)
    api_key: str | None = None
    log_prompts: bool = False
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        self.gate = Gate(self.limits.in_flight)

    def asks(self, request: ChatRequest) -> list[Ask]:
        """What a request asks for, one for each answer that it wants; what cannot be asked is refused."""
        if request.model not in self.routes:
            raise unknown_model(request.model, list(self.routes))
        prompt, before = conversation(request)
        limit = self._prompt_limit(prompt, before)
        question = Question.of(prompt, before, self.domain)
        try:
            prompt_ids = self.cascade.stages.plain(question)
        except Exception as error:  # templates raise what they like, for example at a role they do not know
            raise bad_request(
                f"The model's chat template refuses these messages: {_line(error)}", "messages"
            ) from error
        if limit is not None and len(prompt_ids) > limit:
            raise too_long(limit, f"{len(prompt_ids)} tokens")
        ask = Ask(
            question=question,
            prompt_ids=prompt_ids,
            route=self.routes[request.model],
            sampling=self._sampling(request, len(prompt_ids)),
            seed=request.seed if request.seed is not None else secrets.randbits(63),
            stops=request.stops,
            whole=not request.stream and not request.stops,
            seeded=request.seed is not None,
        )
        return [replace(ask, number=number) for number in range(request.n or 1)]

    def _prompt_limit(self, prompt: str, before: tuple[Message, ...]) -> int | None:
        """Tokens that a prompt may have. One that cannot be short enough is refused before it is tokenized."""
        limits = [self.limits.prompt_tokens, self.cascade.room(1)]
        limit = min((each for each in limits if each is not None), default=None)
        characters = len(prompt) + sum(len(message["content"]) for message in before)
        if limit is not None and characters > limit * CHARACTERS_PER_TOKEN:
            raise too_long(limit, f"{characters} characters")
        return limit

    def _sampling(self, request: ChatRequest, prompt_tokens: int) -> Sampling:
        room = self.cascade.room(prompt_tokens)
        if room is not None and request.tokens is not None and request.tokens > room:
            found = f"{prompt_tokens} tokens and {request.tokens} were asked for after it"
            raise too_long(room + prompt_tokens, found)
        tokens = request.tokens or self.sampling.max_tokens
        return replace(
            self.sampling,
            max_tokens=tokens if room is None else min(tokens, room),
            temperature=self.sampling.temperature if request.temperature is None else request.temperature,
            top_p=self.sampling.top_p if request.top_p is None else request.top_p,
        )


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
