"""Benchmarks by name, read from small files in the layouts of the Hub and of plain exports."""

from pathlib import Path
from typing import Any

import pytest

from agon.errors import InputError
from agon.tasks import BENCHMARKS, Task, load_task
from agon.tasks.dedup import overlapping
from tests.tasks.small_datasets import deepmath, gsm8k, math, statement, write


def kept(task: Task) -> int:
    return sum(len(part) for part in task.splits.values())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """One folder with every dataset in it."""
    write(tmp_path / "deepmath" / "train.jsonl", deepmath(120))
    write(tmp_path / "gsm8k" / "train.jsonl", gsm8k(40, first=1000))
    write(tmp_path / "gsm8k" / "test.jsonl", gsm8k(10, first=2000))
    write(tmp_path / "math" / "train.jsonl", math(40, first=3000))
    write(tmp_path / "math500" / "test.jsonl", [{**row, "answer": "7"} for row in math(10, first=4000)])
    return tmp_path


def contest(number: int, **fields: Any) -> dict[str, Any]:
    tests = [{"input": f"{number}\n", "output": f"{number + 1}\n"}]
    row = {"id": f"c{number}", "difficulty": "1", "description": statement(number), "tests": tests}
    return {**row, "reference_verified": True, **fields}


def hub_contest(number: int, **fields: Any) -> dict[str, Any]:
    """A row as the Hub has it: an enumeration, three structures of tests, a time limit."""
    return {
        "name": f"{number}_A. Name",
        "difficulty": 1,
        "description": statement(number),
        "public_tests": {"input": ["1"], "output": ["2"]},
        "private_tests": {"input": ["3", "4"], "output": ["4", "5"]},
        "generated_tests": {"input": [], "output": []},
        "time_limit": {"seconds": 2, "nanos": 500_000_000},
        "input_file": "",
        "output_file": "",
        **fields,
    }


@pytest.mark.parametrize("where", ["", "deepmath", "deepmath/train.jsonl"])
def test_a_path_may_be_the_data_folder_the_dataset_folder_or_the_file(data: Path, where: str) -> None:
    task = load_task("deepmath-hard", path=str(data / where))
    assert {split: len(part) for split, part in task.splits.items()} == {
        "train": 100,
        "validation": 10,
        "test": 10,
    }
    assert all("Not compared" not in note for note in task.notes)


def test_every_row_is_either_kept_or_dropped_for_a_reason(data: Path) -> None:
    rows = [
        *deepmath(50),
        *deepmath(5, difficulty=7.5, first=100),
        *({**row, "final_answer": "Yes"} for row in deepmath(4, first=200)),
        *deepmath(3),
        *({**row, "final_answer": " "} for row in deepmath(2, first=300)),
    ]
    write(data / "deepmath" / "train.jsonl", rows)
    task = load_task("deepmath-hard", path=str(data))
    assert task.dropped == {
        "difficulty is not 8": 5,
        "binary answer (yes/no, true/false and the like)": 4,
        "no answer": 2,
        "duplicate": 3,
    }
    assert kept(task) + sum(task.dropped.values()) == len(rows)


def test_problems_that_overlap_an_evaluation_set_are_left_out(data: Path) -> None:
    leaked = [
        {"question": "Warm-up. " + statement(2003), "final_answer": "1", "difficulty": 8},
        {"question": statement(4004) + " Hint: think.", "final_answer": "1", "difficulty": 8},
    ]
    write(data / "deepmath" / "train.jsonl", [*deepmath(60), *leaked])
    task = load_task("deepmath-hard", path=str(data))
    assert task.dropped == {
        "shares 13 tokens in a row with the test split of gsm8k": 1,
        "shares 13 tokens in a row with the test split of math-500": 1,
    }
    assert kept(task) == 60


