"""The model in a child process, as on a GPU: the same rollouts, and no process left behind."""

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import pytest

from agon.engines import worker_fork
from agon.engines.options import VllmOptions
from agon.engines.protocol import Sampling, derive_seed
from agon.engines.vllm_engine import VllmEngine
from agon.errors import InputError
from tests.vllm.tiny import LONG, Tiny, play

IN_PROCESS = VllmOptions(dtype="float32", max_model_len=1024, max_num_seqs=64, enforce_eager=True)
IN_A_CHILD = replace(IN_PROCESS, worker_process=True)


def start(tiny: Tiny, options: VllmOptions) -> VllmEngine:
    engine = VllmEngine(str(tiny.path), tiny.pair, tiny.chat.decode, tiny.stop_ids, options)
    for policy in ("A", "B"):
        engine.sync(policy, 0)
    return engine


def workers() -> list[int]:
    return [child.pid for child in active_children() if child.pid and "vllm" in child.name.lower()]


def test_a_child_samples_what_this_process_does_and_ends_with_its_engine(tiny: Tiny) -> None:
    warm, greedy = Sampling(24, temperature=0.8, top_p=0.95), Sampling(24, temperature=0.0)
    requests = [
        tiny.request(f"{policy}{n}", policy, f"{n}+{n}=?", warm, seed=derive_seed(policy, n))
        for n in range(6)
        for policy in ("A", "B", "base")
    ]
    engine = start(tiny, IN_PROCESS)
    assert workers() == []
    expected = play(engine, requests)
    engine.close()

    engine = start(tiny, IN_A_CHILD)
    [worker] = workers()
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # as Ctrl-C and a scheduler send them; the trainer handles them
        os.kill(worker, number)
    rollouts = play(engine, requests)
    assert {key: rollout.token_ids for key, rollout in rollouts.items()} == {
        key: rollout.token_ids for key, rollout in expected.items()
    }
    for key, rollout in rollouts.items():
        assert rollout.logprobs == pytest.approx(expected[key].logprobs, abs=1e-5)

    tiny.change_weights("A", seed=7)
    engine.sync("A", 1)
    rollout = play(engine, [tiny.request("new", "A", LONG, greedy, version=1)])["new"]
    assert list(rollout.token_ids) == tiny.greedy("A", LONG, 24)
    assert workers() == [worker]
    engine.close()
    assert workers() == []


def test_a_vllm_that_cannot_start_is_one_sentence(
    tiny: Tiny, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=r"vLLM does not start: (?s:.*)max_model_len"):
        start(tiny, replace(IN_PROCESS, max_model_len=10**7))

    without_weights = tmp_path / "model"
    shutil.copytree(tiny.path, without_weights, ignore=shutil.ignore_patterns("*.safetensors"))
    with pytest.raises(InputError, match="worker process does not start"):
        start(replace(tiny, path=without_weights), IN_A_CHILD)
    assert "Cannot find any model weights" in capfd.readouterr().out  # the child's own words
    assert workers() == []


@pytest.mark.exhaustive  # the child of the fork server below dies the same death
def test_a_child_that_dies_is_an_error_at_once(tiny: Tiny) -> None:
    engine = start(tiny, IN_A_CHILD)
    engine.submit([tiny.request("long", "A", "1+1=?", Sampling(900))])
    [worker] = workers()
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="worker process died"):
        engine.collect()
    engine.close()
    assert workers() == []


@pytest.mark.exhaustive  # most of a minute
def test_a_child_that_died_is_replaced_and_samples_as_before(tiny: Tiny) -> None:
    greedy = Sampling(24, temperature=0.0)
    engine = start(tiny, IN_A_CHILD)
    engine.submit([tiny.request("long", "A", "1+1=?", Sampling(900))])
    [worker] = workers()
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="worker process died") as died:
        engine.collect()
    engine.recover(died.value)
    assert len(workers()) == 1
    assert workers() != [worker]
    for policy in ("A", "B"):
        engine.sync(policy, 0)
    rollout = play(engine, [tiny.request("again", "A", LONG, greedy)])["again"]
    assert list(rollout.token_ids) == tiny.greedy("A", LONG, 24)
    engine.close()
    assert workers() == []


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def variable_of_worker(worker: Any, name: str) -> str | None:
    return os.environ.get(name)


@pytest.fixture(scope="module")
def fork_server() -> Iterator[None]:
    """The server that `agon train` starts, stopped again: other tests have their children as vLLM starts them."""
    get_context("forkserver").Process(target=str).start()  # everybody's server is another one
    worker_fork.prepare()
    yield
    worker_fork._prepared.clear()
    worker_fork._server._stop()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("fork_server")
def test_a_child_forked_from_the_server_samples_as_any_other_and_outlives_its_signals(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    greedy = Sampling(24, temperature=0.0)
    monkeypatch.setenv("AGON_SET_LATER", "as here")  # after the server was started
    engine = start(tiny, IN_A_CHILD)
    [worker] = workers()
    server = parent_of(worker)
    assert server != os.getpid()
    assert parent_of(server) == os.getpid()
    assert engine._child.collective_rpc(variable_of_worker, args=("AGON_SET_LATER",)) == ["as here"]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        os.kill(server, number)
        os.kill(worker, number)
    rollout = play(engine, [tiny.request("one", "A", LONG, greedy)])["one"]
    assert list(rollout.token_ids) == tiny.greedy("A", LONG, 24)

    engine.submit([tiny.request("long", "A", "1+1=?", Sampling(900))])
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="worker process died"):
        engine.collect()
    engine.close()
    assert workers() == []


@pytest.mark.exhaustive  # most of a minute
@pytest.mark.usefixtures("fork_server")
def test_a_server_that_cannot_fork_a_worker_is_left_alone(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_fork, "_exit_if_unfit", fail)
    engine = start(tiny, IN_A_CHILD)
    [worker] = workers()
    assert parent_of(worker) == os.getpid()
    engine.close()


def fail() -> None:
    raise SystemExit(1)
