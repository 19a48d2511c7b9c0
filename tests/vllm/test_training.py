"""Training on vLLM: four steps in process, four with the model in a child of it, and four on two servers of
which one dies in the middle."""

from pathlib import Path
from typing import Any

from transformers import PrinterCallback, TrainerCallback

from agon.engines.vllm_server import VllmServerEngine
from agon.train.trainer import AgonTrainer
from tests import tiny
from tests.train.build import config
from tests.vllm.servers import Server
from tests.vllm.tiny import Tiny

STEPS = 4


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
    args = config(folder, max_steps=STEPS, vllm_max_model_length=1024, vllm_enforce_eager=True, **options)
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


def trained(base: Path, folder: Path, **options: Any) -> AgonTrainer:
    ours = trainer(base, folder, engine="vllm", **options)
    witness = Witness(ours)
    ours.add_callback(witness)
    ours.train()
    ours.close()
    check(ours, witness)
    return ours


def played(ours: AgonTrainer) -> list[tuple[int, str, str]]:
    return sorted(
        (duel.step, duel.problem.id, duel.draft.rollout.text + duel.challenge.rollout.text)
        for duel in ours.run.duels()
        if duel.challenge
    )


def test_four_steps_in_process_in_a_child_and_on_servers_that_die_learn_the_same(
    made: Tiny, servers: list[Server], tmp_path: Path
) -> None:
    inside = trained(made.path, tmp_path / "inside")
    child = trained(made.path, tmp_path / "child", vllm_worker_process=True)
    assert played(child) == played(inside)

    outside = trainer(
        made.path,
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
    assert played(outside) == played(inside)
