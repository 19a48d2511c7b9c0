"""What the arena plays on vLLM depends on seeds only, never on when or in what order things finish."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import pytest

from agon.arena import Arena
from agon.engines.options import VllmOptions
from agon.engines.protocol import Capabilities, Engine, Finished, Request, Sampling
from agon.engines.vllm_engine import VllmEngine
from agon.game.advantages import group_advantages
from agon.game.duel import Duel, Entry
from agon.game.methods import METHODS
from agon.judges.pool import JudgePool
from tests.tiny import task
from tests.vllm.tiny import Tiny

SAMPLING = Sampling(48)
VERSIONS = {"A": 0, "B": 0}


class Streamed:
    """Passes everything on, and records whether challenges were submitted while drafts were in flight."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._in_flight: set[str] = set()
        self.overlapped = False

    @property
    def capabilities(self) -> Capabilities:
        return self._engine.capabilities

    def sync(self, policy: str, version: int) -> None:
        self._engine.sync(policy, version)

    def submit(self, requests: Sequence[Request]) -> None:
        challenges = any("challenge" in request.key for request in requests)
        self.overlapped |= challenges and any("draft" in key for key in self._in_flight)
        self._in_flight |= {request.key for request in requests}
        self._engine.submit(requests)

    def collect(self) -> list[Finished]:
        finished = self._engine.collect()
        self._in_flight -= {done.request.key for done in finished}
        return finished

    def sleep(self) -> None:
        self._engine.sleep()

    def wake(self) -> None:
        self._engine.wake()

    def close(self) -> None:
        self._engine.close()


class Barrier(Streamed):
    """Returns nothing before everything is done, and then in the order of the requests, as a plain
    call of vLLM does: challenges wait for the last draft."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._order: list[str] = []

    def submit(self, requests: Sequence[Request]) -> None:
        self._order += [request.key for request in requests]
        super().submit(requests)

    def collect(self) -> list[Finished]:
        finished: list[Finished] = []
        while some := super().collect():
            finished += some
        return sorted(finished, key=lambda done: self._order.index(done.request.key))


class Scrambled(Barrier):
    """Returns a few at a time, drawn at random from all that is done, so that challenges are batched differently."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._random = random.Random(0)
        self._done: list[Finished] = []

    def collect(self) -> list[Finished]:
        self._done += super().collect()
        self._random.shuffle(self._done)
        few, self._done = self._done[:3], self._done[3:]
        return few


@pytest.fixture(scope="module")
def engine(shared_tiny: Tiny) -> Iterator[VllmEngine]:
    options = VllmOptions(
        dtype="float32",
        max_model_len=1024,
        max_num_seqs=64,
        enforce_eager=True,
    )
    started = VllmEngine(
        str(shared_tiny.path), shared_tiny.pair, shared_tiny.chat.decode, shared_tiny.stop_ids, options
    )
    for policy, version in VERSIONS.items():
        started.sync(policy, version)
    yield started
    started.close()


@pytest.fixture(scope="module")
def judge() -> Iterator[JudgePool]:
    with JudgePool("tests.last_box:last_box", workers=1, deadline=120.0) as pool:
        yield pool


def play(shared_tiny: Tiny, engine: Engine, judge: JudgePool) -> list[Duel]:
    groups = Arena(engine, shared_tiny.chat, judge).play(
        task().splits["train"][:6], METHODS["agon"], drafts=6, sampling=SAMPLING, versions=VERSIONS
    )
    return [duel for group in groups for duel in group]


@pytest.fixture(scope="module")
def streamed(shared_tiny: Tiny, engine: VllmEngine, judge: JudgePool) -> list[Duel]:
    """The duels to compare with; they differ enough for the comparison to mean something."""
    stream = Streamed(engine)
    duels = play(shared_tiny, stream, judge)
    assert stream.overlapped
    assert len({entry.rollout.text for entry in entries(duels)}) == len(entries(duels)) == 72
    assert {entry.rollout.finish_reason for entry in entries(duels)} == {"stop", "length"}
    assert any(duel.converted for duel in duels)
    assert sum(advantage != 0 for advantage in advantages(duels)) > 36
    return duels


def entries(duels: Sequence[Duel]) -> list[Entry]:
    return [entry for duel in duels for entry in (duel.draft, duel.challenge) if entry]


def advantages(duels: Sequence[Duel]) -> list[float]:
    """What each entry is worth within the drafts or the challenges of its problem."""
    found: list[float] = []
    for _, group in groupby(duels, key=lambda duel: duel.problem.id):
        played = list(group)
        found += group_advantages([duel.draft.reward for duel in played])
        found += group_advantages([duel.challenge.reward for duel in played if duel.challenge])
    return found


def without_noise(entry: Entry) -> Entry:
    """Without the time that judging took, and without log-probs, whose last bits depend on the batch."""
    return replace(
        entry, verdict=replace(entry.verdict, seconds=0.0), rollout=replace(entry.rollout, logprobs=())
    )


def assert_same(duels: Sequence[Duel], others: Sequence[Duel]) -> None:
    """Texts, tokens, prompts, verdicts, rewards and advantages are equal, log-probs nearly so."""
    for duel, other in zip(duels, others, strict=True):
        assert (duel.problem, duel.index, duel.shown) == (other.problem, other.index, other.shown)
    for entry, other_entry in zip(entries(duels), entries(others), strict=True):
        assert without_noise(entry) == without_noise(other_entry)
        assert entry.rollout.logprobs == pytest.approx(other_entry.rollout.logprobs, abs=1e-4)
    assert advantages(duels) == advantages(others)


def test_streaming_plays_the_duels_of_a_barrier(
    shared_tiny: Tiny, engine: VllmEngine, judge: JudgePool, streamed: list[Duel]
) -> None:
    barrier = Barrier(engine)
    assert_same(streamed, play(shared_tiny, barrier, judge))
    assert not barrier.overlapped


def test_the_order_of_finishing_changes_no_duel(
    shared_tiny: Tiny, engine: VllmEngine, judge: JudgePool, streamed: list[Duel]
) -> None:
    assert_same(streamed, play(shared_tiny, Scrambled(engine), judge))
