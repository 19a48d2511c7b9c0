"""Files of every kind, options after any path, golds that a judge of one's own accepts."""

import csv
import gzip
import json
from pathlib import Path

import pytest

from agon.errors import InputError
from agon.reports.task_overview import PromptRenderer, overview
from agon.tasks import load_task
from agon.tasks.load import absolute, check_name, split_path
from agon.tasks.stored import STORED, store

ROWS = [{"question": f"What is {n} + {n}?", "gold": str(2 * n)} for n in range(20)]


def write(path: Path) -> Path:
    """The rows in the form that the ending of the name says."""
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    if kind == "csv":
        text = Path(path.parent / "plain.csv")
        with text.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["question", "gold"])
            writer.writeheader()
            writer.writerows(ROWS)
        content = text.read_bytes()
    elif kind == "json":
        content = json.dumps({"data": ROWS, "version": "1"}).encode()
    else:
        content = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    path.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("name", ["p.csv", "p.json", "p.jsonl", "p.csv.gz", "p.json.gz", "p.jsonl.gz"])
def test_a_file_of_any_kind_gives_the_same_problems(tmp_path: Path, name: str) -> None:
    task = load_task(f"{write(tmp_path / name)},problem=question,answer=gold")
    assert task.name == "p"
    found = {problem.prompt: problem.answer for part in task.splits.values() for problem in part}
    assert found == {row["question"]: row["gold"] for row in ROWS}


def test_a_json_file_of_lines_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "lines.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert load_task(f"{tmp_path / 'lines.json'},problem=question,answer=gold").name == "lines"


@pytest.mark.parametrize("name", ["./ok.jsonl", "ok.jsonl", "a,b/ok.jsonl", "~/ok.jsonl"])
def test_options_follow_any_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a,b").mkdir()
    write(tmp_path / "ok.jsonl")
    write(tmp_path / "a,b" / "ok.jsonl")
    spec = f"{name},problem=question,answer=gold"
    assert check_name(spec) == name
    assert len(load_task(spec).problems("train")) == 16
    assert load_task(absolute(spec)).fingerprint("train") == load_task(spec).fingerprint("train")
    monkeypatch.chdir("/")
    assert absolute(spec) == spec or name.startswith("~")


def test_a_file_whose_name_looks_like_options_is_still_a_file(tmp_path: Path) -> None:
    odd = tmp_path / "rows,problem=1.jsonl"
    odd.write_text(json.dumps({"problem": "1?", "answer": "1"}) + "\n")
    assert split_path(str(odd)) == (str(odd), {})


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("p.csv", b"problem,answer\n1,2,3\n", "more values than the first line"),
        ("p.csv", b"\xff\xfe\x00", "not a text in UTF-8"),
        ("p.json", b"[1]", "holds a int, not an object"),
        ("p.jsonl.gz", b"plain", "not a whole gzip file"),
        ("p.json", b"", "is empty"),
    ],
)
def test_a_broken_file_is_one_sentence(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        load_task(str(tmp_path / name))


def test_a_misspelt_option_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'problem'"):
        check_name(f"{write(tmp_path / 'p.jsonl')},problm=question")


def test_golds_are_accepted_bare_where_the_judge_knows_no_boxes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bare_judge.py").write_text(
        "def same(problem, answer):\n    return answer == problem.answer\n"
    )
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "p.jsonl")
    task = load_task("p.jsonl,problem=question,answer=gold,judge=bare_judge:same")
    facts = overview(task, PromptRenderer(), show=1)
    assert facts["unusable_golds"] == []


def test_a_gold_is_not_needed_where_a_judge_of_ones_own_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lengths.py").write_text("def short(problem, answer):\n    return len(answer) < 10\n")
    (tmp_path / "open.jsonl").write_text('{"problem": "Say something.", "style": "dry"}\n')
    monkeypatch.chdir(tmp_path)
    (problem,) = load_task("open.jsonl,judge=lengths:short,train=1").problems("train")
    assert (problem.answer, problem.metadata["columns"]["style"]) == ("", "dry")
    with pytest.raises(InputError, match="no column 'answer'"):
        load_task("open.jsonl")


def test_stored_problems_come_back_one_for_one(tmp_path: Path) -> None:
    task = load_task(f"{write(tmp_path / 'p.jsonl')},problem=question,answer=gold")
    store(task, tmp_path / "kept")
    back = load_task(f"{STORED}{tmp_path / 'kept'}")
    assert {split: back.fingerprint(split) for split in task.splits} == {
        split: task.fingerprint(split) for split in task.splits
    }
    (tmp_path / "kept" / "about.json").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        load_task(f"{STORED}{tmp_path / 'kept'}")


def test_a_dataset_of_the_hub_is_read_by_its_id_with_its_columns_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`load_dataset` finds the id as a folder here; nothing else is different from the Hub."""
    import datasets

    folder = tmp_path / "someone" / "sums"
    folder.mkdir(parents=True)
    write(folder / "train.jsonl")
    read = datasets.load_dataset
    monkeypatch.setattr(
        datasets, "load_dataset", lambda name, *rest, **more: read(str(tmp_path / name), *rest, **more)
    )
    task = load_task("someone/sums,problem=question,answer=gold")
    assert (task.name, len(task.problems("train")), len(task.problems("test"))) == ("someone/sums", 16, 2)


def test_a_dataset_that_is_nowhere_is_one_sentence() -> None:
    with pytest.raises(InputError, match="There is no file or folder nobody/nothing here, and the Hub"):
        load_task("nobody/nothing")
