"""A split is a pure function of the data and a seed."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.game.problem import Problem
from agon.tasks import load_task
from agon.tasks.splits import divide, hash_fraction, scaled_sizes, shuffled
from tests.tasks.small_datasets import deepmath, write

SOURCE = Path(__file__).parents[2] / "src"
# What the split of 60 committed rows is, on every machine and every Python.
FINGERPRINTS = {"train": "3129328e099369d1", "validation": "4e44d6172c506d06", "test": "1f1fc8a42d05ebde"}

sizes = st.integers(0, 5000)


def problems(count: int) -> list[Problem]:
    return [Problem(f"p{number}", f"What is {number}?", "t", str(number)) for number in range(count)]


@given(st.integers(0, 20_000), sizes, sizes, sizes)
def test_sizes_never_exceed_what_there_is_or_what_was_wanted(
    n: int, train: int, validation: int, test: int
) -> None:
    wanted = {"train": train, "validation": validation, "test": test}
    got = scaled_sizes(n, wanted)
    assert sum(got.values()) <= max(n, (validation > 0) + (test > 0))
    assert all(0 <= got[split] <= max(wanted[split], 1) for split in ("validation", "test"))


@given(st.integers(1, 5000))
def test_too_few_problems_shrink_all_splits_alike(n: int) -> None:
    got = scaled_sizes(n, {"train": 3000, "validation": 300, "test": 300})
    if n < 3600:
        assert got["validation"] == got["test"] == max(1, n // 12)
    else:
        assert got == {"train": 3000, "validation": 300, "test": 300}


def test_held_out_splits_leave_nine_tenths_to_a_training_split_of_any_size() -> None:
    assert scaled_sizes(50, {"train": None, "validation": 300}) == {"train": 45, "validation": 5}
    assert scaled_sizes(7000, {"train": None, "validation": 300}) == {"train": 6700, "validation": 300}


def test_the_order_does_not_depend_on_the_order_of_the_rows() -> None:
    rows = problems(100)
    assert shuffled(rows, 3) == shuffled(rows[::-1], 3) != rows


def test_another_seed_gives_another_order() -> None:
    assert shuffled(problems(100), 0) != shuffled(problems(100), 1)


def test_more_training_problems_leave_the_held_out_ones_in_place() -> None:
    ordered = shuffled(problems(100), 0)
    small = divide(ordered, {"train": 10, "validation": 5, "test": 5})
    large = divide(ordered, {"train": 60, "validation": 5, "test": 5})
    assert small["test"] == large["test"]
    assert small["validation"] == large["validation"]
    assert small["train"] == large["train"][:10]


@given(st.text(), st.integers(0, 10))
def test_a_hash_fraction_is_between_zero_and_one_and_stays_the_same(text: str, seed: int) -> None:
    assert 0 <= hash_fraction(text, seed) < 1
    assert hash_fraction(text, seed) == hash_fraction(text, seed)


def test_the_split_is_the_committed_one(tmp_path: Path) -> None:
    file = write(tmp_path / "deepmath" / "train.jsonl", deepmath(60))
    task = load_task("deepmath-hard", path=str(file))
    assert {split: task.fingerprint(split) for split in task.splits} == FINGERPRINTS


def test_the_split_does_not_depend_on_the_hash_seed_of_python(tmp_path: Path) -> None:
    file = write(tmp_path / "train.jsonl", deepmath(60))
    code = (
        "import sys; from agon.tasks import load_task; task = load_task('deepmath-hard', path=sys.argv[1]);"
        "print(*(task.fingerprint(split) for split in task.splits))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code, str(file)],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("size", [-1, 2.5, "many", True])
def test_a_size_that_is_not_a_number_of_problems_is_refused(size: object, tmp_path: Path) -> None:
    file = write(tmp_path / "train.jsonl", deepmath(3))
    with pytest.raises(ValueError, match="number of problems"):
        load_task("deepmath-hard", path=str(file), test=size)
