"""What cannot be answered is refused in OpenAI's shape, with the right status and the parameter at fault."""

import json
from typing import Any

import httpx
import openai
import pytest

from tests.serve.running import SUM, Running

PLAIN: dict[str, Any] = {"model": "agon", "messages": [{"role": "user", "content": SUM}]}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def with_messages(*messages: Any) -> dict[str, Any]:
    return {"model": "agon", "messages": list(messages)}


# What is asked → the parameter and the code of the error.
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({**PLAIN, "model": "gpt-4o"}, "model", "model_not_found"),
    ({"model": "agon"}, "messages", "missing_required_parameter"),
    ({"messages": PLAIN["messages"]}, "model", "missing_required_parameter"),
    (with_messages(), "messages", "invalid_value"),
    (with_messages({"role": "user", "content": "  "}), "messages", "invalid_value"),
    (with_messages({"role": "system", "content": SUM}), "messages", "invalid_value"),
    (with_messages({"role": "tool", "content": SUM}), "messages[0].role", "invalid_value"),
    (with_messages({"role": "user"}), "messages[0].content", "invalid_value"),
    (with_messages({"role": "user", "content": 5}), "messages[0].content", "invalid_value"),
    (with_messages({"role": "user", "content": SUM, "name": "x"}), "messages[0].name", "unknown_parameter"),
    (
        with_messages({"role": "user", "content": [{"type": "text", "text": SUM}, IMAGE]}),
        "messages[0].content",
        "unsupported_content",
    ),
    (
        with_messages({"role": "assistant", "content": "", "tool_calls": [{}]}, PLAIN["messages"][0]),
        "messages[0].tool_calls",
        "unsupported_parameter",
    ),
    ({**PLAIN, "temperature": 3}, "temperature", "invalid_value"),
    ({**PLAIN, "temperature": -0.1}, "temperature", "invalid_value"),
    ({**PLAIN, "temperature": "warm"}, "temperature", "invalid_value"),
    ({**PLAIN, "top_p": 0}, "top_p", "invalid_value"),
    ({**PLAIN, "n": 0}, "n", "invalid_value"),
    ({**PLAIN, "n": 129}, "n", "invalid_value"),
    ({**PLAIN, "n": True}, "n", "invalid_value"),
    ({**PLAIN, "max_tokens": 0}, "max_tokens", "invalid_value"),
    ({**PLAIN, "max_tokens": 5, "max_completion_tokens": 6}, "max_tokens", "invalid_value"),
    ({**PLAIN, "max_tokens": 511}, "messages", "context_length_exceeded"),
    ({**PLAIN, "seed": 2**63}, "seed", "invalid_value"),
    ({**PLAIN, "seed": 1.5}, "seed", "invalid_value"),
    ({**PLAIN, "stop": ["a", "b", "c", "d", "e"]}, "stop", "invalid_value"),
    ({**PLAIN, "stop": ""}, "stop", "invalid_value"),
    ({**PLAIN, "stop": 5}, "stop", "invalid_value"),
    ({**PLAIN, "stream": "yes"}, "stream", "invalid_value"),
    ({**PLAIN, "stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
    (
        {**PLAIN, "stream": True, "stream_options": {"x": 1}},
        "stream_options.x",
        "unknown_parameter",
    ),
    ({**PLAIN, "best_of": 4}, "best_of", "unknown_parameter"),
    ({**PLAIN, "top_k": 4}, "top_k", "unknown_parameter"),
    ({**PLAIN, "tools": [{"type": "function"}]}, "tools", "unsupported_parameter"),
    ({**PLAIN, "response_format": {"type": "json_object"}}, "response_format", "unsupported_parameter"),
    ({**PLAIN, "logprobs": True}, "logprobs", "unsupported_parameter"),
    ({**PLAIN, "presence_penalty": 0.5}, "presence_penalty", "unsupported_parameter"),
    ({**PLAIN, "logit_bias": {"5": 1}}, "logit_bias", "unsupported_parameter"),
    ({**PLAIN, "reasoning_effort": "low"}, "reasoning_effort", "unsupported_parameter"),
    ({**PLAIN, "top_logprobs": False}, "top_logprobs", "unsupported_parameter"),
    (with_messages({"role": "user", "content": "1 + " * 400}), "messages", "context_length_exceeded"),
    (with_messages({"role": "user", "content": "1" * 100_000}), "messages", "context_length_exceeded"),
]


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """The error in an answer, which must have exactly the keys that clients read."""
    assert answer.headers["content-type"] == "application/json"
    (error,) = answer.json().values()
    assert list(answer.json()) == ["error"]
    assert sorted(error) == ["code", "message", "param", "type"]
    assert error["message"].endswith(".")
    assert "Traceback" not in answer.text
    return dict(error)


@pytest.mark.parametrize(
    ("asked", "param", "code"), WRONG, ids=[f"{number}-{param}" for number, (_, param, _) in enumerate(WRONG)]
)
def test_a_wrong_request_is_refused_and_the_parameter_named(
    server: Running, asked: dict[str, Any], param: str, code: str
) -> None:
    with server.http() as http:
        answer = http.post("/v1/chat/completions", json=asked)
    error = error_of(answer)
    assert (error["param"], error["code"]) == (param, code), error
    assert answer.status_code == (404 if code == "model_not_found" else 400)
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"x"', b'{"model": NaN}', b"\xff\xfe", b'{"model": "\\ud800"}', b"[" * 100_000],
    ids=["empty", "open", "list", "null", "text", "nan", "bytes", "surrogate", "deep"],
)  # fmt: skip
def test_a_body_that_is_no_json_object_is_refused(server: Running, body: bytes) -> None:
    with server.http() as http:
        answer = http.post("/v1/chat/completions", content=body)
    assert answer.status_code == 400
    assert error_of(answer)["code"] == "invalid_json"


