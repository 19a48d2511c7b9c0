"""`agon eval`: everything kept, nothing done twice, one sentence for bad input."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from agon.cli import main
from agon.commands.eval import split_tasks
from agon.game import prompts
from tests import forked
from tests.evaluate.tiny import save_run

TEST = Path("evaluations") / "bits-test"


def lines(folder: Path) -> list[bytes]:
    return (folder / "samples.jsonl").read_bytes().splitlines(keepends=True)


def keys(folder: Path) -> list[tuple[str, str, int]]:
    samples = [json.loads(line) for line in lines(folder)]
    return [(sample["play"], sample["problem"], sample["number"]) for sample in samples]


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """What went to standard error, which must be one sentence of ours."""
    words = capsys.readouterr().err.strip().splitlines()
    assert len([line for line in words if line.startswith("agon: ")]) == 1
    return words[-1]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, base: Path, problems: Path) -> Path:
    """A pair evaluated from start to end without a break."""
    run = save_run(tmp_path_factory.mktemp("runs") / "pair", base, problems)
    assert main(["eval", str(run), "--samples", "2"]) == 0
    return run


def test_a_kill_and_the_same_command_give_the_same_files(
    evaluated: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["eval", str(run), "--samples", "2", "--json"]
    folder = run / TEST
    killed = forked.agon(*command)
    deadline = time.monotonic() + 240
    while not ((folder / "samples.jsonl").exists() and lines(folder)):
        assert os.waitpid(killed.pid, os.WNOHANG) == (0, 0), "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    killed.kill()
    assert not (folder / "result.json").exists()
    before = lines(folder)
    assert 0 < len(before) < len(lines(evaluated / TEST))
    capsys.readouterr()

    assert main(command) == 0

    assert lines(folder)[: len(before)] == before
    assert len(keys(folder)) == len(set(keys(folder)))
    for name in ("samples.jsonl", "result.json"):
        assert (folder / name).read_bytes() == (evaluated / TEST / name).read_bytes()
    said = json.loads(capsys.readouterr().out)
    assert said["arms"] == json.loads((folder / "result.json").read_text())["arms"]


def test_a_finished_evaluation_is_not_sampled_again(
    evaluated: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nor are judges started that nobody needs: closed while they start, they would complain."""
    before = (evaluated / TEST / "samples.jsonl").stat().st_mtime_ns
    assert main(["eval", str(evaluated), "--samples", "2"]) == 0
    assert (evaluated / TEST / "samples.jsonl").stat().st_mtime_ns == before
    time.sleep(0.5)
    assert "Traceback" not in capfd.readouterr().err


