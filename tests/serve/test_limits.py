"""Overload, time, the log, and the end of a server."""

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from agon.serve.errors import ApiError
from agon.serve.limits import Gate, Limits, read_body
from agon.serve.server import is_loopback
from tests.serve.running import KEY, SUM, Running, other_limits

ASKED: dict[str, Any] = {"model": "agon", "messages": [{"role": "user", "content": SUM}]}


def test_more_than_fits_is_told_to_come_again(server: Running) -> None:
    with other_limits(server, in_flight=4):
        held = server.client().chat.completions.create(**ASKED, n=3, stream=True)
        next(iter(held))
        with pytest.raises(openai.RateLimitError) as refused:
            server.client().chat.completions.create(**ASKED, n=2)
        assert 1 <= int(refused.value.response.headers["retry-after"]) <= 30
        assert refused.value.code == "rate_limit_exceeded"
        assert server.client().chat.completions.create(**ASKED, n=1, max_tokens=2).choices
        held.close()
        with pytest.raises(openai.BadRequestError, match="'n' may be 4 at most"):
            server.client().chat.completions.create(**ASKED, n=5)


def test_the_official_client_comes_again_by_itself(server: Running) -> None:
    with other_limits(server, in_flight=1):
        held = server.client().chat.completions.create(**ASKED, stream=True)
        patient = server.client().with_options(max_retries=5)
        assert patient.chat.completions.create(**ASKED, max_tokens=2).choices
        held.close()


def test_what_takes_too_long_is_ended(server: Running) -> None:
    with other_limits(server, timeout_s=0.02):
        with pytest.raises(openai.InternalServerError) as late:
            server.client().chat.completions.create(**ASKED, n=16)
        assert (late.value.status_code, late.value.code) == (504, "timeout")
        with pytest.raises(openai.APIError, match=r"took longer than 0\.02 s"):
            list(server.client().chat.completions.create(**ASKED, n=16, stream=True))


def test_a_prompt_may_be_limited_below_what_the_engine_reads(server: Running) -> None:
    expected = pytest.raises(openai.BadRequestError, match="length is 5 tokens here")
    with other_limits(server, prompt_tokens=5), expected:
        server.client().chat.completions.create(**ASKED)


def test_a_body_that_never_comes_is_not_waited_for() -> None:
    async def slow() -> AsyncIterator[bytes]:
        await asyncio.sleep(60)
        yield b""

    with pytest.raises(ApiError) as refused:
        asyncio.run(read_body(slow(), None, Limits(body_timeout_s=0.01)))
    assert refused.value.status == 408


def test_a_client_that_goes_away_before_it_has_asked_is_no_failure(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    before = server.opened.service.metrics.cancelled
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as connection:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
        connection.sendall(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
    deadline = time.monotonic() + 10
    while server.opened.service.metrics.cancelled == before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.opened.service.metrics.cancelled == before + 1
    assert "Traceback" not in caplog.text


def test_the_log_has_no_prompt_unless_asked(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    client = server.client()
    client.chat.completions.create(**ASKED, max_tokens=3)
    assert "agon 200, 6 tokens in" in caplog.text
    assert "27 + 35" not in caplog.text
    server.opened.service.log_prompts = True
    try:
        client.chat.completions.create(**ASKED, max_tokens=3)
    finally:
        server.opened.service.log_prompts = False
    assert "27 + 35" in caplog.text


def test_metrics_count_requests_tokens_and_seconds_by_stage(server: Running) -> None:
    def read() -> dict[str, float]:
        with server.http() as http:
            lines = http.get("/metrics").text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    before = read()
    answer = server.client().chat.completions.create(**ASKED, seed=4, extra_body={"agon": True})
    after = read()

    def grew(name: str) -> float:
        return after[name] - before.get(name, 0)

    stages = answer.agon["choices"][0]["stages"]
    for stage in ("draft", "final"):
        for kind, key in (("completion", "tokens"), ("prompt", "prompt_tokens")):
            assert grew(f'agon_tokens_total{{stage="{stage}",kind="{kind}"}}') == stages[stage][key]
        assert grew(f'agon_stage_seconds_count{{stage="{stage}"}}') == 1
    assert grew('agon_requests_total{model="agon",status="200"}') == 1
    assert after["agon_answers_in_flight"] == after["agon_stages_running"] == 0


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False),
     ("192.168.1.5", False), ("example.org", False), ("::", False)],
)  # fmt: skip
def test_only_loopback_is_this_machine_alone(host: str, own: bool) -> None:
    assert is_loopback(host) == own


def test_sigterm_answers_what_is_under_way_and_ends_with_code_0(pair_run: Path) -> None:
    """The real command, in a process of its own."""
    command = [sys.executable, "-m", "agon.cli", "serve", str(pair_run), "--port", "0", "--host", "0.0.0.0"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "AGON_API_KEY": ""}
    )
    try:
        assert process.stderr is not None
        said = [process.stderr.readline() for _ in range(3)]
        assert "agon is A->B, chosen on nothing" in said[1]
        assert "0.0.0.0 can be reached from other machines, by anyone: set --api-key" in said[2]
        port = said[0].rsplit(":", 1)[1].partition("/")[0]
        url = f"http://127.0.0.1:{port}"
        asked = {**ASKED, "stream": True, "n": 8}
        with httpx.stream(
            "POST", f"{url}/v1/chat/completions", json=asked, timeout=60, trust_env=False
        ) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("data: ")
            process.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line.startswith("data: ")]
        assert rest[-1] == "data: [DONE]"
        ends = [json.loads(line[6:])["choices"][0]["finish_reason"] for line in rest[:-1]]
        assert ends.count("stop") == 8
        assert process.wait(30) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/health", trust_env=False)
        assert "everything under way was answered" in process.stderr.read()
    finally:
        process.kill()
        process.wait()


def test_health_says_when_nothing_can_be_sampled(server: Running) -> None:
    driver: Any = server.opened.service.cascade.sampler
    driver.trouble = "The engine has failed (RuntimeError)."
    try:
        with server.http() as http:
            assert http.get("/health").status_code == 503
            answer = http.post("/v1/chat/completions", json=ASKED)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "service_unavailable"
    finally:
        driver.trouble = None


def test_a_gate_lets_in_again_what_has_left() -> None:
    gate = Gate(2)
    began = time.monotonic()
    for _ in range(3):
        with gate.enter(2), pytest.raises(ApiError, match="Too many"), gate.enter(1):
            pass
    assert gate.in_flight == 0
    assert time.monotonic() - began < 1