def test_what_asks_for_nothing_is_accepted(server: Running) -> None:
    """As clients send it: defaults spelled out, and nulls."""
    neutral = {
        "logprobs": False,
        "presence_penalty": 0.0,
        "frequency_penalty": 0,
        "logit_bias": {},
        "tools": None,
        "tool_choice": "none",
        "response_format": {"type": "text"},
        "user": "somebody",
        "stream": False,
        "max_tokens": 4,
        **dict.fromkeys(("n", "stop", "seed", "stream_options", "temperature")),
    }
    with server.http() as http:
        assert http.post("/v1/chat/completions", json={**PLAIN, **neutral}).status_code == 200


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_that_is_too_large_is_refused_with_its_length_declared_or_not(
    server: Running, declared: bool
) -> None:
    big = json.dumps({**PLAIN, "user": "x" * 1_000_001}).encode()
    with server.http() as http:
        answer = http.post("/v1/chat/completions", content=big if declared else iter([big]))
    assert answer.status_code == 413
    assert error_of(answer)["code"] == "request_too_large"


@pytest.mark.parametrize("key", ["wrong", None, "a-key-for-test", "a-key-for-tests2", "schlüssel"])
def test_without_the_right_key_nothing_is_answered_but_health(server: Running, key: str | None) -> None:
    headers = {} if key is None else {b"Authorization": f"Bearer {key}".encode()}
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as http:
        for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/metrics")):
            answer = http.request(method, path)
            assert answer.status_code == 401
            assert error_of(answer)["code"] == "invalid_api_key"
        assert http.get("/health").json() == {"status": "ok"}


def test_pages_that_are_not_offered_say_so(server: Running) -> None:
    with server.http() as http:
        for method, path, status in (
            ("POST", "/v1/completions", 404),
            ("POST", "/v1/embeddings", 404),
            ("GET", "/v1/models/nosuch", 404),
            ("GET", "/v1/chat/completions", 405),
            ("GET", "/", 404),
        ):
            answer = http.request(method, path)
            assert answer.status_code == status, path
            error_of(answer)
        assert "use /v1/chat/completions" in http.post("/v1/completions").text


def test_the_official_client_raises_its_own_errors(server: Running) -> None:
    client = server.client()
    with pytest.raises(openai.NotFoundError, match="this server has agon, agon-ab") as missing:
        client.chat.completions.create(**{**PLAIN, "model": "gpt-4o"})
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="'tools' is not supported") as refused:
        client.chat.completions.create(**PLAIN, tools=[{"type": "function", "function": {"name": "f"}}])
    assert refused.value.param == "tools"
    with pytest.raises(openai.AuthenticationError):
        server.client(key="wrong").chat.completions.create(**PLAIN)


def test_the_page_of_the_interface_describes_a_chat_request(server: Running) -> None:
    with server.http(key=None) as http:
        described = http.get("/openapi.json").json()
        assert http.get("/docs").status_code == 200
    content = described["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]
    assert {"model", "messages", "agon"} <= set(content["application/json"]["schema"]["properties"])
