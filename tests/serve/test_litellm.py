"""LiteLLM asks the embedded pair over HTTP.

It needs another `openai` than ours: `make test-litellm` makes an environment for it and runs these tests.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.running import KEY, SUM, Running, other_limits

VARIABLE = "AGON_LITELLM_PYTHON"
PYTHON = os.environ.get(VARIABLE)
pytestmark = pytest.mark.skipif(PYTHON is None, reason="`make test-litellm` has LiteLLM")
PLAIN: dict[str, Any] = {
    "model": "openai/agon",
    "messages": [{"role": "user", "content": SUM}],
    "temperature": 0,
}
WARM = {**PLAIN, "temperature": 1.0}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
# What is asked → the error that LiteLLM raises, and the status that it has from the server.
REFUSED: dict[str, tuple[dict[str, Any], str, int]] = {
    "wrong model": ({"model": "openai/gpt-4o"}, "NotFoundError", 404),
    "unknown option": ({"extra_body": {"grammar": "x"}}, "BadRequestError", 400),
    "option not supported": ({"logprobs": True}, "BadRequestError", 400),
    "image": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": SUM}, IMAGE]}]},
        "BadRequestError",
        400,
    ),
    "long prompt": (
        {"messages": [{"role": "user", "content": "7 + " * 400}]},
        "ContextWindowExceededError",
        400,
    ),
    "very long prompt": (
        {"messages": [{"role": "user", "content": "7 + " * 40_000}]},
        "ContextWindowExceededError",
        400,
    ),
    "large body": ({"messages": [{"role": "user", "content": "7 + " * 400_000}]}, "BadRequestError", 413),
    "wrong key": ({"api_key": "wrong"}, "AuthenticationError", 401),
    "missing key": ({"extra_headers": {"Authorization": ""}}, "AuthenticationError", 401),
}


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[subprocess.Popen[str]]:
    """One process for all tests here: LiteLLM takes seconds to import."""
    assert PYTHON is not None
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(
        [PYTHON, str(Path(__file__).parent / "litellm_client.py"), server.url, KEY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**clean, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},  # the other one is on the network
    ) as process:
        yield process
        process.communicate(timeout=30)  # its input ends, and so does it
    assert process.returncode == 0


def asked(client: subprocess.Popen[str], **scenarios: dict[str, Any]) -> Any:
    """What LiteLLM made of the server's answers, by scenario."""
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(json.dumps(scenarios) + "\n")
    client.stdin.flush()
    return json.loads(client.stdout.readline())


def told(answer: Any) -> dict[str, Any]:
    """The same of an answer that the official client got."""
    usage = answer.usage
    return {
        "contents": [choice.message.content for choice in answer.choices],
        "reasoning": [choice.message.reasoning_content for choice in answer.choices],
        "finish": [choice.finish_reason for choice in answer.choices],
        "tokens": [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens],
        "reasoning_tokens": usage.completion_tokens_details.reasoning_tokens,
    }


def test_answers_streams_counts_and_seeds(server: Running, client: subprocess.Popen[str]) -> None:
    found = asked(
        client,
        whole=PLAIN,
        streamed={**PLAIN, "streamed": True},
        four={**WARM, "n": 4, "seed": 1},
        seed={**WARM, "seed": 5},
        again={**WARM, "seed": 5},
        short={**PLAIN, "max_tokens": 1},
        many={**WARM, "at_once": 64},
    )
    create: Any = server.client().chat.completions.create
    assert found["whole"] == told(create(**{**PLAIN, "model": "agon"}))
    assert found["streamed"] == {
        name: value for name, value in found["whole"].items() if name != "reasoning_tokens"
    }
    assert found["four"] == told(create(**{**WARM, "model": "agon", "n": 4, "seed": 1}))
    assert len(set(found["four"]["reasoning"])) > 1
    assert found["seed"] == found["again"] == found["many"][5]
    assert found["short"]["finish"] == ["length"], found["short"]
    assert len(found["many"]) == 64
    assert all(answer["reasoning"][0] for answer in found["many"])
    assert len({answer["reasoning"][0] for answer in found["many"]}) > 1


def test_a_client_that_goes_away_leaves_nothing_running(
    server: Running, client: subprocess.Popen[str]
) -> None:
    before = server.opened.service.metrics.cancelled
    long = {**WARM, "n": 16, "max_tokens": 200, "streamed": True, "leave_after": 3}
    assert asked(client, left=long) == {"left": None}
    server.wait_until_idle()
    assert server.opened.service.metrics.cancelled == before + 1


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_refusals_are_the_errors_that_litellm_knows(client: subprocess.Popen[str], streamed: bool) -> None:
    scenarios = {
        name: {**PLAIN, "streamed": streamed, **options} for name, (options, _, _) in REFUSED.items()
    }
    found = asked(client, **scenarios)
    assert {name: (each["error"], each["status"]) for name, each in found.items()} == {
        name: (error, status) for name, (_, error, status) in REFUSED.items()
    }


def test_overload_and_time_are_the_errors_that_litellm_knows(
    server: Running, client: subprocess.Popen[str]
) -> None:
    with other_limits(server, in_flight=1), server.opened.service.gate.enter(1):
        assert asked(client, full=PLAIN)["full"]["error"] == "RateLimitError"
    with other_limits(server, timeout_s=0.02):
        assert asked(client, late={**PLAIN, "n": 16})["late"]["error"] == "Timeout"
