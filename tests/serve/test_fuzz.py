"""Requests by the thousand that no client would send: no 500, no traceback, and the server stays alive."""

import json
import os
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.serve.running import SUM, Running

SEED = int(os.environ.get("AGON_FUZZ_SEED", "0"))
STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 1.5, 1e308, -0.0, 10**30, 2**63, "", "x", "\x00", "𝄞\u202e", "<think>"),
    *([], {}, [None], [[]], {"type": "text"}, {"a": {"b": []}}, "x" * 3000, ["x"] * 50, "<|im_end|>\n<|im_start|>"),
)  # fmt: skip
NAMES = (
    *(
        "model",
        "messages",
        "n",
        "temperature",
        "top_p",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "seed",
    ),
    *(
        "stream",
        "stream_options",
        "user",
        "agon",
        "tools",
        "logprobs",
        "logit_bias",
        "response_format",
        "x",
        "",
    ),
    *("messages[0]", "functions", "best_of", "modalities", "audio", "metadata", "store", "service_tier"),
)
ROLES = ("user", "system", "developer", "assistant", "tool", "", "User", None, 5)


def message(rng: random.Random) -> Any:
    if rng.random() < 0.1:
        return rng.choice(STRANGE)
    content = rng.choice([SUM, SUM, rng.choice(STRANGE), [{"type": "text", "text": rng.choice(STRANGE)}]])
    made = {"role": rng.choice(ROLES), "content": content}
    if rng.random() < 0.2:
        made[rng.choice(["name", "tool_calls", "reasoning", "refusal", "audio"])] = rng.choice(STRANGE)
    return made


def request(rng: random.Random) -> dict[str, Any]:
    """A right request with something wrong in it, mostly; what is accepted ends soon."""
    made: dict[str, Any] = {
        "model": rng.choice(["agon", "agon-a", "agon-base", "agon-ba"]),
        "messages": [{"role": "user", "content": SUM}],
        "max_tokens": rng.choice([1, 2]),
    }
    if rng.random() < 0.5:
        made["messages"] = [message(rng) for _ in range(rng.randint(0, 3))]
    if rng.random() < 0.3:
        made["stream"] = True
    for _ in range(rng.choice([0, 1, 1, 2])):
        made[rng.choice(NAMES)] = rng.choice(STRANGE)
    return made


def body(rng: random.Random) -> bytes:
    text = json.dumps(request(rng)).encode()
    kind = rng.random()
    if kind < 0.1:  # cut off
        return text[: rng.randrange(len(text))]
    if kind < 0.2:  # a byte changed
        at = rng.randrange(len(text))
        return text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]
    if kind < 0.25:  # anything
        return rng.randbytes(rng.randrange(200))
    return text


def fault(answer: httpx.Response) -> str | None:
    """What is wrong with how a request was answered; None if nothing is."""
    if answer.status_code >= 500 or "Traceback" in answer.text:
        return f"{answer.status_code}: {answer.text[:300]}"
    if answer.status_code != 200:
        error = answer.json().get("error", {})
        return None if sorted(error) == ["code", "message", "param", "type"] else answer.text[:300]
    if answer.headers["content-type"].startswith("text/event-stream"):
        return (
            None
            if answer.text.endswith("data: [DONE]\n\n") and '"error"' not in answer.text
            else answer.text[-300:]
        )
    return None if answer.json()["choices"] else answer.text[:300]


def faults(server: Running, count: int, seed: int, at_once: int) -> list[str]:
    rng = random.Random(seed)
    bodies = [body(rng) for _ in range(count)]
    statuses: Counter[int] = Counter()
    own = threading.local()  # a client of httpx closes idle connections under other threads' hands
    with server.http() as http, ThreadPoolExecutor(at_once) as pool:

        def send(content: bytes) -> str | None:
            if not hasattr(own, "http"):
                own.http = server.http()
            answer = own.http.post("/v1/chat/completions", content=content)
            statuses[answer.status_code] += 1
            wrong = fault(answer)
            return f"{content[:300]!r}\n{wrong}" if wrong else None

        found = [wrong for wrong in pool.map(send, bodies) if wrong]
        assert http.get("/health").json() == {"status": "ok"}
    server.wait_until_idle()
    print(f"{count} requests, {len(found)} faults; {dict(statuses)}")
    assert statuses[200] > count // 20
    assert statuses[400] > count // 2
    return found


def test_two_hundred_strange_requests_are_answered_or_refused(server: Running) -> None:
    assert faults(server, 200, SEED, at_once=16) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(5400)
def test_ten_thousand_strange_requests_are_answered_or_refused(server: Running) -> None:
    assert faults(server, 10_000, SEED + 1, at_once=64) == []
