"""The engine over two real servers: what they answer, and what happens when one of them dies."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agon.cli import main
from agon.engines.options import ServerOptions
from agon.engines.protocol import Request, Sampling, derive_seed
from agon.engines.vllm_replica import Replica
from agon.engines.vllm_server import VllmServerEngine
from agon.errors import InputError
from agon.runs.evaluations import EvaluationFolder
from tests.vllm.servers import Server
from tests.vllm.tiny import LONG, Tiny, play

GREEDY = Sampling(24, temperature=0.0)
EVERYONE = ("A", "B", "base")
OPTIONS = ServerOptions(heartbeat_s=0.3)


@pytest.fixture
def engine(tiny: Tiny, servers: list[Server]) -> Iterator[VllmServerEngine]:
    engine = VllmServerEngine(
        [server.url for server in servers], tiny.pair, tiny.chat.decode, tiny.stop_ids, OPTIONS
    )
    for policy in ("A", "B"):
        engine.sync(policy, 0)
    until(lambda: set(engine.replicas().values()) == {"ready"})
    yield engine
    engine.close()


def until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def seeded_requests(tiny: Tiny, count: int, tokens: int) -> list[Request]:
    """Requests of all policies, sampled with seeds of their own."""
    sampling = Sampling(tokens, temperature=0.8, top_p=0.95)
    return [
        tiny.request(f"{policy}{n}", policy, f"{n}+{n}=?", sampling, seed=derive_seed(policy, n))
        for n in range(count)
        for policy in EVERYONE
    ]


def adapters(server: Server) -> dict[str, str]:
    return Replica(server.url, 30.0, 30.0, None).models()[2]


def test_greedy_tokens_equal_peft_on_every_server_through_many_syncs(
    tiny: Tiny, servers: list[Server], engine: VllmServerEngine
) -> None:
    # More syncs than a server has slots: old adapters stay loaded there and must never be used.
    for version in range(1, 5):
        for policy in ("A", "B"):
            tiny.change_weights(policy, seed=200 + version)
            engine.sync(policy, version)
        requests = [
            tiny.request(f"{policy}{copy}", policy, LONG, GREEDY, version * (policy != "base"))
            for copy in range(4)
            for policy in EVERYONE
        ]
        rollouts = play(engine, requests)
        for policy in EVERYONE:
            expected = tiny.greedy(policy, LONG, 24)
            for copy in range(4):
                assert list(rollouts[f"{policy}{copy}"].token_ids) == expected, (version, policy)
                assert rollouts[f"{policy}{copy}"].text == tiny.chat.decode(expected)
    for server in servers:
        names = sorted(name.split("-")[0] for name in adapters(server))
        assert names == ["A@4", "B@4", "base@0"]


def test_log_probs_are_those_that_the_trainer_computes(tiny: Tiny, engine: VllmServerEngine) -> None:
    requests = seeded_requests(tiny, 4, 32)
    at_temperature = [
        Request(r.key, r.prompt_ids, r.policy, r.version, Sampling(32, temperature=0.7), r.seed)
        for r in requests
    ]
    rollouts = play(engine, at_temperature)
    for request in at_temperature:
        rollout = rollouts[request.key]
        expected = tiny.logprobs(request.policy, request.prompt_ids, rollout.token_ids, 0.7)
        assert rollout.logprobs == pytest.approx(expected, abs=1e-4)
        assert rollout.token_ids[-1] in tiny.stop_ids or rollout.finish_reason == "length"


def test_a_version_that_was_not_synced_is_refused(tiny: Tiny, engine: VllmServerEngine) -> None:
    with pytest.raises(InputError, match=r"'A' is at version 0 .* version 1 was asked for"):
        engine.submit([tiny.request("early", "A", "1+1=?", GREEDY, version=1)])
    assert engine.collect() == []


def test_a_request_that_no_server_accepts_ends_with_the_reason(
    tiny: Tiny, servers: list[Server], engine: VllmServerEngine
) -> None:
    with pytest.raises(InputError, match="max_model_len is 1024; set it to at least"):
        engine.submit([tiny.request("big", "A", "1+1=?", Sampling(2000, temperature=0.0))])
    assert engine.collect() == []
    engine.submit([Request("bad token", (99_999,), "A", 0, GREEDY, 0)])
    with pytest.raises(InputError, match=f"The server {servers[0].url[:16]}.* refuses a request: .*vocab"):
        engine.collect()


def test_a_server_killed_with_requests_in_flight_is_excluded_and_comes_back(
    tiny: Tiny, servers: list[Server], engine: VllmServerEngine
) -> None:
    requests = seeded_requests(tiny, 16, 120)
    whole = play(engine, requests)
    until(lambda: set(engine.replicas().values()) == {"ready"})

    engine.submit(requests)
    arrived = {done.request.key: done.rollout for done in engine.collect()}
    assert len(arrived) < len(requests)  # the rest is in flight, on both servers
    servers[1].kill()
    while finished := engine.collect():
        arrived.update({done.request.key: done.rollout for done in finished})
    # The same seeds make the retried rollouts equal to the lost ones.
    assert {key: rollout.token_ids for key, rollout in arrived.items()} == {
        key: rollout.token_ids for key, rollout in whole.items()
    }
    states = engine.replicas()
    assert states[servers[0].url] == "ready"
    assert states[servers[1].url] != "ready"

    # The run continues on one server, and the other loads the newest weights when it returns.
    tiny.change_weights("A", seed=300)
    engine.sync("A", 1)
    servers[1].start()
    servers[1].wait()
    until(lambda: engine.replicas()[servers[1].url] == "ready")
    assert sorted(name.split("-")[0] for name in adapters(servers[1])) == ["A@1", "B@0", "base@0"]
    rollouts = play(engine, [tiny.request(str(n), "A", LONG, GREEDY, version=1) for n in range(8)])
    expected = tiny.greedy("A", LONG, 24)
    assert [list(rollout.token_ids) for rollout in rollouts.values()] == [expected] * 8


def test_a_server_that_hangs_is_excluded_too(tiny: Tiny, servers: list[Server]) -> None:
    urls = [server.url for server in servers]
    quick = ServerOptions(heartbeat_s=0.3, control_timeout_s=10.0)
    engine = VllmServerEngine(urls, tiny.pair, tiny.chat.decode, tiny.stop_ids, quick)
    for policy in ("A", "B"):
        engine.sync(policy, 0)
    until(lambda: set(engine.replicas().values()) == {"ready"})
    requests = seeded_requests(tiny, 16, 120)
    try:
        servers[0].freeze(True)
        assert len(play(engine, requests)) == len(requests)
        assert engine.replicas()[urls[0]] != "ready"
    finally:
        servers[0].freeze(False)
        engine.close()


def test_without_any_server_there_is_one_clear_error(tiny: Tiny, tmp_path: Path) -> None:
    unused = [Server(tiny.path, tmp_path / "log").url for _ in range(2)]
    impatient = ServerOptions(heartbeat_s=0.1, patience_s=1.0)
    with pytest.raises(InputError, match="None of 2 vLLM servers can answer") as refusal:
        VllmServerEngine(unused, tiny.pair, tiny.chat.decode, tiny.stop_ids, impatient)
    assert all(url in str(refusal.value) for url in unused)


def test_a_server_with_raw_log_probs_is_refused_at_once(tiny: Tiny, raw_server: Server) -> None:
    raw_server.wait()
    with pytest.raises(InputError, match="start it with --logprobs-mode processed_logprobs"):
        VllmServerEngine([raw_server.url], tiny.pair, tiny.chat.decode, tiny.stop_ids, OPTIONS)
    raw_server.kill()  # nobody else needs it


def test_an_evaluation_runs_on_servers(shared_tiny: Tiny, servers: list[Server], tmp_path: Path) -> None:
    problems = [{"id": str(n), "problem": f"{n}+{n}=?", "answer": "1", "split": "test"} for n in range(6)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems))
    words = ["eval", str(shared_tiny.path), "--task", str(tmp_path / "sums.jsonl"), "--output", str(tmp_path)]
    urls = [server.url for server in servers]
    assert main([*words, "--max-tokens", "8", "--engine", "vllm-server", "--vllm-servers", *urls]) == 0
    result = EvaluationFolder(tmp_path / "sums-test").read_result()
    assert (result["engine"], result["n"]) == ("vllm-server", 6)
    assert result["arms"]["zero-shot"]["final_length"] > 0
