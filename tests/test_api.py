"""Agon from Python, on the embedded base."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agon
from agon.game import Duel
from agon.runs.folder import Run

TASK = "gym:chain_sum,min_terms=3,max_terms=3,min_digits=2,max_digits=2,train=8,validation=4,test=6"
SMALL: dict[str, Any] = {
    "task": TASK,
    "max_steps": 1,
    "num_generations": 4,
    "per_device_train_batch_size": 8,
    "final_evaluation": 0,
    "judge_workers": 1,
    "judge": "exact",  # starts at once
}
SUM = "State the final answer to the following arithmetic problem: 12 + 34 + 56 ="


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [
        agon.train(**SMALL, method=method, output_dir=str(folder / method)) for method in ("agon", "coop")
    ]


@pytest.fixture(scope="module")
def pair(runs: list[Path]) -> Iterator[agon.LoadedPair]:
    with agon.load(runs[0]) as loaded:
        yield loaded


def test_a_pair_answers_by_its_cascade(pair: agon.LoadedPair) -> None:
    answer = pair.ask(SUM)
    assert answer.direction == "A->B"
    assert answer.tokens > 10
    assert "<think>" in answer.draft
    assert "<think>" not in answer.text
    assert "<answer>" not in answer.summary
    assert str(answer) == answer.text
    assert pair.ask(SUM) == answer  # the same seed
    assert pair.ask(SUM, direction="B->A", seed=1).direction == "B->A"


def test_a_duel_is_judged(pair: agon.LoadedPair) -> None:
    duel = pair.duel(SUM, answer="102", judge="math")
    assert isinstance(duel, Duel)
    assert duel.challenge is not None
    assert duel.draft.verdict.reason in ("correct", "wrong", "no-answer", "truncated")
    always = pair.duel(agon.Problem("1", SUM, "mine", "102"), judge=lambda problem, answer: True)
    assert always.draft.correct


def test_a_direction_that_is_not_there_is_one_sentence(pair: agon.LoadedPair) -> None:
    with pytest.raises(agon.InputError, match="There is no direction 'A->C' here: A->B or B->A"):
        pair.ask(SUM, direction="A->C")


def test_evaluations_and_comparisons_are_results_and_tables(runs: list[Path]) -> None:
    results = [agon.evaluate(run, limit=4, controls=False) for run in runs]
    assert all(isinstance(result, agon.Result) for result in results)
    assert results[0]["n"] == 4
    assert "| arm | pass@1 |" in str(results[0])
    both = agon.compare(runs)
    assert "contrasts" in both
    assert "agon" in str(both)
    with agon.load(Run(runs[0])) as loaded:
        assert loaded.direction == results[0]["direction"]


def test_a_judge_may_be_a_function(runs: list[Path], tmp_path: Path) -> None:
    result = agon.evaluate(
        runs[0],
        task=TASK,
        limit=2,
        controls=False,
        judge=lambda problem, answer: True,
        output=tmp_path / "own",
    )
    assert result["arms"]["A"]["pass@1"] > 0


def test_a_plain_model_answers_alone(tmp_path: Path) -> None:
    with agon.load("embedded") as base:
        assert base.direction == "base->base"
        assert base.ask(SUM, max_tokens=48).draft


def test_wrong_options_are_one_sentence(runs: list[Path]) -> None:
    with pytest.raises(agon.InputError, match="unexpected keyword argument 'sampels'"):
        agon.evaluate(runs[0], sampels=4)
    with pytest.raises(agon.InputError, match="did you mean 'max_steps'"):
        agon.train(max_step=1)
    with pytest.raises(agon.InputError, match="at least two runs"):
        agon.compare(runs[:1])


def test_the_package_is_imported_without_anything_heavy_and_its_rooms_are_functions_too() -> None:
    script = (
        "import sys, agon; assert 'torch' not in sys.modules\n"
        "import agon.evaluate.request\n"
        "assert callable(agon.evaluate) and callable(agon.train) and 'torch' not in sys.modules\n"
        "assert sorted(agon.__all__) == dir(agon)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