def test_fewer_samples_are_a_part_of_more(
    evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sample first and a second later is the same as two at once."""
    run = tmp_path / "pair"
    shutil.copytree(evaluated, run)
    (run / TEST / "samples.jsonl").write_bytes(
        b"".join(line for line in lines(run / TEST) if b'"number":0' in line)
    )
    assert main(["eval", str(run), "--samples", "2", "--json"]) == 0
    assert set(lines(run / TEST)) == set(lines(evaluated / TEST))
    assert json.loads(capsys.readouterr().out)["arms"] == _result(evaluated)["arms"]


def test_the_json_is_what_was_promised(evaluated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["eval", str(evaluated), "--samples", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["task"], result["split"]) == ("bits", "test")
    assert list(result["arms"]) == ["A->B", "B->A", "A", "B", "zero-shot", "self-cascade", "moa", "majority"]
    for arm in result["arms"].values():
        assert (arm["n"], arm["samples"]) == (32, 2)
        low, high = arm["ci95"]
        assert 0 <= low <= arm["pass@1"] <= high <= 1
        assert arm["pass@1"] <= arm["pass@2"]
        assert set(arm["tokens"]) == {"draft", "final", "total", "prompt"}
    cascade = result["arms"]["A->B"]
    assert 0 < cascade["converted"] < 1
    assert 0 < cascade["corrupted"] < 1
    assert result["arms"]["A"]["pass@1"] + cascade["converted"] - cascade["corrupted"] == pytest.approx(
        cascade["pass@1"]
    )


def test_the_direction_is_the_better_one_on_validation(evaluated: Path) -> None:
    """Recounted from the validation samples; the test split has no say."""
    right = {"A->B": 0, "B->A": 0}
    for line in lines(evaluated / "evaluations" / "bits-validation"):
        sample = json.loads(line)
        right[sample["play"]] += sample["finals"][0]["correct"]
    assert right["A->B"] != right["B->A"]
    result = _result(evaluated)
    assert result["direction"] == result["headline"] == max(right, key=lambda way: right[way])
    assert "bits validation" in result["chosen_on"]


def test_a_single_pass_method_is_headed_by_an_adapter_alone(
    tmp_path: Path, base: Path, problems: Path
) -> None:
    run = save_run(tmp_path / "hidden", base, problems, "hidden")
    assert main(["eval", str(run), "--no-controls", "--limit", "8"]) == 0
    result = _result(run)
    assert result["headline"] in ("A", "B")
    assert result["direction"] in ("A->B", "B->A")
    assert result["n"] == 8


def test_one_policy_needs_no_choice(tmp_path: Path, base: Path, problems: Path) -> None:
    run = save_run(tmp_path / "grpo", base, problems, "grpo")
    assert main(["eval", str(run), "--limit", "8"]) == 0
    assert _result(run)["direction"] == "A->A"
    assert _result(run)["headline"] == "A"
    assert not (run / "evaluations" / "bits-validation").exists()


def test_a_plain_model_has_the_controls(
    tmp_path: Path, base: Path, problems: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["eval", str(base), "--task", str(problems), "--limit", "8", "--max-tokens", "3"]
    assert main([*words, "--output", str(tmp_path / "out"), "--markdown"]) == 0
    assert "| zero-shot |" in capsys.readouterr().out
    result = json.loads((tmp_path / "out" / "bits-test" / "result.json").read_text())
    assert list(result["arms"]) == ["zero-shot", "self-cascade", "moa", "majority"]


def test_tasks_have_their_own_numbers_of_samples_and_one_choice(run: Path, problems: Path) -> None:
    other = problems.with_name("others.jsonl")
    shutil.copy(problems, other)
    words = ["--task", f"{problems},{other}", "--samples", "2,1", "--limit", "8", "--no-controls"]
    assert main(["eval", str(run), *words]) == 0
    results = [
        json.loads((run / "evaluations" / f"{name}-test" / "result.json").read_text())
        for name in ("bits", "others")
    ]
    assert [result["samples"] for result in results] == [2, 1]
    assert results[0]["direction"] == results[1]["direction"]
    assert {result["chosen_on"] for result in results} == {"bits validation, n=8, k=2"}


def test_own_is_the_task_of_the_run_beside_others(
    run: Path, problems: Path, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.jsonl"
    shutil.copy(problems, other)
    words = ["--task", f"own,{other}", "--limit", "4", "--no-controls", "--json"]
    assert main(["eval", str(run), *words]) == 0
    own, transfer = json.loads(capsys.readouterr().out)
    assert (own["task"], transfer["task"]) == ("bits", "other")
    assert main(["eval", str(base), "--task", "own", "--output", str(tmp_path / "out")]) == 2
    assert "has no task of its own" in said(capsys)


def test_the_base_answers_the_same_with_and_without_a_run_around_it(
    tmp_path: Path, base: Path, problems: Path, evaluated: Path
) -> None:
    """Zero-shot of a run is the bare model, not one of its adapters."""
    words = [
        "eval",
        str(base),
        "--task",
        str(problems),
        "--limit",
        "32",
        "--max-tokens",
        "3",
        "--temperature",
        "0.9",
    ]
    assert main([*words, "--output", str(tmp_path)]) == 0
    bare = {
        line for line in lines(tmp_path / "bits-test") if b'"self-cascade"' in line and b'"number":0' in line
    }
    assert bare
    # The run names a judge of its own; the verdicts agree on these answers.
    assert bare <= set(lines(evaluated / TEST))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--samples", "0"], "--samples must be at least 1, not 0"),
        (["--samples", "four"], "'four' is not a number"),
        (["--samples", "4,1"], "one for each of the 1 tasks; not 2"),
        (["--limit", "0"], "--limit must be a whole number of at least 1, not '0'"),
        (["--rows", "0"], "--rows must be a whole number of at least 1, not '0'"),
        (["--split", "train"], "has no train problems"),
        (["--direction", "AC"], "Unknown direction 'A->C'"),
        (["--engine", "vlm"], "Unknown engine 'vlm': did you mean 'vllm'?"),
        (["--task", "gsm9k"], "Unknown task 'gsm9k': did you mean 'gsm8k'?"),
        (["--top-p", "0"], "--top-p must be a number above 0 and up to 1, not '0'"),
    ],
)
def test_bad_input_is_one_sentence(
    run: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(run), *words]) == 2
    assert sentence in said(capsys)
    assert not (run / "evaluations").exists()


def test_a_run_without_adapters_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(run / "adapters" / "B")
    assert main(["eval", str(run)]) == 2
    assert "has no trained adapters: expected adapters/A and adapters/B" in said(capsys)


def test_a_folder_that_is_neither_run_nor_model_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(tmp_path), "--output", str(tmp_path), "--task", "gsm8k"]) == 2
    assert "neither a run (no config.yaml) nor a model (no config.json)" in said(capsys)


def test_a_plain_model_needs_a_place_for_its_samples(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(base), "--task", "gsm8k"]) == 2
    assert "give --output DIR" in said(capsys)


def test_samples_of_other_settings_are_not_mixed_in(
    evaluated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["eval", str(evaluated), "--samples", "2", "--temperature", "1.0", "--direction", "AB"]
    assert main(words) == 2
    assert "decoding temperature is 0.9 there and 1.0 here" in said(capsys)


def test_samples_of_other_prompts_are_not_mixed_in(
    evaluated: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prompts, "CHALLENGE", f"Look: {prompts.CHALLENGE}")
    assert main(["eval", str(evaluated), "--samples", "2"]) == 2
    assert "prompts is '" in said(capsys)


def test_other_weights_are_noticed(
    evaluated: Path, tmp_path: Path, base: Path, problems: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = save_run(tmp_path / "pair", base, problems, seed=5)
    shutil.copytree(evaluated / "evaluations", run / "evaluations")
    assert main(["eval", str(run), "--samples", "2"]) == 2
    assert "weights A is" in said(capsys)


def test_changed_problems_are_noticed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads((run / "task.json").read_text())
    record["fingerprints"]["test"] = "another"
    (run / "task.json").write_text(json.dumps(record))
    assert main(["eval", str(run)]) == 2
    assert "The test problems of 'bits' are not those" in said(capsys)


def test_task_names_keep_their_options() -> None:
    assert split_tasks("gsm8k,math-500") == ["gsm8k", "math-500"]
    assert split_tasks("gym:chain_sum,max_terms=3,test=10, gsm8k") == [
        "gym:chain_sum,max_terms=3,test=10",
        "gsm8k",
    ]


def _result(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / TEST / "result.json").read_text()))
