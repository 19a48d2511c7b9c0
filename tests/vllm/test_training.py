"""Training on vLLM: four steps in process, four with the model in a child process, four on two servers of which one
dies in the middle, and four whose rounds are sampled ahead."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from transformers import PrinterCallback, TrainerCallback

from agon.cli import main
from agon.engines import vllm_engine
from agon.engines.vllm_server import VllmServerEngine
from agon.evaluate.load import EngineChoice, load_target
from agon.evaluate.target import open_target
from agon.evaluate.vllm_budget import VllmBudget
from agon.runs.folder import Run
from agon.runs.trust import EVERYTHING
from agon.train.trainer import AgonTrainer
from tests import tiny
from tests.train.build import config
from tests.vllm.servers import Server
from tests.vllm.tiny import Tiny

STEPS = 4


class Fingerprints(TrainerCallback):
    """Records the fingerprints of base and policies after every step."""

    def __init__(self, ours: AgonTrainer) -> None:
        self.ours = ours
        self.history = [self._current()]

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.history.append(self._current())

    def _current(self) -> dict[str, str]:
        return {name: self.ours.pair.fingerprint(name) for name in ("base", "A", "B")}


def trainer(base: Path, folder: Path, **options: Any) -> AgonTrainer:
    chosen = {"max_steps": STEPS, "vllm_max_model_length": 1024, "vllm_enforce_eager": True, **options}
    args = config(folder, **chosen)
    trainer = AgonTrainer(str(base), tiny.task(), args)
    trainer.remove_callback(PrinterCallback)
    return trainer


def check(ours: AgonTrainer, fingerprints: Fingerprints) -> None:
    """Both policies learned in every step from rollouts of their current weights, and the base did not change."""
    for policy in "AB":
        assert len({step[policy] for step in fingerprints.history}) == STEPS + 1
    assert len({step["base"] for step in fingerprints.history}) == 1
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
    fingerprints = Fingerprints(ours)
    ours.add_callback(fingerprints)
    ours.train()
    ours.close()
    check(ours, fingerprints)
    return ours


def played(ours: AgonTrainer) -> list[tuple[int, str, str]]:
    return sorted(
        (duel.step, duel.problem.id, duel.draft.rollout.text + duel.challenge.rollout.text)
        for duel in ours.run.duels()
        if duel.challenge
    )


def test_four_steps_in_process_in_a_child_and_on_servers_that_die_learn_the_same(
    shared_tiny: Tiny, servers: list[Server], tmp_path: Path
) -> None:
    inside = trained(shared_tiny.path, tmp_path / "inside")
    child = trained(shared_tiny.path, tmp_path / "child", vllm_worker_process=True)
    assert played(child) == played(inside)

    outside = trainer(
        shared_tiny.path,
        tmp_path / "outside",
        engine="vllm-server",
        vllm_servers=[server.url for server in servers],
    )
    assert isinstance(outside.engine, VllmServerEngine)
    fingerprints = Fingerprints(outside)
    outside.add_callback(fingerprints)

    def kill_one(done: int, wanted: int) -> None:
        if outside.state.global_step == 1 and 0 < done < wanted and servers[1].running:
            servers[1].kill()

    outside.on_sampling = kill_one
    outside.train()
    assert not servers[1].running
    assert outside.engine.replicas()[servers[0].url] == "ready"
    assert outside.engine.replicas()[servers[1].url] != "ready"
    outside.close()
    check(outside, fingerprints)

    # The same vLLM with the same seeds: the death of one server changed no duel.
    assert played(outside) == played(inside)


def test_a_round_that_is_sampled_while_another_one_trains_is_one_step_old(
    shared_tiny: Tiny, tmp_path: Path
) -> None:
    ours = trainer(shared_tiny.path, tmp_path, engine="vllm", sample_ahead=True)
    fingerprints = Fingerprints(ours)
    ours.add_callback(fingerprints)
    ours.train()
    ours.close()
    for policy in "AB":
        assert len({step[policy] for step in fingerprints.history}) == STEPS + 1
    lines = [line for line in ours.run.read_metrics() if "loss" in line]
    assert [line["staleness"] for line in lines] == [0, 1, 1, 1]
    assert {
        (duel.step, entry.rollout.version)
        for duel in ours.run.duels()
        for entry in (duel.draft, duel.challenge)
        if entry
    } == {(0, 0), (1, 0), (2, 1), (3, 2)}
    assert not [thread for thread in threading.enumerate() if thread.name == "next-round"]


@pytest.mark.exhaustive
def test_a_round_that_nobody_wants_leaves_vllm_ready_for_the_next(shared_tiny: Tiny, tmp_path: Path) -> None:
    """A checkpoint that nobody could foresee: the round is given up in the middle, and sampled when it is due."""

    class SaveNow(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_save = state.global_step == 1

    # Long enough to be given up before it is done.
    ours = trainer(
        shared_tiny.path, tmp_path, engine="vllm", sample_ahead=True, max_completion_length=200, max_steps=3
    )
    ours.add_callback(SaveNow())
    ours.train()
    ours.close()
    assert {(duel.step, duel.draft.rollout.version) for duel in ours.run.duels()} == {(0, 0), (1, 1), (2, 1)}


def test_the_engine_of_a_training_plays_its_final_evaluation(
    shared_tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    starts: list[object] = []
    start = vllm_engine._start

    def counted(*arguments: Any) -> Any:
        starts.append(arguments)
        return start(*arguments)

    monkeypatch.setattr(vllm_engine, "_start", counted)
    folder = tmp_path / "run"
    task = "gym:chain_sum,train=8,validation=4,test=4"
    small = "--max_steps 1 --num_generations 4 --per_device_train_batch_size 4 --max_completion_length 8"
    words = f"train --model {shared_tiny.path} --task {task} --dialect boxed --output_dir {folder} {small}"
    words += " --engine vllm --vllm_enforce_eager true --vllm_max_model_length 1024"
    words += " --judge_workers 1 --final_evaluation 3"
    asked = f"eval {folder} --split validation --limit 2 --no-controls --engine vllm".split()
    lost = f"eval {folder} --task none-of-this-name --engine vllm".split()
    stages = [["validation", asked], ["lost", lost]]
    assert main([*words.split(), "--stages", json.dumps(stages)]) == 0
    assert len(starts) == 1
    assert list(Run(folder).read_times()) == ["validation"]  # a sweep does the rest
    assert f"agon eval {folder} --engine vllm" in capsys.readouterr().out
    played = Run(folder).evaluation("gym:chain_sum", "test").folder
    settings, result = (json.loads((played / name).read_text()) for name in ("settings.json", "result.json"))
    assert (settings["engine"], result["n"]) == ("vllm", 3)
    # The weights are those that `agon eval` will find in the folder, so it may go on with these samples.
    choice = EngineChoice("transformers", VllmBudget(8))
    with load_target(open_target(str(folder), EVERYTHING), choice) as loaded:
        assert loaded.fingerprints() == settings["weights"]
