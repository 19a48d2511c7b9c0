"""The next round is sampled while this one trains: by which policies, with which weight, and what if that fails."""

import os
import signal
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

from agon.engines.protocol import Capabilities, Finished
from agon.errors import InputError
from agon.game.methods import METHODS
from agon.game.rollout import Rollout
from agon.runs.check import check_run
from agon.train.callbacks import refuse_changes
from agon.train.round_ahead import Round, RoundAhead
from agon.train.round_rows import ProblemRows
from agon.train.sampling import Peekable
from agon.train.stopping import StopRunError
from agon.train.streams import Batch, Stream
from agon.train.trainer import AgonTrainer
from tests.train import build, copy_engine
from tests.train.build import config
from tests.train.copy_engine import CopyEngine
from tests.train.records import records

# As few micro-batches as there can be: the same rollouts in half the forwards.
FEW: dict[str, Any] = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 2}
Maker = Callable[..., AgonTrainer]
trainer: Maker = partial(build.trainer, **FEW)
copy_trainer: Maker = partial(copy_engine.copy_trainer, **FEW)
MAKERS = {"live": trainer, "copy": copy_trainer}
BOTH = pytest.mark.parametrize("kind", ["copy", pytest.param("live", marks=pytest.mark.exhaustive)])
# One policy, and what has rows and weights of its own; the others are in between.
QUICK = ("grpo", "agon-pooled")


def trained(ours: AgonTrainer, **options: Any) -> AgonTrainer:
    try:
        ours.train(**options)
    finally:
        ours.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "next-round"]
    return ours


def versions(ours: AgonTrainer) -> dict[int, set[int]]:
    """The versions of every step's rollouts."""
    found: dict[int, set[int]] = defaultdict(set)
    for duel in ours.run.duels():
        found[duel.step] |= {
            entry.rollout.version for entry in (duel.draft, duel.challenge) if entry is not None
        }
    return dict(found)


def metric(ours: AgonTrainer, name: str) -> list[float]:
    return [line[name] for line in ours.run.read_metrics() if "loss" in line]


def texts(ours: AgonTrainer) -> list[tuple[int, str, str]]:
    return [
        (duel.step, duel.problem.id, duel.draft.rollout.text + duel.challenge.rollout.text)
        for duel in ours.run.duels()
        if duel.challenge
    ]


