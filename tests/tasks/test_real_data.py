"""The benchmarks themselves, if a folder with them is beside the repository."""

from pathlib import Path

import pytest

from agon.tasks import Task, load_task
from agon.tasks.dedup import NGRAM, overlapping

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the benchmarks' files are not beside the repository"
)


@pytest.fixture(scope="module")
def hard() -> Task:
    return load_task("deepmath-hard", path=str(DATA))


def statements(name: str, split: str) -> list[str]:
    return [problem.prompt for problem in load_task(name, path=str(DATA)).problems(split)]


def test_deepmath_hard_says_why_each_row_was_left_out(hard: Task) -> None:
    assert hard.dropped == {
        "difficulty is not 8": 4427,
        "binary answer (yes/no, true/false and the like)": 245,
        "duplicate": 1,
        "shares 13 tokens in a row with its own held-out splits": 4,
    }
    assert {split: len(part) for split, part in hard.splits.items()} == {
        "train": 265,
        "validation": 26,
        "test": 26,
    }


def test_deepmath_hard_is_the_same_on_every_machine_and_python(hard: Task) -> None:
    assert {split: hard.fingerprint(split) for split in hard.splits} == {
        "train": "bc64419e04eb7f31",
        "validation": "15ae737cca8ca905",
        "test": "b116188e399133ec",
    }


@pytest.mark.parametrize("name", ["deepmath-hard", "deepmath"])
def test_nothing_in_training_is_in_a_held_out_split_or_an_evaluation_set(name: str) -> None:
    task = load_task(name, path=str(DATA))
    train = task.problems("train")
    for split in ("validation", "test"):
        assert overlapping(train, [problem.prompt for problem in task.problems(split)]) == []
    for other in ("gsm8k", "math-500"):
        assert overlapping(train, statements(other, "test")) == []


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gsm8k", {"train": 7168, "validation": 300, "test": 1319}),
        ("math", {"train": 6843, "validation": 300, "test": 500}),
        ("math-500", {"test": 500}),
        ("mbpp", {"train": 372, "validation": 90, "test": 500}),
        ("codecontests", {"train": 109, "validation": 10, "test": 10}),
        ("codecontests-easy", {"train": 41, "validation": 4, "test": 4}),
    ],
)
def test_the_other_benchmarks_load_and_their_splits_do_not_overlap(name: str, sizes: dict[str, int]) -> None:
    task = load_task(name, path=str(DATA))
    assert {split: len(part) for split, part in task.splits.items()} == sizes
    if "train" in sizes:
        held_out = [problem.prompt for split in ("validation", "test") for problem in task.problems(split)]
        size = NGRAM[task.problems("train")[0].domain]
        assert overlapping(task.problems("train"), held_out, size) == []
