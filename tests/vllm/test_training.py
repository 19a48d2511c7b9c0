"""Training on vLLM: four steps in process, and four on two servers of which one dies in the middle."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import PrinterCallback, TrainerCallback

from agon.engines.vllm_server import VllmServerEngine
from agon.train.trainer import AgonTrainer
from tests import tiny
from tests.train.build import config
from tests.vllm.servers import Server

STEPS = 4


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder: vLLM reads the base for itself."""
    folder = tmp_path_factory.mktemp("base") / "model"
    tiny.model("qwen3", head_dim=32).save_pretrained(folder)  # vLLM's attention has no heads of 16
    tiny.tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def servers(base: Path, tmp_path: Path) -> Iterator[list[Server]]:
    pool = [Server(base, tmp_path / f"{number}.log") for number in range(2)]
    for server in pool:
        server.start()
    for server in pool:
        server.wait()
    yield pool
    for server in pool:
        server.kill()


class Witness(TrainerCallback):
    """Takes the fingerprints of base and policies after every step."""

    def __init__(self, ours: AgonTrainer) -> None:
        self.ours = ours
        self.seen = [self._now()]

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.seen.append(self._now())

    def _now(self) -> dict[str, str]:
        return {name: self.ours.pair.fingerprint(name) for name in ("base", "A", "B")}


def trainer(base: Path, folder: Path, **options: Any) -> AgonTrainer:
    args = config(folder, max_steps=STEPS, vllm_max_model_length=512, vllm_enforce_eager=True, **options)
    made = AgonTrainer(str(base), tiny.task(), args)
    made.remove_callback(PrinterCallback)
    return made


def check(ours: AgonTrainer, witness: Witness) -> None:
    """Both policies learned in every step from rollouts of their present weights, and the base stood still."""
    for policy in "AB":
        assert len({now[policy] for now in witness.seen}) == STEPS + 1
    assert len({now["base"] for now in witness.seen}) == 1
    duels = list(ours.run.duels())
    assert len(duels) == STEPS * 4 * 4
    for duel in duels:
        assert duel.challenge is not None
        assert {duel.draft.rollout.version, duel.challenge.rollout.version} == {duel.step}
        assert {duel.draft.rollout.policy, duel.challenge.rollout.policy} == {"A", "B"}
    assert set(ours.gaps) == {"A", "B"}
    assert max(ours.gaps.values()) < 1e-4


def test_four_steps_in_process_and_on_servers_that_die_learn_the_same(
    base: Path, servers: list[Server], tmp_path: Path
) -> None:
    inside = trainer(base, tmp_path / "inside", engine="vllm")
    witness = Witness(inside)
    inside.add_callback(witness)
    inside.train()
    inside.close()
    check(inside, witness)

    outside = trainer(
        base,
        tmp_path / "outside",
        engine="vllm-server",
        vllm_servers=[server.url for server in servers],
    )
    assert isinstance(outside.engine, VllmServerEngine)
    other = Witness(outside)
    outside.add_callback(other)

    def kill_one(done: int, wanted: int) -> None:
        if outside.state.global_step == 1 and 0 < done < wanted and servers[1].running:
            servers[1].kill()

    outside.on_sampling = kill_one
    outside.train()
    assert not servers[1].running
    assert outside.engine.replicas()[servers[0].url] == "ready"
    assert outside.engine.replicas()[servers[1].url] != "ready"
    outside.close()
    check(outside, other)

    # The same vLLM with the same seeds: that one server died changed nothing that was learned.
    def played(ours: AgonTrainer) -> list[tuple[int, str, str]]:
        return sorted(
            (duel.step, duel.problem.id, duel.draft.rollout.text + duel.challenge.rollout.text)
            for duel in ours.run.duels()
            if duel.challenge
        )

    assert played(outside) == played(inside)
