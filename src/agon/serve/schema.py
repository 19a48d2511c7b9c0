"""What a chat request may hold. Anything that has no effect here is refused, never ignored.

Options that OpenAI knows and this server does not are accepted only with the value that asks for
nothing, because clients send them so (`logprobs: false`, `presence_penalty: 0`).
"""

from collections.abc import Mapping
from typing import Any, Literal

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agon.game.prompts import Message as PromptMessage
from agon.serve.errors import ApiError, bad_request

LARGEST_N = 128
MOST_STOPS = 4
LARGEST_SEED = 2**63 - 1

# Names that OpenAI knows, and the values of them that ask for nothing. A null asks for nothing, too.
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "logprobs": (False,),
    "top_logprobs": (0,),
    "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "metadata": ({},),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    **dict.fromkeys(
        (
            *("parallel_tool_calls", "audio", "prediction", "reasoning_effort", "verbosity"),
            *("web_search_options", "prompt_cache_key", "safety_identifier", "moderation"),
        ),
        (),
    ),
}


class Part(BaseModel):
    """A piece of a message; only text is read."""

    model_config = ConfigDict(extra="allow", strict=True)

    type: str
    text: str | None = None


class Message(BaseModel):
    """One turn. Reasoning of earlier answers may come back, and is not shown to the model again."""

    model_config = ConfigDict(extra="forbid", strict=True)

    role: str
    content: str | list[Part] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    # Null in messages that a client sends back as it received them.
    refusal: None = None
    annotations: list[Any] | None = Field(default=None, max_length=0)
    audio: None = None
    function_call: None = None
    tool_calls: list[Any] | None = Field(default=None, max_length=0)


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    include_usage: bool | None = None


class ChatRequest(BaseModel):
    """A request to /v1/chat/completions."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    model: str
    messages: list[Message] = Field(min_length=1)
    n: int | None = Field(default=None, ge=1, le=LARGEST_N)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1, description="of each stage")
    max_completion_tokens: int | None = Field(default=None, ge=1, description="of each stage")
    stop: str | list[str] | None = Field(default=None, description="in the content; a draft is not cut")
    seed: int | None = Field(default=None, ge=-LARGEST_SEED - 1, le=LARGEST_SEED)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = Field(default=None, description="has no effect, here as at OpenAI")
    agon: bool | None = Field(
        default=None, description="whether to return the draft and both stages' figures"
    )

    @property
    def tokens(self) -> int | None:
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


def read_request(body: bytes) -> ChatRequest:
    """The request in a body, or the error that says what is wrong with it."""
    try:
        found = pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise bad_request(f"The body is not JSON: {error}.", code="invalid_json") from error
    if not isinstance(found, dict):
        raise bad_request("The body must be a JSON object.", code="invalid_json")
    for name, neutral in NEUTRAL.items():
        if name in found and (found[name] is None or _among(found[name], neutral)):
            del found[name]
        elif name in found:
            raise bad_request(f"'{name}' is not supported by this server.", name, "unsupported_parameter")
    try:
        request = ChatRequest.model_validate(found)
    except ValidationError as error:
        raise _first_error(error) from error
    _check(request)
    return request


def _check(request: ChatRequest) -> None:
    """What a single field cannot know."""
    both = (request.max_tokens, request.max_completion_tokens)
    if None not in both and both[0] != both[1]:
        raise bad_request("'max_tokens' and 'max_completion_tokens' differ; give one of them.", "max_tokens")
    if request.stream_options is not None and not request.stream:
        raise bad_request("'stream_options' is for requests with 'stream': true.", "stream_options")
    if len(request.stops) > MOST_STOPS or "" in request.stops:
        raise bad_request(f"'stop' takes up to {MOST_STOPS} sequences, none of them empty.", "stop")


ROLES = ("system", "developer", "user", "assistant")


def conversation(request: ChatRequest) -> tuple[str, tuple[PromptMessage, ...]]:
    """The problem, which is the last user turn, and the messages before it."""
    messages = [_plain(message, f"messages[{at}]") for at, message in enumerate(request.messages)]
    *before, last = messages
    if last["role"] != "user":
        raise bad_request("The last message must be the user's: it is the problem.", "messages")
    if not last["content"].strip():
        raise bad_request("The last message is empty; it must hold the problem.", "messages")
    return last["content"], tuple(before)


def _plain(message: Message, where: str) -> PromptMessage:
    if message.role not in ROLES:
        raise bad_request(
            f"'{where}.role' must be one of {', '.join(ROLES)}; tools are not supported.", f"{where}.role"
        )
    if message.content is None and message.role != "assistant":
        raise bad_request(f"'{where}.content' is missing.", f"{where}.content")
    parts = message.content or ""
    if isinstance(parts, list):
        for part in parts:
            if part.type != "text" or part.text is None or part.model_extra:
                raise bad_request(
                    f"'{where}.content' may hold text only; '{part.type[:40]}' is not supported.",
                    f"{where}.content",
                    "unsupported_content",
                )
        parts = "".join(part.text or "" for part in parts)
    # Templates know no developer; it is what OpenAI calls the system prompt since.
    role: Literal["system"] | str = "system" if message.role == "developer" else message.role
    return {"role": role, "content": parts}


def _among(value: Any, allowed: tuple[Any, ...]) -> bool:
    """Equal, and of the same kind: false is not 0."""
    return any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in allowed)


def _first_error(error: ValidationError) -> ApiError:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    param = _param(first["loc"])
    if first["type"] == "extra_forbidden":
        return bad_request(f"Unknown parameter: '{param}'.", param, "unknown_parameter")
    if first["type"] == "missing":
        return bad_request(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")
    if first["type"] in ("none_required", "too_long") and param.startswith("messages["):
        return bad_request(f"'{param}' is not supported by this server.", param, "unsupported_parameter")
    return bad_request(f"Invalid value for '{param}': {first['msg']}.", param)


UNIONS = ("content", "stop")  # pydantic adds the kind that it tried after these


def _param(loc: tuple[str | int, ...]) -> str:
    """A place as OpenAI writes it: messages[0].content."""
    written = ""
    for part in loc:
        written += f"[{part}]" if isinstance(part, int) else f".{part}" if written else str(part)[:100]
        if part in UNIONS:
            break
    return written
