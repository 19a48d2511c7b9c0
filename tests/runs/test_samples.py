"""Samples survive the disk, and a kill in the middle of a line."""

import gzip
from pathlib import Path

import pytest

from agon.arena import Arena
from agon.engines.protocol import Sampling
from agon.errors import InputError
from agon.evaluate.arms import MOA, direction
from agon.evaluate.from_duels import sample_from_duels
from agon.game import challenger_prompt
from agon.runs.samples import Sample, SampleFile, Turn
from tests.evaluate.tiny import zero_or_one

PROBLEMS = zero_or_one(6)


def turns(number: int) -> list[Turn]:
    return [(problem, number) for problem in PROBLEMS]


@pytest.fixture(scope="module")
def samples(arena: Arena) -> list[Sample]:
    play = direction("A", "B")
    played = arena.play(
        PROBLEMS,
        play.method,
        drafts=1,
        sampling=Sampling(max_tokens=3),
        versions={"A": 0, "B": 0},
        players=("A", "B"),
    )
    return [sample_from_duels("A->B", 0, play.method, duels, arena.chat) for duels in played]


def test_a_sample_comes_back_as_it_was(samples: list[Sample]) -> None:
    for sample in samples:
        assert Sample.from_json(sample.to_json()) == sample
        assert "\n" not in sample.to_json()


def test_prompt_lengths_are_those_of_the_prompts_that_were_sent(arena: Arena, samples: list[Sample]) -> None:
    final = samples[0].finals[0]
    assert final.shown is not None
    prompt = challenger_prompt(PROBLEMS[0], final.shown, "think", arena.chat.control_tokens)
    assert final.prompt_length == len(arena.chat.encode(prompt)) > samples[0].drafts[0].prompt_length


def test_each_refinement_of_moa_knows_which_draft_it_read(arena: Arena) -> None:
    played = arena.play(
        PROBLEMS,
        MOA.method,
        drafts=2,
        sampling=Sampling(max_tokens=3),
        versions={"base": 0},
        players=("base", "base"),
    )
    sample = sample_from_duels("moa", 0, MOA.method, played[0], arena.chat)
    assert [final.read for final in sample.finals] == [1, 0]
    assert len(sample.drafts) == 2


def test_a_line_cut_short_is_dropped_and_the_rest_kept(tmp_path: Path, samples: list[Sample]) -> None:
    path = tmp_path / "samples.jsonl"
    SampleFile(path).append(samples)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    again = SampleFile(path)
    assert again.missing("A->B", turns(0)) == turns(0)[-1:]
    again.append(samples[-1:])
    assert path.read_bytes() == whole
    assert SampleFile(path).missing("A->B", turns(0)) == []
    assert SampleFile(path).missing("A->B", turns(1)) == turns(1)


def test_packed_samples_are_read_where_there_are_no_others(tmp_path: Path, samples: list[Sample]) -> None:
    path = tmp_path / "samples.jsonl"
    SampleFile(path).append(samples)
    packed = tmp_path / "samples.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    before = packed.read_bytes()
    path.unlink()
    file = SampleFile(path)
    assert list(file.samples.values()) == samples
    with pytest.raises(InputError, match=r"samples\.jsonl\.gz is only read, never added to"):
        file.append(samples)
    assert packed.read_bytes() == before
    assert not path.exists()


def test_plain_samples_win_over_packed_ones(tmp_path: Path, samples: list[Sample]) -> None:
    path = tmp_path / "samples.jsonl"
    SampleFile(path).append(samples)
    (tmp_path / "samples.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    path.write_text(samples[0].to_json() + "\n")
    file = SampleFile(path)
    assert list(file.samples) == [samples[0].key]
    file.append(samples[1:])
    assert list(SampleFile(path).samples.values()) == samples


@pytest.mark.parametrize("kept", [5, -9])
def test_a_packed_file_that_is_not_whole_is_named(tmp_path: Path, samples: list[Sample], kept: int) -> None:
    content = gzip.compress("".join(sample.to_json() + "\n" for sample in samples).encode())
    (tmp_path / "samples.jsonl.gz").write_bytes(content[:kept])
    with pytest.raises(InputError, match=r"samples\.jsonl\.gz is not a whole gzip file"):
        SampleFile(tmp_path / "samples.jsonl")


def test_a_line_that_is_no_sample_is_named(tmp_path: Path, samples: list[Sample]) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text(samples[0].to_json() + '\n{"play": 1}\n')
    with pytest.raises(InputError, match=r"Line 2 of .* is not a sample"):
        SampleFile(path)
