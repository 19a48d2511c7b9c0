"""The index holds what the run's files hold, whatever happens to them meanwhile."""

import json
from pathlib import Path

import pytest

from agon.errors import InputError
from agon.game.duel import Duel
from agon.runs import duel_log
from agon.runs.folder import Run
from agon.view.details import find, name_of
from agon.view.index import Index, cache_folder
from agon.view.sources import Opened, Seen, Source, open_runs
from tests.view import make

ROOT = Path(__file__).parents[2]


def index_of(run: Run, source: str = "training", cached: bool = True) -> Index:
    found = Opened(run.name, run.folder).sources()[source]
    index = Index(found, cache_folder(found) if cached else None)
    index.refresh()
    return index


def indexed(index: Index) -> list[Duel]:
    return [index.seen(row).duel for row in index.snapshot().rows]


def test_every_duel_of_a_run_is_found_again_in_its_order(place: Path) -> None:
    run = make.run(place)
    assert indexed(index_of(run)) == list(run.duels())


def test_what_is_new_is_added_and_a_line_that_is_still_being_written_waits(place: Path) -> None:
    run = make.run(place, range(2))
    index = index_of(run)
    before = len(index.snapshot().rows)
    log = run.duels().files()[-1]
    (duel,) = make.duels([2])[:1]
    line = duel.to_json() + "\n"
    with log.open("a") as file:
        file.write(line[:50])
    index.refresh()
    assert len(index.snapshot().rows) == before
    with log.open("a") as file:
        file.write(line[50:])
    index.refresh()
    assert indexed(index)[before:] == [duel]


def test_an_index_is_taken_from_the_cache_and_only_the_rest_is_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make.run(place, range(3))
    first = index_of(run)
    first._lock_file and first._lock_file.close()
    make.add(run, [3])
    read: list[bytes] = []
    real = Source.read

    def counted(self: Source, line: bytes) -> list[Seen]:
        read.append(line)
        return real(self, line)

    monkeypatch.setattr(Source, "read", counted)
    second = index_of(run)
    assert len(read) == len(make.duels([3]))
    monkeypatch.undo()
    assert indexed(second) == list(run.duels())


def test_a_second_viewer_of_a_run_builds_its_own_index(place: Path) -> None:
    run = make.run(place)
    first, second = index_of(run), index_of(run)
    assert indexed(first) == indexed(second)
    assert (first._cache is None, second._cache is None) == (False, True)


def test_a_broken_cache_is_built_again(place: Path) -> None:
    run = make.run(place)
    index = index_of(run)
    assert index._cache
    index._lock_file and index._lock_file.close()
    for name, content in (("meta.json", b"{"), ("rows.bin", b"short"), ("problems.jsonl", b"[1]\n")):
        (index._cache / name).write_bytes(content)
        again = index_of(run)
        assert indexed(again) == list(run.duels())
        again._lock_file and again._lock_file.close()


def test_a_resume_that_cuts_the_log_back_and_plays_on_is_followed(place: Path) -> None:
    run = make.run(place, range(4))
    index = index_of(run)
    run.duels().rewind(2)
    make.add(run, range(2, 6), seed=7)  # longer than before, and other duels
    index.refresh()
    assert indexed(index) == list(run.duels())
    run.duels().rewind(1)
    index.refresh()
    assert {duel.step for duel in indexed(index)} == {0}


def test_files_that_were_deleted_beyond_the_size_limit_leave_the_index(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duel_log, "FILE_BYTES", 1)
    run = make.run(place, range(4))
    index = index_of(run)
    assert len(run.duels().files()) == 4
    generation = index.snapshot().generation
    run.duels().files()[1].unlink()
    index.refresh()
    assert {duel.step for duel in indexed(index)} == {0, 2, 3}
    assert index.snapshot().generation > generation
    index._lock_file and index._lock_file.close()
    assert indexed(index_of(run)) == list(run.duels())


def test_the_name_of_a_duel_stays_when_others_come_and_go(place: Path) -> None:
    run = make.run(place, range(3))
    index = index_of(run)
    names = {name_of(row): index.seen(row).duel for row in index.snapshot().rows}
    assert len(names) == len(index.snapshot().rows)
    make.add(run, range(3, 5))
    index.refresh()
    rows = index.snapshot().rows
    assert all(index.seen(rows[find(rows, name)]).duel == duel for name, duel in names.items())


@pytest.mark.parametrize("name", ["", "1", "1.2.3", "../1", "9.9", "1.-1", "1e3.0", "٣.1"])
def test_a_name_that_is_none_is_refused(name: str, place: Path) -> None:
    rows = index_of(make.run(place)).snapshot().rows
    with pytest.raises(InputError):
        find(rows, name)


def test_lines_that_are_no_duels_are_counted_and_passed_over(place: Path) -> None:
    run = make.run(place, range(1))
    good = make.duels([1])[0]
    strange = json.loads(good.to_json())
    strange["step"], strange["index"] = -(10**30), 10**30
    strange["draft"]["rollout"]["length"] = 10**40
    broken = [
        "nothing",
        "[]",
        "{}",
        '{"problem": 3}',
        good.to_json().replace('"wrong"', '"odd"').replace("correct", "x"),
    ]
    with run.duels().files()[-1].open("a") as file:
        file.write("".join(f"{line}\n" for line in [*broken, json.dumps(strange), good.to_json()]))
        file.write("[" * 100_000 + "\n")
    index = index_of(run)
    shot = index.snapshot()
    assert shot.unreadable == len(broken) + 1
    assert index.seen(shot.rows[-1]).duel == good
    assert int(shot.rows[-2]["draft_length"]) == 2**31 - 1


def test_samples_of_an_evaluation_are_duels_packed_or_not() -> None:
    folder = ROOT / "docs" / "results" / "qwen2.5-coder-0.5b" / "runs" / "agon-s0-lr3e-4"
    (opened,) = open_runs([folder])
    before = sorted(path for path in folder.rglob("*"))
    index = Index(opened.sources()["gsm8k-test"])
    index.refresh()
    result = opened.run.evaluation("gsm8k", "test").read_result()
    rows = index.snapshot().rows
    play = rows[rows["play"] == index.plays.find("A->B")]
    assert len(play) == result["n"] * result["samples"]
    converted = sum(index.seen(row).duel.converted for row in play)
    assert converted / len(play) == result["arms"]["A->B"]["converted"]
    assert sorted(path for path in folder.rglob("*")) == before


def test_looking_at_a_run_writes_nothing_into_it(place: Path) -> None:
    run = make.run(place)
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    index_of(run)
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before
