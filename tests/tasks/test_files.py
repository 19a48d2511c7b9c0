"""Your own problems: a file, a folder, a dataset, an object."""

import sys
from pathlib import Path
from typing import Any

import datasets
import pytest

from agon.errors import InputError
from agon.game.problem import Problem
from agon.tasks import Task, load_task, task_from_dataset
from tests.tasks.small_datasets import statement, write


def rows(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"problem": statement(number), "answer": str(number), **fields} for number in range(count)]


def test_a_file_is_divided_eight_to_one_to_one(tmp_path: Path) -> None:
    task = load_task(str(write(tmp_path / "mine.jsonl", rows(50))))
    assert task.name == "mine"
    assert task.judge == "math"
    assert {split: len(part) for split, part in task.splits.items()} == {
        "train": 40,
        "validation": 5,
        "test": 5,
    }


def test_a_column_named_split_decides_the_split(tmp_path: Path) -> None:
    labels = ["train"] * 6 + ["val"] * 2 + ["test"] * 2
    lines = [{**row, "split": label} for row, label in zip(rows(10), labels, strict=True)]
    task = load_task(str(write(tmp_path / "mine.jsonl", lines)))
    assert {split: len(part) for split, part in task.splits.items()} == {
        "train": 6,
        "validation": 2,
        "test": 2,
    }


def test_a_folder_has_one_file_per_split(tmp_path: Path) -> None:
    write(tmp_path / "mine" / "train.jsonl", rows(8))
    write(tmp_path / "mine" / "test.jsonl", [{"problem": statement(2), "answer": "2"}])
    task = load_task(str(tmp_path / "mine"))
    assert len(task.problems("train")) == 7  # one of them is the test problem
    assert task.dropped == {"shares 13 tokens in a row with its own held-out splits": 1}


def test_other_columns_and_another_judge_may_be_named(tmp_path: Path) -> None:
    lines = [{"riddle": statement(number), "key": number} for number in range(10)]
    task = load_task(
        str(write(tmp_path / "mine.jsonl", lines)), problem="riddle", answer="key", judge="exact"
    )
    assert task.judge == "exact"
    assert task.problems("train")[0].answer.isdigit()


@pytest.mark.parametrize("tests", [[{"input": "1", "output": "2"}], ["assert f(1) == 2"]])
def test_rows_with_tests_are_programs(tmp_path: Path, tests: list[Any]) -> None:
    lines = [{"problem": statement(number), "tests": tests} for number in range(5)]
    task = load_task(str(write(tmp_path / "mine.jsonl", lines)))
    assert task.judge == "code"
    assert task.problems("train")[0].domain == "code"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"question": "q"}, "line 1 has no column 'answer'"),
        ({"answer": "1"}, "line 1 has no column 'problem'"),
        ({"problem": " ", "answer": "1"}, "line 1: the problem is empty"),
        ({"problem": "q", "answer": ""}, "line 1: the answer is empty"),
        ({"problem": "q", "tests": [1]}, "'tests' is not a list of asserts or of input and output pairs"),
        ({"problem": "q", "answer": "1", "split": "tset"}, "unknown split 'tset'"),
    ],
)
def test_a_bad_row_is_named_by_line(tmp_path: Path, line: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_task(str(write(tmp_path / "mine.jsonl", [line])))
    assert message in str(caught.value)


def test_half_a_split_column_is_refused(tmp_path: Path) -> None:
    lines = [*rows(3), {"problem": "q", "answer": "1", "split": "test"}]
    with pytest.raises(InputError, match="some rows have a 'split' and others have none"):
        load_task(str(write(tmp_path / "mine.jsonl", lines)))


def test_answers_and_tests_do_not_mix(tmp_path: Path) -> None:
    lines = [*rows(3), {"problem": "q", "tests": ["assert f() == 1"]}]
    with pytest.raises(InputError, match="mixes problems with answers and problems with tests"):
        load_task(str(write(tmp_path / "mine.jsonl", lines)))


def test_an_absent_file_and_an_unknown_option_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file or folder"):
        load_task(str(tmp_path / "absent.jsonl"))
    with pytest.raises(InputError, match="did you mean 'judge'"):
        load_task(str(write(tmp_path / "mine.jsonl", rows(3))), jugde="math")


def test_a_dataset_with_problem_and_answer_columns_is_a_task() -> None:
    train, test = datasets.Dataset.from_list(rows(6)), datasets.Dataset.from_list(rows(2))
    task = task_from_dataset(train, judge="exact", test=test, name="mine")
    assert (task.name, task.judge, list(task.splits)) == ("mine", "exact", ["train", "test"])
    assert task.problems("train")[3].answer == "3"
    with pytest.raises(InputError, match=r"Row 1 of the train dataset has no column 'answer'"):
        task_from_dataset(datasets.Dataset.from_list([{"problem": "q"}]))


MODULE = """
from agon.game.problem import Problem
from agon.tasks import Task

listed = [Problem("1", "What is 1?", "mine", "1")]
ready = Task("mine", "exact", {"test": listed})
number = 3

def made(seed, size=1):
    return [Problem(str(n), f"What is {n + seed}?", "mine", str(n + seed)) for n in range(size)]
"""


def test_an_object_may_be_a_task_a_list_or_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_problems.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_problems", raising=False)
    assert load_task("my_problems:listed").problems("train") == [Problem("1", "What is 1?", "mine", "1")]
    assert isinstance(load_task("my_problems:ready"), Task)
    assert [each.answer for each in load_task("my_problems:made,size=2", seed=5).problems("train")] == [
        "5",
        "6",
    ]
    for name, message in (("number", "is int: expected a Task"), ("absent", "cannot be imported")):
        with pytest.raises(InputError, match=message):
            load_task(f"my_problems:{name}")
