"""Answers in the shape that OpenAI clients read: completions, chunks of a stream, models.

Reasoning stands under both names that clients look for, `reasoning_content` and `reasoning`.
"""

import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agon.serve.cascade import Delta
from agon.serve.routes import Route
from agon.serve.stages import Answer, StageResult

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Reply:
    """What all parts of one answer have in common."""

    model: str
    route: Route
    fingerprint: str
    prompt_tokens: int
    with_agon: bool = False
    id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def completion(self, answers: Sequence[Answer]) -> dict[str, Any]:
        """A whole answer."""
        choices = [
            {
                "index": index,
                "message": _message(answer),
                "finish_reason": answer.finish_reason,
                "logprobs": None,
            }
            for index, answer in enumerate(answers)
        ]
        return {
            **self._head("chat.completion", choices),
            "usage": self.usage(answers),
            **self._agon(enumerate(answers)),
        }

    def opening(self, index: int) -> dict[str, Any]:
        return self._chunk(index, {"role": "assistant", "content": ""})

    def text(self, index: int, delta: Delta) -> bytes:
        """New text as an event. Most events are of this kind, so nothing but the text is encoded for each."""
        said = json.dumps(delta.text)
        names = ("content",) if delta.kind == "content" else ("reasoning_content", "reasoning")
        fields = ",".join(f'"{name}":{said}' for name in names)
        choice = f'{{"index":{index},"delta":{{{fields}}},"finish_reason":null,"logprobs":null}}'
        return f"{self._before_choice}{choice}]}}\n\n".encode()

    @cached_property
    def _before_choice(self) -> str:
        return event(self._head("chat.completion.chunk", [])).decode().rstrip().removesuffix("]}")

    def closing(self, index: int, answer: Answer) -> dict[str, Any]:
        return {**self._chunk(index, {}, answer.finish_reason), **self._agon([(index, answer)])}

    def usage_chunk(self, answers: Sequence[Answer]) -> dict[str, Any]:
        return {**self._head("chat.completion.chunk", []), "usage": self.usage(answers)}

    def usage(self, answers: Iterable[Answer]) -> dict[str, Any]:
        """The prompt as it was asked, once; of the completions, both stages."""
        answers = list(answers)
        completion = sum(answer.tokens for answer in answers)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.prompt_tokens + completion,
            "completion_tokens_details": {
                "reasoning_tokens": sum(answer.reasoning_tokens for answer in answers)
            },
        }

    def _chunk(
        self, index: int, delta: Mapping[str, Any], finish_reason: str | None = None
    ) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return self._head("chat.completion.chunk", [choice])

    def _head(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": choices,
        }

    def _agon(self, answers: Iterable[tuple[int, Answer]]) -> dict[str, Any]:
        """Both stages of each answer, if they were asked for."""
        if not self.with_agon:
            return {}
        return {
            "agon": {"route": self.route.name, "choices": [_details(index, each) for index, each in answers]}
        }


def event(chunk: Mapping[str, Any]) -> bytes:
    """A chunk as a server-sent event."""
    return f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n".encode()


def model_card(name: str, route: Route, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "agon", "route": route.name}


def _message(answer: Answer) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer.content, "refusal": None}
    if answer.reasoning:
        message |= {"reasoning_content": answer.reasoning, "reasoning": answer.reasoning}
    return message


def _details(index: int, answer: Answer) -> dict[str, Any]:
    return {
        "index": index,
        "draft": answer.draft.text if answer.draft else None,
        "shown": answer.shown,
        "final": answer.final.text,
        "answer": answer.answer,
        "stages": {
            name: _stage(stage)
            for name, stage in (("draft", answer.draft), ("final", answer.final))
            if stage is not None
        },
    }


def _stage(stage: StageResult) -> dict[str, Any]:
    return {
        "policy": stage.policy,
        "prompt_tokens": stage.prompt_tokens,
        "tokens": stage.tokens,
        "finish_reason": stage.finish_reason,
        "seconds": round(stage.seconds, 4),
        "first_token_seconds": None if stage.first_token_s is None else round(stage.first_token_s, 4),
    }
