"""An evaluation's samples are the same whatever the batches are and however often it was stopped."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from agon.arena import Arena
from agon.engines.protocol import Sampling, derive_seed
from agon.errors import InputError
from agon.evaluate.arms import arms_for, plays_of
from agon.evaluate.from_duels import sample_from_duels
from agon.evaluate.split_evaluation import SplitEvaluation
from agon.game import Duel
from tests.evaluate.tiny import zero_or_one

PROBLEMS = zero_or_one(10)
SAMPLES = 3
ARMS = arms_for(("A", "B"))
SAMPLING = Sampling(max_tokens=3)
VERSIONS = {"A": 0, "B": 0, "base": 0}


class Watched(Arena):
    """An arena that remembers what it was asked for: the problem and the seed of every turn, call by call."""

    def __init__(self, arena: Arena) -> None:
        super().__init__(arena.engine, arena.chat, arena._judge)
        self.calls: list[list[tuple[str, int]]] = []

    def play(self, *args: Any, **kwargs: Any) -> list[list[Duel]]:
        problems = [problem.id for problem in args[0]]
        self.calls.append(list(zip(problems, kwargs["seed"], strict=True)))
        return super().play(*args, **kwargs)


def evaluation(folder: Path, batch: int) -> SplitEvaluation:
    return SplitEvaluation(PROBLEMS, ARMS, SAMPLES, SAMPLING, VERSIONS, seed=4, folder=folder, batch=batch)


def written(folder: Path) -> bytes:
    return (folder / "samples.jsonl").read_bytes()


@pytest.fixture(scope="module")
def one_by_one(arena: Arena) -> bytes:
    """Every sample as the arena gives it alone: one problem, one number, one seed."""
    lines = []
    for play in plays_of(ARMS):
        for number in range(SAMPLES):
            for problem in PROBLEMS:
                (duels,) = arena.play(
                    [problem],
                    play.method,
                    drafts=play.drafts,
                    sampling=SAMPLING,
                    versions=VERSIONS,
                    seed=derive_seed(4, play.name, number),
                    players=(play.drafter, play.challenger),
                )
                lines.append(
                    sample_from_duels(play.name, number, play.method, duels, arena.chat).to_json() + "\n"
                )
    return "".join(lines).encode()


@pytest.mark.parametrize("batch", [1, 7, 10, 1000])  # 7 crosses from one sample of a play to the next
def test_samples_are_the_same_to_the_byte_whatever_the_batch(
    arena: Arena, tmp_path: Path, one_by_one: bytes, batch: int
) -> None:
    evaluation(tmp_path, batch).play(arena)
    assert written(tmp_path) == one_by_one


def test_all_samples_of_a_play_share_its_batches(arena: Arena, tmp_path: Path) -> None:
    watched = Watched(arena)
    evaluation(tmp_path, batch=1000).play(watched)
    assert [len(call) for call in watched.calls] == [len(PROBLEMS) * SAMPLES] * len(plays_of(ARMS))
    assert all(len(set(call)) == len(call) for call in watched.calls)


def test_an_interrupted_evaluation_goes_on_to_the_same_file(
    arena: Arena, tmp_path: Path, one_by_one: bytes
) -> None:
    def interrupt(done: int, _: int) -> None:
        if done > 80:  # in the second batch of the second play, after its drafts
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluation(tmp_path, batch=7).play(Watched(arena), interrupt)
    while arena.engine.collect():  # what the interrupted batch had left in the engine
        pass
    kept = written(tmp_path)
    assert kept
    assert kept != one_by_one
    evaluation(tmp_path, batch=7).play(arena)
    assert written(tmp_path) == one_by_one


def test_batches_do_not_move_with_what_is_there_already(
    arena: Arena, tmp_path: Path, one_by_one: bytes
) -> None:
    """A kill in the middle of a write leaves a part of a batch; every later batch is what it would have been."""
    whole, rest = Watched(arena), Watched(arena)
    evaluation(tmp_path / "whole", batch=7).play(whole)
    (tmp_path / "rest").mkdir()
    torn = b"".join(one_by_one.splitlines(keepends=True)[:10])  # one batch and three turns of the second
    (tmp_path / "rest" / "samples.jsonl").write_bytes(torn)
    evaluation(tmp_path / "rest", batch=7).play(rest)
    assert rest.calls == [whole.calls[1][3:], *whole.calls[2:]]
    assert written(tmp_path / "rest") == one_by_one


def test_packed_samples_are_refused_before_anything_is_sampled(
    arena: Arena, tmp_path: Path, one_by_one: bytes
) -> None:
    part = b"".join(one_by_one.splitlines(keepends=True)[:10])
    (tmp_path / "samples.jsonl.gz").write_bytes(gzip.compress(part))
    watched = Watched(arena)
    with pytest.raises(InputError, match="is only read, never added to"):
        evaluation(tmp_path, batch=7).play(watched)
    assert watched.calls == []
    (tmp_path / "samples.jsonl.gz").write_bytes(gzip.compress(one_by_one))
    assert evaluation(tmp_path, batch=7).missing_rollouts() == 0