def test_a_missing_evaluation_set_is_noted_and_not_silently_skipped(tmp_path: Path) -> None:
    file = write(tmp_path / "alone" / "train.jsonl", deepmath(24))
    notes = load_task("deepmath-hard", path=str(file)).notes
    assert [note.split(":")[0] for note in notes if "compared" in note] == [
        "Not compared with gsm8k",
        "Not compared with math-500",
    ]


def test_variants_of_one_problem_are_never_on_both_sides_of_a_split(tmp_path: Path) -> None:
    rows = [
        {"question": f"{statement(number)} Case {case}.", "final_answer": str(case), "difficulty": 8}
        for number in range(40)
        for case in range(3)
    ]
    file = write(tmp_path / "train.jsonl", rows)
    task = load_task("deepmath-hard", path=str(file))
    held_out = [problem.prompt for split in ("validation", "test") for problem in task.problems(split)]
    assert overlapping(task.problems("train"), held_out) == []
    assert overlapping(task.problems("validation"), [each.prompt for each in task.problems("test")]) == []
    assert task.dropped["shares 13 tokens in a row with its own held-out splits"] > 0
    assert kept(task) + sum(task.dropped.values()) == len(rows)


def test_deepmath_takes_a_range_of_difficulties(data: Path) -> None:
    rows = [row for level in (4.0, 5.5, 7.0) for row in deepmath(10, level, first=int(level * 1000))]
    write(data / "deepmath" / "train.jsonl", rows)
    task = load_task("deepmath,min_difficulty=5", path=str(data), max_difficulty=6)
    assert kept(task) == 10
    assert {problem.metadata["difficulty"] for problem in task.problems("train")} == {5.5}


def test_sizes_may_be_given_and_the_rest_is_counted(data: Path) -> None:
    task = load_task("deepmath-hard,train=20,validation=4,test=6", path=str(data))
    assert {split: len(part) for split, part in task.splits.items()} == {
        "train": 20,
        "validation": 4,
        "test": 6,
    }
    assert task.dropped == {"not needed: the splits are full": 90}


def test_shrunken_splits_are_noted(data: Path) -> None:
    assert load_task("deepmath-hard", path=str(data)).notes == (
        "120 problems are too few for train 3000, validation 300, test 300: sizes are shrunk in proportion.",
    )


def test_gsm8k_takes_the_value_after_the_mark_without_separators(data: Path) -> None:
    task = load_task("gsm8k", path=str(data))
    assert {split: len(part) for split, part in task.splits.items()} == {
        "train": 36,
        "validation": 4,
        "test": 10,
    }
    assert {problem.answer for problem in task.problems("test")} == {f"1{n}" for n in range(2000, 2010)}


def test_math_takes_the_last_box_where_there_is_no_answer_column(data: Path) -> None:
    task = load_task("math", path=str(data))
    assert {problem.answer for problem in task.problems("train")} <= {
        str(number) for number in range(3000, 3040)
    }
    assert [problem.answer for problem in task.problems("test")] == ["7"] * 10
    assert task.problems("train")[0].metadata == {"subject": "Algebra", "level": "3"}


def test_math_500_is_for_evaluation_only(data: Path) -> None:
    task = load_task("math-500", path=str(data))
    assert list(task.splits) == ["test"]
    with pytest.raises(InputError, match="has no train problems"):
        task.problems("train")


def test_mbpp_follows_the_split_of_its_authors_and_shows_one_assert(tmp_path: Path) -> None:
    rows = [
        {
            "text": f"Write a function {statement(number)}",
            "task_id": number,
            "test_setup_code": "import math",
            "test_list": [f"assert f{number}(1) == 2", f"assert f{number}(2) == 3"],
            "challenge_test_list": [f"assert f{number}(9) == 10"],
        }
        for number in (3, 11, 510, 511, 600, 601, 974)
    ]
    write(tmp_path / "mbpp" / "MBPP.jsonl", rows)
    task = load_task("mbpp", path=str(tmp_path))
    assert {split: sorted(each.id for each in part) for split, part in task.splits.items()} == {
        "train": ["mbpp-601", "mbpp-974"],
        "validation": ["mbpp-511", "mbpp-600"],
        "test": ["mbpp-11", "mbpp-510"],
    }
    problem = next(each for each in task.problems("test") if each.id == "mbpp-11")
    assert problem.tests is not None
    assert problem.tests.asserts == ("assert f11(1) == 2", "assert f11(2) == 3", "assert f11(9) == 10")
    assert problem.tests.setup == "import math"
    assert "f11(1)" in problem.prompt
    assert "f11(2)" not in problem.prompt


