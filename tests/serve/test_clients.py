"""What other clients make of a stream and of a whole answer, by the rules of their own sources.

Open WebUI (backend/open_webui/utils/middleware.py) takes the first of `reasoning_content`, `reasoning` and
`thinking` of a delta for thoughts, `content` for the answer, and looks for tags of thoughts in the
answer, which it would then cut out. LiteLLM (litellm/llms/openai/chat/gpt_transformation.py and
litellm_core_utils/prompt_templates/common_utils.py) renames `reasoning` of a delta to
`reasoning_content`, and of a message takes `reasoning_content`, else `reasoning`, else what stands
between think tags.
"""

import json
from typing import Any

import pytest

from tests.serve.running import SUM, Running

ASKED = {"model": "agon", "messages": [{"role": "user", "content": SUM}], "seed": 5}
WEBUI_FIELDS = ("reasoning_content", "reasoning", "thinking")
WEBUI_TAGS = ("think", "thinking", "reason", "reasoning", "thought", "Thought")


@pytest.fixture(scope="module")
def lines(server: Running) -> list[str]:
    """The events of a stream, as they are on the wire."""
    with server.http() as http:
        answer = http.post("/v1/chat/completions", json={**ASKED, "stream": True})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    return [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]


@pytest.fixture(scope="module")
def message(server: Running) -> dict[str, Any]:
    with server.http() as http:
        answer = http.post("/v1/chat/completions", json=ASKED)
    return dict(answer.json()["choices"][0]["message"])


def deltas(lines: list[str]) -> list[dict[str, Any]]:
    assert lines[-1] == "[DONE]"
    return [json.loads(line)["choices"][0]["delta"] for line in lines[:-1]]


def test_open_webui_shows_the_draft_as_thoughts_and_the_final_as_the_answer(
    lines: list[str], message: dict[str, Any]
) -> None:
    thoughts = answer = ""
    ended = False  # it closes the block of thoughts at the first word of the answer
    for delta in deltas(lines):
        thought = next((delta[name] for name in WEBUI_FIELDS if delta.get(name)), "")
        ended = ended or bool(delta.get("content"))
        assert not (thought and ended), "thoughts after the answer would open a second block"
        thoughts += thought
        answer += delta.get("content") or ""
    assert thoughts == message["reasoning_content"]
    assert answer == message["content"]
    assert not any(f"<{tag}>" in answer or f"</{tag}>" in answer for tag in WEBUI_TAGS)


def test_litellm_finds_the_same_once_in_a_stream_and_in_a_message(
    lines: list[str], message: dict[str, Any]
) -> None:
    thoughts = ""
    for delta in deltas(lines):
        if "reasoning" in delta:
            delta["reasoning_content"] = delta.pop("reasoning")
        thoughts += delta.get("reasoning_content") or ""
    assert thoughts == message["reasoning_content"] == message["reasoning"]
    assert "<think>" not in message["content"]


def test_every_event_is_one_line_of_json_with_what_clients_read(lines: list[str]) -> None:
    chunks = [json.loads(line) for line in lines[:-1]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["stop"]