def test_the_first_round_is_fresh_and_every_other_one_round_old(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live, copy = (
        trained(make(tmp_path / name, sample_ahead=True, max_steps=3)) for name, make in MAKERS.items()
    )
    assert capsys.readouterr().err.count("nothing overlaps") == 1
    for ours in (live, copy):
        assert versions(ours) == {0: {0}, 1: {0}, 2: {1}}
        assert metric(ours, "staleness") == [0, 1, 1]
        assert not check_run(ours.run.folder).findings
    # Beside training or before it: the same weights, the same seeds, the same rollouts.
    assert texts(live) == texts(copy)
    # What the round before has changed is in the gap, and weights correct it.
    assert min(metric(copy, "draft/sampling/gap")[1:]) > 100 * metric(copy, "draft/sampling/gap")[0]


def test_the_second_round_is_what_the_untrained_policies_write(tmp_path: Path) -> None:
    ours = trained(trainer(tmp_path / "ahead", sample_ahead=True, max_steps=2))
    played = [duel for duel in ours.run.duels() if duel.step == 1]
    fresh = trainer(tmp_path / "fresh")
    by_id = {problem.id: problem for problem in fresh.problems}
    problems = [by_id[name] for name in dict.fromkeys(duel.problem.id for duel in played)]
    planned = fresh._planned(problems, fresh.args.gradient_accumulation_steps, 1)
    again = fresh.arena.play(
        problems,
        fresh.method,
        drafts=4,
        sampling=fresh.args.sampling,
        versions=fresh._sync(),
        step=1,
        seed=planned.seed,
    )
    fresh.close()
    assert [duel.for_log().draft.rollout for group in again for duel in group] == [
        duel.draft.rollout for duel in played
    ]
    # The problems are those that the loader gives for this round: 32 rows, two micro-steps each round, 8 of a problem.
    assert ours._epochs.sampler is not None
    rows = list(ours._epochs.sampler)[64:96:8]
    assert [ours.problems[row] for row in rows] == problems


def plain_logps(ours: AgonTrainer, policy: str, rollout: Rollout) -> torch.Tensor:
    """The log-probs of a rollout's tokens under a policy as it is now."""
    ids = torch.tensor([[*rollout.prompt_ids, *rollout.token_ids]])
    with ours.pair.using(policy), torch.no_grad():
        logits = ours.pair.model(input_ids=ids).logits[0, len(rollout.prompt_ids) - 1 : -1]
    found: torch.Tensor = logits.log_softmax(-1).gather(-1, torch.tensor(rollout.token_ids)[:, None])[:, 0]
    return found


@BOTH
def test_weights_are_the_policy_that_learns_over_the_one_that_sampled(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = MAKERS[kind](tmp_path, sample_ahead=True, max_steps=2, learning_rate=0.1, score_in_training=False)
    seen: list[float] = []
    trained_on: list[Batch] = []
    check, loss = AgonTrainer._check_sampler_of, AgonTrainer._compute_loss

    def compared(self: AgonTrainer, stream: Stream, batch: Batch) -> None:
        for row in stream.kept():
            rollout = stream.entries[row].rollout
            now = plain_logps(self, stream.policy, rollout)
            expected = (now - torch.tensor(rollout.logprobs)).exp().clamp(max=3.0)
            weights = batch["importance_sampling_ratio"][row, : rollout.length]
            torch.testing.assert_close(weights, expected, rtol=1e-3, atol=1e-4)
            seen.append(
                float((weights - 1).abs().max()) if rollout.version != self.state.global_step else 0.0
            )
        check(self, stream, batch)

    def watched(self: AgonTrainer, model: Any, inputs: Batch) -> torch.Tensor:
        trained_on.append(inputs)
        return loss(self, model, inputs)

    monkeypatch.setattr(AgonTrainer, "_check_sampler_of", compared)
    monkeypatch.setattr(AgonTrainer, "_compute_loss", watched)
    trained(ours)
    assert max(seen) > 0.5  # an update that shows
    assert all("importance_sampling_ratio" in inputs for inputs in trained_on)
    # One step for a round: new over old is one, whoever sampled.
    assert not any("old_per_token_logps" in inputs for inputs in trained_on)


VALIDATION = {"eval_strategy": "steps", "eval_steps": 1, "validation_size": 2}


class Crash(TrainerCallback):
    """An error inside, at the end of a step."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self._step:
            raise RuntimeError("crashed")


@BOTH
def test_a_resumed_run_ends_as_the_uninterrupted_one(tmp_path: Path, kind: str) -> None:
    saving = {"save_strategy": "steps", "save_steps": 2, "lr_scheduler_type": "linear"}
    options = {"sample_ahead": True, "max_steps": 4, **saving, **VALIDATION, "eval_steps": 3}
    whole = trained(MAKERS[kind](tmp_path / "whole", **options))
    # A checkpoint knows no round that was sampled ahead, so the round after it is fresh.
    assert versions(whole) == {0: {0}, 1: {0}, 2: {2}, 3: {2}}
    broken = MAKERS[kind](tmp_path / "broken", **options)
    broken.add_callback(Crash(3))
    with pytest.raises(RuntimeError, match="crashed"):
        trained(broken)
    trained(MAKERS[kind](tmp_path / "broken", **options), resume_from_checkpoint=True)
    assert records(tmp_path / "broken") == records(tmp_path / "whole")


class WatchedEngine(CopyEngine):
    """Notes who samples; can fail in the thread, and waits in it until training has begun."""

    def __init__(self, fails: int = 0) -> None:
        super().__init__()
        self.fails = fails
        self.training = threading.Event()
        self.sampled_by: list[str] = []
        self.recovered = 0
        self._busy = threading.Lock()

    def sync(self, policy: str, version: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        assert not self._busy.locked()
        super().sync(policy, version)

    def collect(self) -> list[Finished]:
        name = threading.current_thread().name
        self.sampled_by.append(name)
        with self._busy:
            if name == "next-round" and not self.training.wait(60):
                raise TimeoutError("Training has not begun beside the sampling.")
            if name == "next-round" and self.fails:
                self.fails -= 1
                raise RuntimeError("the engine is gone")
            return super().collect()

    def recover(self, error: Exception | None) -> None:
        self.recovered += 1
        self._inner.recover(error)


class Begun(TrainerCallback):
    """Tells the engine of the first micro-batch that was trained on."""

    def __init__(self, engine: WatchedEngine) -> None:
        self._engine = engine

    def on_substep_end(self, *_: Any, **__: Any) -> None:
        self._engine.training.set()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._engine.training.clear()


def watched_trainer(folder: Path, engine: WatchedEngine, **options: Any) -> AgonTrainer:
    ours = copy_trainer(folder, sampler=engine, **{"sample_ahead": True, "max_steps": 3, **options})
    ours.add_callback(Begun(engine))
    return ours


def test_an_engine_with_weights_of_its_own_samples_beside_training(tmp_path: Path) -> None:
    engine = WatchedEngine()
    ours = trained(watched_trainer(tmp_path, engine, max_steps=3, **VALIDATION))
    assert "next-round" in engine.sampled_by
    assert engine.sampled_by[-1] == "MainThread"  # the last validation
    assert not engine.recovered
    # A validation waits for the round that is being sampled, and leaves it as it is.
    assert versions(ours) == {0: {0}, 1: {0}, 2: {1}}
    assert all(seconds >= 0 for seconds in metric(ours, "time/waiting"))


def test_a_round_whose_sampling_failed_is_sampled_again_when_it_is_due(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = WatchedEngine(fails=1)
    ours = trained(watched_trainer(tmp_path, engine))
    assert versions(ours) == {0: {0}, 1: {1}, 2: {1}}
    assert metric(ours, "staleness") == [0, 0, 1]
    assert engine.recovered == 1
    assert "The engine failed (the engine is gone): this round is played again." in capsys.readouterr().err


@pytest.mark.exhaustive
def test_a_failure_before_a_validation_is_dealt_with_there(tmp_path: Path) -> None:
    ours = trained(watched_trainer(tmp_path, WatchedEngine(fails=1), max_steps=2, **VALIDATION))
    assert versions(ours) == {0: {0}, 1: {1}}
    assert len([line for line in ours.run.read_metrics() if "eval_best" in line]) == 2


class Send(TrainerCallback):
    """A signal at the beginning of a step."""

    def __init__(self, step: int, *numbers: signal.Signals) -> None:
        self._step, self._numbers = step, numbers

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self._step:
            self._step = -1
            for number in self._numbers:
                os.kill(os.getpid(), number)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "numbers",
    [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT,)],
)
def test_a_signal_leaves_no_thread_and_the_round_is_sampled_after_the_resume(
    tmp_path: Path, numbers: tuple[signal.Signals, ...]
) -> None:
    options: dict[str, Any] = {"max_steps": 3, "save_strategy": "steps", "save_steps": 10}
    ours = watched_trainer(tmp_path, WatchedEngine(), **options)
    ours.add_callback(Send(1, *numbers))
    if len(numbers) == 1:
        trained(ours)
    else:
        with pytest.raises(StopRunError):
            trained(ours)
    stopped = int(ours.state.global_step)
    assert ours.run.newest_step() == stopped
    resumed = trained(copy_trainer(tmp_path, sample_ahead=True, **options), resume_from_checkpoint=True)
    assert versions(resumed) == {0: {0}, 1: {0}, 2: {1}} | {stopped: {stopped}}


class HungEngine:
    """An engine that does not return until it is let go."""

    capabilities = Capabilities("hung", streams=True, live_weights=False, logprobs=True)

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.recovered = 0

    def recover(self, error: Exception | None) -> None:
        self.recovered += 1


def test_a_stop_does_not_wait_for_an_engine_that_hangs_but_the_next_round_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agon.train.round_ahead.PATIENCE", 0.05)
    engine: Any = HungEngine()
    ahead: RoundAhead[int] = RoundAhead(engine, torch.device("cpu"))
    planned, later = (Round((), step, ("A", "B"), 0) for step in (1, 2))
    ahead.begin(planned, lambda: None, lambda progress: int(engine.let_go.wait(60)))
    ahead.give_up()
    assert not engine.recovered
    threading.Timer(0.2, engine.let_go.set).start()
    ahead.begin(later, lambda: None, lambda progress: 7)
    assert engine.let_go.is_set()
    assert engine.recovered == 1  # what was left of the first
    taken = ahead.take(later)
    assert taken is not None
    assert taken.what == 7
    assert ahead.take(planned) is None


def test_a_thread_samples_on_the_card_of_the_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device of a single process is "cuda", without a number, and torch refuses it here."""
    cards: list[Any] = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", cards.append)
    engine: Any = HungEngine()
    ahead: RoundAhead[int] = RoundAhead(engine, torch.device("cuda"))
    planned = Round((), 1, ("A", "B"), 0)
    ahead.begin(planned, lambda: None, lambda progress: 7)
    taken = ahead.take(planned)
    assert taken is not None
    assert taken.what == 7
    assert cards == [3]


@pytest.mark.exhaustive
def test_an_update_is_no_fault_of_the_sampler_and_a_lost_sync_is(tmp_path: Path) -> None:
    """The gap to the weights that were synced is held to the limit, not the gap to those that are trained."""
    ours = trained(copy_trainer(tmp_path / "whole", sample_ahead=True, max_steps=2, max_logprob_gap=1e-3))
    assert max(metric(ours, "draft/sampling/gap")) > 1e-3
    deaf = copy_trainer(tmp_path / "deaf", 1, sample_ahead=True, max_steps=8, learning_rate=1e-3)
    with pytest.raises(InputError, match=r"still samples from the weights of policy [AB] before version 1"):
        trained(deaf)
    assert deaf.state.global_step == 2  # the round that was sampled at version 1


def test_several_steps_of_a_round_are_one_round_of_staleness(tmp_path: Path) -> None:
    ours = trained(trainer(tmp_path, sample_ahead=True, max_steps=4, num_iterations=2))
    assert versions(ours) == {0: {0}, 2: {0}}
    assert not check_run(ours.run.folder).findings


def test_the_first_round_of_an_epoch_is_fresh(tmp_path: Path) -> None:
    ours = trainer(tmp_path, sample_ahead=True, max_steps=3)
    ours.train_dataset = ProblemRows(8)  # two rounds
    assert versions(trained(ours)) == {0: {0}, 1: {0}, 2: {2}}


@pytest.mark.parametrize(
    "method",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.exhaustive) for name in METHODS],
)
def test_every_method_can_be_sampled_ahead(tmp_path: Path, method: str) -> None:
    ours = trained(trainer(tmp_path, sample_ahead=True, method=method, max_steps=2))
    assert versions(ours) == {0: {0}, 1: {0}}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"vllm_enable_sleep_mode": True}, "does not go with vllm_enable_sleep_mode"),
        ({"vllm_importance_sampling_correction": False}, "needs vllm_importance_sampling_correction"),
        ({"steps_per_generation": 2, "num_generations": 4}, "needs rounds of whole optimizer steps"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        config(tmp_path, sample_ahead=True, **options)


def test_a_run_of_a_release_without_the_option_can_be_gone_on_with(tmp_path: Path) -> None:
    ours = trained(trainer(tmp_path, max_steps=1))
    assert "staleness" not in ours.run.read_metrics()[0]
    now = ours.run.read_config()
    ours.run.write_config({key: value for key, value in now.items() if key != "sample_ahead"})
    refuse_changes(ours.run, now)
    with pytest.raises(InputError, match="sample_ahead was False, now True"):
        refuse_changes(ours.run, {**now, "sample_ahead": True})


def test_looking_ahead_changes_nothing_that_is_handed_out() -> None:
    items = Peekable(iter(range(5)))
    assert [next(items), items.peek(2), items.peek(0), next(items), items.peek(3), items.peek(2)] == [
        *(0, 3, 1, 1, None, 4),
    ]
    assert list(items) == [2, 3, 4]
