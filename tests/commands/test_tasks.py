"""`agon tasks` from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from agon.cli import main
from tests.tasks.small_datasets import deepmath, gsm8k, statement, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "deepmath" / "train.jsonl", [*deepmath(36), *deepmath(4, difficulty=5, first=100)])
    write(tmp_path / "gsm8k" / "test.jsonl", gsm8k(3, first=500))
    return tmp_path


def facts(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["tasks", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_without_a_name_it_lists_every_way_to_name_a_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert {"deepmath-hard", "codecontests-easy", "gsm8k", "math-500", "mbpp", "gym:NAME", "FILE"} <= set(
        listed
    )


def test_it_says_how_many_rows_each_filter_leaves(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "deepmath-hard", "--path", str(folder)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "40 rows read" in lines
    assert "-4 difficulty is not 8 (leaves 36)" in lines
    assert any(line.startswith("30 train (fingerprint ") for line in lines)
    assert any(line.startswith("Note: 36 problems are too few") for line in lines)
    assert any(line.startswith("Note: Not compared with math-500") for line in lines)


def test_the_numbers_as_json_add_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(capsys, "deepmath-hard", "--path", str(folder), "--show", "3", "--golds")
    assert found["rows"] == 40 == found["kept"] + sum(found["dropped"].values())
    assert sum(part["problems"] for part in found["splits"].values()) == found["kept"]
    assert sum(found["length"]["counts"]) == found["kept"]
    assert len(found["samples"]) == 3
    assert found["unusable_golds"] == []


def test_both_prompts_are_shown_in_the_requested_dialect(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    think = facts(capsys, "deepmath-hard", "--path", str(folder))["samples"][0]
    boxed = facts(capsys, "deepmath-hard", "--path", str(folder), "--dialect", "boxed")["samples"][0]
    assert "<answer>" in think["plain"]
    assert "<attempt>" not in think["plain"]
    assert "<attempt>" in think["challenger"]
    assert r"\boxed{}" in boxed["challenger"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["deepmath-hrad"], "did you mean 'deepmath-hard'?"),
        (["gsm8k", "--path", "nowhere"], "There is no file or folder nowhere."),
        (["gsm8k", "--show", "-1"], "--show must be a whole number of at least 0, not '-1'."),
        (["gym:chain_sum,train=5", "--model", "recipes"], "The tokenizer of 'recipes' cannot be loaded"),
        (["gym:chain_sum", "--dialect", "thnik"], "Unknown dialect 'thnik': did you mean 'think'?"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tasks", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.startswith("agon: ")
    assert captured.err.count("\n") == 1


def test_a_gold_that_no_answer_can_match_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"id": f"row{n}", "problem": statement(n), "answer": r"\frac{" if n == 3 else str(n)}
        for n in range(6)
    ]
    file = write(tmp_path / "mine.jsonl", rows)
    assert main(["tasks", str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "of problem 'row3' is not accepted by its own judge, math" in captured.err
