"""Published datasets in local files; an error in one names its place."""

from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from agon.errors import InputError
from agon.tasks import load_task
from agon.tasks.rows import read_file
from tests.tasks.small_datasets import deepmath, gsm8k, write


def test_parquet_gives_the_same_task_as_jsonl(tmp_path: Path) -> None:
    rows = deepmath(30)
    lines = write(tmp_path / "a" / "train.jsonl", rows)
    table = tmp_path / "b" / "data" / "train-00000-of-00001.parquet"
    table.parent.mkdir(parents=True)
    parquet.write_table(pyarrow.Table.from_pylist(rows), table)
    ours, theirs = (
        load_task("deepmath-hard", path=str(lines)),
        load_task("deepmath-hard", path=str(tmp_path / "b")),
    )
    assert [ours.fingerprint(split) for split in ours.splits] == [
        theirs.fingerprint(split) for split in theirs.splits
    ]


def test_the_files_of_a_clone_from_the_hub_are_found(tmp_path: Path) -> None:
    for split, count in (("train", 20), ("test", 5)):
        file = tmp_path / "main" / f"{split}-00000-of-00001.parquet"
        file.parent.mkdir(exist_ok=True)
        parquet.write_table(pyarrow.Table.from_pylist(gsm8k(count, first=100 * count)), file)
    task = load_task("gsm8k", path=str(tmp_path))
    assert len(task.problems("test")) == 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "train.jsonl is empty"),
        (b"\n\n", "train.jsonl is empty"),
        (b'{"question": "a"}\n{"question": \n', "train.jsonl line 2 is not JSON"),
        (b'\n\n{"question": "a", "final_answer": "\xff"}\n', "train.jsonl line 3 is not JSON"),
        (b"[1, 2]\n", "train.jsonl line 1 holds a list, not an object"),
        (b'{"question": "a", "difficulty": 8}\n', "train.jsonl line 1 has no column 'final_answer'"),
        (b'{"question": ["a"], "final_answer": "1", "difficulty": 8}\n', "column 'question' holds a list"),
        (
            b'{"question": "a", "final_answer": null, "difficulty": 8}\n',
            "column 'final_answer' holds nothing",
        ),
        (b'{"question": "a", "final_answer": "1", "difficulty": "hard"}\n', "holds 'hard', not a number"),
    ],
)
def test_a_bad_file_is_one_sentence_with_the_place(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "train.jsonl"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_task("deepmath-hard", path=str(file))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_answer_without_its_final_value_is_named_by_line(tmp_path: Path) -> None:
    write(tmp_path / "test.jsonl", gsm8k(2))
    file = write(tmp_path / "train.jsonl", [*gsm8k(2, first=10), {"question": "q", "answer": "no mark"}])
    with pytest.raises(InputError, match=r"train.jsonl line 3: the answer has no final value after '####'"):
        load_task("gsm8k", path=str(file))


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    for name, message in (
        ("rows.txt", "neither a .jsonl nor a .parquet"),
        ("rows.parquet", "cannot be read as parquet"),
    ):
        (tmp_path / name).write_text("a,b\n1,2\n")
        with pytest.raises(InputError, match=message):
            read_file(tmp_path / name)
    with pytest.raises(InputError, match="There is no file"):
        read_file(tmp_path / "absent.jsonl")


def test_a_folder_without_the_split_says_what_it_looked_for(tmp_path: Path) -> None:
    write(tmp_path / "gsm8k" / "train.jsonl", gsm8k(3))
    with pytest.raises(InputError, match=r"no test split of openai/gsm8k: expected test.jsonl, test.parquet"):
        load_task("gsm8k", path=str(tmp_path))