def test_codecontests_reads_both_layouts(tmp_path: Path) -> None:
    plain = write(tmp_path / "codecontests" / "problems.jsonl", [contest(number) for number in range(24)])
    hub = write(tmp_path / "hub" / "train.jsonl", [hub_contest(number) for number in range(24)])
    for file, tests in ((plain.parent, 1), (hub, 3)):
        task = load_task("codecontests-easy", path=str(file))
        assert kept(task) == 24
        problem = task.problems("train")[0]
        assert problem.domain == task.judge == "code"
        assert problem.tests is not None
        assert len(problem.tests.stdio) == tests
    assert problem.metadata == {"difficulty": "EASY", "time_limit": 2.5}


def test_codecontests_leaves_out_what_has_several_right_answers(tmp_path: Path) -> None:
    rows = [
        *(hub_contest(number) for number in range(20)),
        hub_contest(50, description=statement(50) + " If there are multiple answers, print any of them."),
        hub_contest(51, input_file="input.txt"),
        hub_contest(52, difficulty=3),
        hub_contest(53, public_tests={"input": [], "output": []}, private_tests=None, generated_tests=None),
    ]
    file = write(tmp_path / "train.jsonl", rows)
    assert load_task("codecontests-easy", path=str(file)).dropped == {
        "several right answers (the statement says that any is accepted)": 1,
        "reads or writes a file instead of standard input and output": 1,
        "difficulty is not EASY": 1,
        "no tests": 1,
    }
    unverified = [*(contest(number) for number in range(20)), contest(21, reference_verified=False)]
    file = write(tmp_path / "problems.jsonl", unverified)
    assert load_task("codecontests-easy", path=str(file)).dropped == {
        "several right answers (its reference program does not reproduce the outputs)": 1
    }


def test_without_an_easy_label_the_easy_letters_are_used_and_a_note_says_so(tmp_path: Path) -> None:
    rows = [contest(number, difficulty=str(7 + number % 6)) for number in range(60)]
    file = write(tmp_path / "problems.jsonl", rows)
    task = load_task("codecontests-easy", path=str(file))
    assert kept(task) == 30
    assert task.options["difficulty"] == "A+B+C"
    assert task.notes[0].startswith(
        "No row is labelled EASY (labels here: A 10, B 10, C 10, D 10, E 10, F 10)"
    )
    assert kept(load_task("codecontests,difficulty=D", path=str(file))) == 10
    with pytest.raises(InputError, match="Unknown difficulty"):
        load_task("codecontests,difficulty=EASYY", path=str(file))


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_an_unknown_option_is_answered_with_the_nearest_one(name: str, data: Path) -> None:
    with pytest.raises(InputError, match=r"'trian': did you mean 'train'\?"):
        load_task(f"{name},trian=3", path=str(data))


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match="Unknown task 'deepmath-hrad': did you mean 'deepmath-hard'"):
        load_task("deepmath-hrad")


def test_a_filter_that_leaves_nothing_says_what_it_dropped(data: Path) -> None:
    write(data / "deepmath" / "train.jsonl", deepmath(5, difficulty=3))
    with pytest.raises(InputError, match=r"no problems left after its filters \(difficulty is not 8: 5\)"):
        load_task("deepmath-hard", path=str(data))


def test_a_hub_that_cannot_be_reached_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"The Hub did not give openai/gsm8k \(main\), split train"):
        load_task("gsm8k")
