"""LiteLLM asks the embedded pair over HTTP.

It needs another `openai` than ours: `scripts/litellm_contract.sh` makes an environment for it and runs these tests.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.serve.running import KEY, SUM, Running

VARIABLE = "AGON_LITELLM_PYTHON"
PYTHON = os.environ.get(VARIABLE)
pytestmark = pytest.mark.skipif(PYTHON is None, reason="`make nightly` has LiteLLM")
CLIENT = Path(__file__).parent / "litellm_client.py"
PLAIN: dict[str, Any] = {
    "model": "openai/agon",
    "messages": [{"role": "user", "content": SUM}],
    "temperature": 0,
}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def asked(server: Running, key: str = KEY, **scenarios: dict[str, Any]) -> Any:
    """What LiteLLM made of the server's answers, by scenario."""
    assert PYTHON is not None
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [PYTHON, str(CLIENT), server.url, key],
        input=json.dumps(scenarios),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**clean, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},  # the other one is on the network
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_answers_streams_counts_and_seeds(server: Running) -> None:
    warm = {**PLAIN, "temperature": 1.0}
    found = asked(
        server,
        whole=PLAIN,
        streamed={**PLAIN, "streamed": True},
        four={**warm, "n": 4, "seed": 1},
        seed={**warm, "seed": 5},
        again={**warm, "seed": 5},
        short={**PLAIN, "max_tokens": 1},
        many={**warm, "at_once": 64},
    )
    whole, streamed = found["whole"], found["streamed"]
    ours: Any = server.client().chat.completions.create(**{**PLAIN, "model": "agon"})
    assert whole["contents"] == [ours.choices[0].message.content]
    assert whole["reasoning"] == [ours.choices[0].message.reasoning_content]
    assert whole["tokens"] == [
        ours.usage.prompt_tokens,
        ours.usage.completion_tokens,
        ours.usage.total_tokens,
    ]
    assert whole["reasoning_tokens"] == ours.usage.completion_tokens_details.reasoning_tokens
    assert streamed == {name: value for name, value in whole.items() if name != "reasoning_tokens"}
    assert len(found["four"]["contents"]) == 4
    assert found["seed"] == found["again"]
    assert found["short"]["finish"] == ["length"], found["short"]
    assert len(found["many"]) == 64
    assert all(answer["reasoning"][0] for answer in found["many"])


def test_a_client_that_goes_away_leaves_nothing_running(server: Running) -> None:
    long = {**PLAIN, "temperature": 1.0, "n": 16, "max_tokens": 200, "streamed": True, "leave_after": 3}
    assert asked(server, left=long) == {"left": None}
    server.wait_until_idle()


def test_refusals_are_the_errors_that_litellm_knows(server: Running) -> None:
    image = [{"role": "user", "content": [{"type": "text", "text": SUM}, IMAGE]}]
    found = asked(
        server,
        model={**PLAIN, "model": "openai/gpt-4o"},
        option={**PLAIN, "extra_body": {"grammar": "x"}},
        image={**PLAIN, "messages": image},
        oversize={**PLAIN, "messages": [{"role": "user", "content": "7 + " * 400_000}]},
    )
    assert {name: (each["error"], each["status"]) for name, each in found.items()} == {
        "model": ("NotFoundError", 404),
        "option": ("BadRequestError", 400),
        "image": ("BadRequestError", 400),
        "oversize": ("BadRequestError", 413),
    }
    refused = asked(server, "wrong", plain=PLAIN)["plain"]
    assert (refused["error"], refused["status"]) == ("AuthenticationError", 401)
