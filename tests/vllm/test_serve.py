"""The cascade on real vLLM, in a child process and on two servers: policies, streams, signals, one server killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import psutil
import pytest
import yaml

from agon.engines.vllm_replica import Replica, ReplicaError
from agon.serve.core_process import VARIABLE
from agon.serve.export import export
from agon.serve.open import ServeOptions
from tests.serve.running import KEY, Running, serving
from tests.vllm.servers import Server
from tests.vllm.tiny import Tiny

TOKENS = 150
GREEDY: dict[str, Any] = {"model": "agon", "temperature": 0, "max_tokens": TOKENS}


@pytest.fixture
def run(tiny: Tiny, tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    tiny.pair.save(folder / "adapters")
    options = {"model": str(tiny.path), "method": "agon", "dialect": "boxed", "max_completion_length": 24}
    options |= {"eval_temperature": 0.0, "eval_top_p": 1.0}
    (folder / "config.yaml").write_text(yaml.safe_dump(options))
    return folder


@pytest.fixture
def front(run: Path, servers: list[Server]) -> Iterator[Running]:
    options = ServeOptions(engine="vllm-server", vllm_servers=[server.url for server in servers], api_key=KEY)
    with serving(run, options) as running:
        engine: Any = running.opened.loaded.engine
        wait_until_ready(engine)
        yield running


def wait_until_ready(engine: Any) -> None:
    deadline = time.monotonic() + 300
    while set(engine.replicas().values()) != {"ready"}:
        assert time.monotonic() < deadline, engine.replicas()
        time.sleep(0.1)


def problem(number: int) -> str:
    return f"what is {number} and {number}?"


def ask(running: Running, number: int, stream: bool = False, **options: Any) -> tuple[str, str]:
    """Reasoning and content of a greedy answer."""
    asked = {**GREEDY, "messages": [{"role": "user", "content": problem(number)}], **options}
    client = running.client(timeout=300.0)
    if not stream:
        message: Any = client.chat.completions.create(**asked).choices[0].message
        return getattr(message, "reasoning", ""), message.content
    reasoning = content = ""
    for chunk in client.chat.completions.create(**asked, stream=True):
        delta: Any = chunk.choices[0].delta
        reasoning += getattr(delta, "reasoning_content", None) or ""
        content += delta.content or ""
    return reasoning, content


def test_both_stages_are_those_of_the_transformers_engine(run: Path, front: Running) -> None:
    """Greedy, in float32, token for token; A and B are clearly different here."""
    models = ("agon-ab", "agon-ba", "agon-a", "agon-base")
    theirs = {model: ask(front, 7, stream=True, model=model, max_tokens=24) for model in models}
    assert {model: ask(front, 7, model=model, max_tokens=24) for model in models} == theirs
    with serving(run, ServeOptions(api_key=KEY)) as alone:
        assert {model: ask(alone, 7, model=model, max_tokens=24) for model in models} == theirs
    assert len(set(theirs.values())) == 4


def test_vllm_s_own_engine_streams_the_same_and_lets_cancelled_requests_go(run: Path) -> None:
    with serving(run, ServeOptions(api_key=KEY)) as alone:
        expected = [ask(alone, number, max_tokens=40) for number in range(6)]
    options = ServeOptions(engine="vllm", max_model_len=1024, api_key=KEY)
    with serving(run, options) as running, ThreadPoolExecutor(6) as pool:
        streamed = pool.map(lambda number: ask(running, number, stream=True, max_tokens=40), range(6))
        assert list(streamed) == expected
        whole = pool.map(lambda number: ask(running, number, max_tokens=40), range(6))
        assert list(whole) == expected
        asked = {**GREEDY, "messages": [{"role": "user", "content": problem(3)}], "n": 4, "max_tokens": 500}
        stream = running.client().chat.completions.create(**asked, stream=True)
        for _, _ in zip(range(8), stream, strict=False):
            pass
        stream.close()
        running.wait_until_idle()
        warm: dict[str, Any] = {"temperature": 1.0, "seed": 9, "max_tokens": 40}
        assert ask(running, 1, **warm) == ask(running, 1, **warm)
        assert ask(running, 1, **warm) != ask(running, 1, **{**warm, "seed": 10})


def test_a_client_that_goes_away_leaves_nothing_running(front: Running) -> None:
    asked = {**GREEDY, "messages": [{"role": "user", "content": problem(3)}], "n": 4}
    stream = front.client().chat.completions.create(**asked, stream=True)
    for _, _ in zip(range(8), stream, strict=False):
        pass
    stream.close()
    front.wait_until_idle()
    engine: Any = front.opened.loaded.engine
    assert all(replica.in_flight == 0 for replica in engine._replicas)


def test_the_exported_client_runs_the_same_cascade_against_plain_vllm(
    front: Running, run: Path, servers: list[Server], tmp_path: Path
) -> None:
    folder = tmp_path / "exported"
    export(str(run), folder)
    for policy in ("A", "B"):
        body = {"lora_name": policy, "lora_path": str(folder / "adapters" / policy)}
        httpx.post(f"{servers[0].url}/v1/load_lora_adapter", json=body, timeout=120).raise_for_status()
    words = [sys.executable, str(folder / "ask.py"), problem(5), f"{servers[0].url}/v1"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    for policy in ("A", "B"):
        httpx.post(f"{servers[0].url}/v1/unload_lora_adapter", json={"lora_name": policy}, timeout=120)
    asked = {**GREEDY, "messages": [{"role": "user", "content": problem(5)}], "max_tokens": 24}
    answer: Any = front.client().chat.completions.create(**asked, extra_body={"agon": True})
    (ours,) = answer.agon["choices"]
    assert said == f"draft\n{ours['draft']}\n\nshown\n{ours['shown']}\n\nfinal\n{ours['final']}\n"


def test_while_no_server_is_ready_requests_are_refused_and_health_says_so(front: Running) -> None:
    engine: Any = front.opened.loaded.engine
    replicas: Any = front.opened.service.cascade.sampler
    replicas._patience_s = 0.1

    def unwell(_: Replica) -> None:
        raise ReplicaError("was told to rest")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Replica, "check_health", unwell)  # however long what follows takes, none comes back
        while (replica := engine.lease()) is not None:
            engine.give_back(replica, ReplicaError("was told to rest"))
        with front.http() as http:
            assert http.get("/health").status_code == 503
        with pytest.raises(openai.InternalServerError) as refused:
            ask(front, 1)
    assert refused.value.status_code == 503
    assert refused.value.code == "service_unavailable"
    wait_until_ready(engine)  # a server that is excluded at the end would keep its adapters
    assert ask(front, 1)


def test_a_server_killed_under_load_loses_no_request(front: Running, servers: list[Server]) -> None:
    """Streams go on elsewhere where they were; greedy, so that each must say what it says undisturbed."""
    expected = [ask(front, number) for number in range(4)]
    metrics = front.opened.service.metrics
    begun = threading.Event()

    def disturbed(number: int) -> tuple[str, str]:
        begun.set()
        return ask(front, number % 4, stream=number % 2 == 0)

    with ThreadPoolExecutor(48) as pool:
        answers = [pool.submit(disturbed, number) for number in range(96)]
        begun.wait()
        while metrics.tokens[("stage", "draft"), ("kind", "completion")] < 20 * TOKENS:
            time.sleep(0.02)
        servers[0].kill()
        found = [answer.result() for answer in answers]
    assert found == [expected[number % 4] for number in range(96)]
    assert metrics.retries > 0
    assert "ready" not in front.opened.loaded.engine.replicas()[servers[0].url]  # type: ignore[attr-defined]
    front.wait_until_idle()


@pytest.mark.exhaustive  # two processes, beside all that CI runs on two cores
def test_the_core_ends_with_its_service(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")  # a test before this one may have kept vLLM's core in this process
    options = ServeOptions(engine="vllm", max_model_len=1024, api_key=KEY)
    with serving(run, options) as running:
        core = [each for each in psutil.Process().children() if "EngineCore" in each.name()]
        assert len(core) == 1
        assert ask(running, 1, max_tokens=8)
    # Although `running` still refers to the engine: Python would wait for the core as it ends.
    _, alive = psutil.wait_procs(core, timeout=10)
    assert not alive


@pytest.mark.exhaustive  # two servers with two processes each, beside all that CI runs on two cores
def test_ctrl_c_for_the_whole_terminal_ends_no_answer_and_a_killed_server_leaves_no_process(
    run: Path,
) -> None:
    """vLLM's own processes get what the terminal sends too, and must neither end before the server nor after it."""
    for ending in (signal.SIGINT, signal.SIGKILL):
        command = [sys.executable, "-m", "agon.cli", "serve", str(run), "--engine", "vllm", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--max-model-len", "1024"],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Where a test before this one has started vLLM in this process, the variable says so.
            env={name: value for name, value in os.environ.items() if name != VARIABLE},
        )
        try:
            assert process.stderr is not None
            url = next(line for line in process.stderr if " at http" in line).split()[-1]
            threading.Thread(target=process.stderr.read, daemon=True).start()
            children = psutil.Process(process.pid).children(recursive=True)
            assert any("EngineCore" in child.name() for child in children)
            asked = {**GREEDY, "messages": [{"role": "user", "content": problem(1)}], "stream": True, "n": 4}
            with httpx.stream("POST", f"{url}/chat/completions", json=asked, timeout=120) as answer:
                lines = answer.iter_lines()
                assert next(lines).startswith("data: ")
                if ending == signal.SIGINT:
                    os.killpg(process.pid, ending)
                    rest = [line for line in lines if line]
                    assert rest[-1] == "data: [DONE]"
                    assert '"finish_reason":"' in rest[-2]
                else:
                    process.kill()
            assert process.wait(120) == (0 if ending == signal.SIGINT else -signal.SIGKILL)
            _, alive = psutil.wait_procs(children, timeout=60)
            assert not alive
        finally:
            process.kill()
            process.wait()
