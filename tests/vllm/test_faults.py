"""What vLLM may do in the middle of a round: hang, run out of memory, lose a sync. The round is played again."""

import os
import signal
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PrinterCallback

from agon.engines import vllm_engine
from agon.engines.options import ServerOptions
from agon.engines.protocol import Sampling
from agon.engines.vllm_engine import VllmEngine
from agon.engines.vllm_server import VllmServerEngine
from agon.errors import InputError
from agon.train.redo import recover
from agon.train.stopping import StopRunError
from agon.train.trainer import AgonTrainer
from tests import tiny as own
from tests.faults.scene import at_step
from tests.train.build import config
from tests.vllm.servers import Server
from tests.vllm.test_server import adapters, seeded_requests, until
from tests.vllm.test_worker import IN_A_CHILD, IN_PROCESS, start, workers
from tests.vllm.tiny import LONG, Tiny, play

GREEDY = Sampling(24, temperature=0.0)
QUICK = ServerOptions(heartbeat_s=0.3, control_timeout_s=5.0, patience_s=3.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM waits five minutes for a child that hangs; here a few seconds."""
    from vllm import envs

    envs.disable_envs_cache()
    monkeypatch.setenv("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", "6")


def sample_as_before(engine: VllmEngine, tiny: Tiny) -> None:
    for policy in ("A", "B"):
        engine.sync(policy, 0)
    rollouts = play(engine, [tiny.request(policy, policy, LONG, GREEDY) for policy in ("A", "B")])
    assert {key: list(rollout.token_ids) for key, rollout in rollouts.items()} == {
        policy: tiny.greedy(policy, LONG, 24) for policy in ("A", "B")
    }


def out_of_cache(*_: Any) -> None:
    raise ValueError("No available memory for the cache blocks.")


def out_of_memory(*_: Any) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


@pytest.mark.exhaustive  # most of a minute
def test_a_child_that_hangs_is_an_error_in_time_and_replaced(tiny: Tiny, impatient: None) -> None:
    engine = start(tiny, IN_A_CHILD)
    [worker] = workers()
    os.kill(worker, signal.SIGSTOP)
    with pytest.raises(RuntimeError, match="worker process has not answered for 6 seconds"):
        engine.sync("A", 1)
    engine.submit([tiny.request("long", "B", "1+1=?", GREEDY)])
    with pytest.raises(RuntimeError, match="worker process has not answered for 6 seconds") as hung:
        engine.collect()
    engine.recover(hung.value)
    assert len(workers()) == 1
    assert workers() != [worker]
    sample_as_before(engine, tiny)
    engine.close()
    assert workers() == []


def test_an_engine_that_ran_out_of_memory_samples_as_before(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(tiny, IN_PROCESS)
    engine.submit([tiny.request("long", "A", "1+1=?", GREEDY)])
    engine._engine.step = out_of_memory
    with pytest.raises(torch.OutOfMemoryError) as short:
        engine.collect()
    before = weakref.ref(engine._llm)
    engine.recover(short.value)
    assert before() is None  # else its memory would be taken twice
    sample_as_before(engine, tiny)
    # A second start that fails stops the run, which keeps its last step: it is no wrong input.
    monkeypatch.setattr(vllm_engine, "_start", out_of_cache)
    with pytest.raises(StopRunError, match="No available memory"):
        recover(engine, short.value)
    engine.close()


def test_a_sync_that_one_of_two_servers_does_not_take_goes_on_with_the_other(
    tiny: Tiny, servers: list[Server]
) -> None:
    urls = [server.url for server in servers]
    engine = VllmServerEngine(urls, tiny.pair, tiny.chat.decode, tiny.stop_ids, QUICK)
    for policy in ("A", "B"):
        engine.sync(policy, 0)
    until(lambda: set(engine.replicas().values()) == {"ready"})
    try:
        servers[1].freeze(True)
        tiny.change_weights("A", seed=400)
        engine.sync("A", 1)
        assert engine.replicas()[urls[0]] == "ready"
        assert engine.replicas()[urls[1]] != "ready"
        requests = [tiny.request(str(n), "A", LONG, GREEDY, version=1) for n in range(8)]
        expected = tiny.greedy("A", LONG, 24)
        assert [list(rollout.token_ids) for rollout in play(engine, requests).values()] == [expected] * 8
        servers[1].freeze(False)
        until(lambda: engine.replicas()[urls[1]] == "ready")
        assert "A@1" in {name.split("-")[0] for name in adapters(servers[1])}
        assert [list(rollout.token_ids) for rollout in play(engine, requests).values()] == [expected] * 8
    finally:
        servers[1].freeze(False)
        engine.close()


def test_servers_that_all_hang_are_one_error_and_answer_again_when_they_are_back(
    tiny: Tiny, servers: list[Server]
) -> None:
    urls = [server.url for server in servers]
    engine = VllmServerEngine(urls, tiny.pair, tiny.chat.decode, tiny.stop_ids, QUICK)
    for policy in ("A", "B"):
        engine.sync(policy, 0)
    until(lambda: set(engine.replicas().values()) == {"ready"})
    requests = seeded_requests(tiny, 4, 40)
    whole = play(engine, requests)
    try:
        for server in servers:
            server.freeze(True)
        engine.submit(requests)
        began = time.monotonic()
        with pytest.raises(InputError, match="None of 2 vLLM servers can answer"):
            engine.collect()
        assert time.monotonic() - began < 120
        for server in servers:
            server.freeze(False)
        engine.recover(None)
        until(lambda: set(engine.replicas().values()) == {"ready"})
        again = play(engine, requests)
        assert {key: rollout.token_ids for key, rollout in again.items()} == {
            key: rollout.token_ids for key, rollout in whole.items()
        }
    finally:
        for server in servers:
            server.freeze(False)
        engine.close()


def trainer(base: Path, folder: Path, **options: Any) -> AgonTrainer:
    every = {"max_steps": 4, "save_strategy": "steps", "save_steps": 50, "vllm_max_model_length": 1024}
    args = config(folder, **{**every, "vllm_enforce_eager": True, **options})
    made = AgonTrainer(str(base), own.task(), args)
    made.remove_callback(PrinterCallback)
    return made


def trained(ours: AgonTrainer, step: int, fault: Callable[[AgonTrainer], None] | None = None) -> list[str]:
    """The duels of a run that a fault is done to at a step, as far as it came; then it is closed."""
    if fault is not None:
        at_step(ours, step, lambda: fault(ours))
    try:
        ours.train(resume_from_checkpoint=True)
    finally:
        ours.close()
    return played(ours)


def played(ours: AgonTrainer) -> list[str]:
    return [
        f"{duel.step} {duel.problem.id} {duel.draft.rollout.text} {duel.challenge.rollout.text}"
        for duel in ours.run.duels()
        if duel.challenge
    ]


def hang(ours: AgonTrainer) -> None:
    [worker] = workers()
    os.kill(worker, signal.SIGSTOP)


def short_of_memory_once(ours: AgonTrainer) -> None:
    assert isinstance(ours.engine, VllmEngine)
    ours.engine._engine.step = out_of_memory


def short_of_memory(ours: AgonTrainer) -> None:
    assert isinstance(ours.engine, VllmEngine)
    ours.engine._step = out_of_memory  # type: ignore[assignment,method-assign]


@pytest.mark.exhaustive
def test_a_training_whose_vllm_hangs_or_runs_out_of_memory_plays_the_round_again_or_keeps_the_last_step(
    shared_tiny: Tiny, tmp_path: Path, impatient: None, capsys: pytest.CaptureFixture[str]
) -> None:
    def ours(name: str, **options: Any) -> AgonTrainer:
        return trainer(shared_tiny.path, tmp_path / name, engine="vllm", **options)

    whole = trained(ours("whole"), 0)
    assert trained(ours("hung", vllm_worker_process=True), 2, hang) == whole
    assert "has not answered for 6 seconds.): this round is played again" in capsys.readouterr().err
    assert trained(ours("short"), 2, short_of_memory_once) == whole
    with pytest.raises(StopRunError, match=r"out of memory.*lower engine_rows"):
        trained(ours("shorter"), 2, short_of_memory)
    assert trained(ours("shorter"), 0) == whole


@pytest.mark.exhaustive
def test_a_training_whose_servers_all_hang_keeps_the_last_step_and_goes_on_when_they_are_back(
    shared_tiny: Tiny, servers: list[Server], tmp_path: Path
) -> None:
    def ours(name: str) -> AgonTrainer:
        urls = [server.url for server in servers]
        made = trainer(shared_tiny.path, tmp_path / name, engine="vllm-server", vllm_servers=urls)
        assert isinstance(made.engine, VllmServerEngine)
        quick = {"heartbeat_s": 0.3, "control_timeout_s": 5.0, "patience_s": 3.0}
        made.engine._options = replace(made.engine._options, **quick)  # type: ignore[arg-type]
        for replica in made.engine._replicas:
            replica._control_timeout_s = 5.0
        return made

    def freeze(_: AgonTrainer) -> None:
        for server in servers:
            server.freeze(True)

    whole = trained(ours("whole"), 0)
    try:
        with pytest.raises(InputError, match="None of 2 vLLM servers can answer"):
            trained(ours("hung"), 2, freeze)
    finally:
        for server in servers:
            server.freeze(False)
    assert trained(ours("hung"), 0) == whole
