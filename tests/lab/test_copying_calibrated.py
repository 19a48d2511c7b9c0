"""The copying trap's model with the rates of a real setting: scripts/copying_calibrated.py."""

import gzip
import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agon.evaluate.compare import enter
from agon.evaluate.draft_effects import DraftEffects
from agon.lab.worlds.copying_model import COOP

ROOT = Path(__file__).parents[2]
RUN = str(ROOT / "docs" / "results" / "second-model" / "rates" / "lr3e-4-coop-s100")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "copying_calibrated.py"))


def test_it_predicts_what_the_plan_says(script: dict[str, Any]) -> None:
    table = script["predictions"](script["MEASURED"], script["CHOICE_RATES"][:1])
    rows = {skill: cells for _, skill, *cells in table.rows}
    assert rows["0.05"][2:4] == ["33.0 (+0.9)", "41.0 (+3.4)"]  # +1.0 in the plan, from rounded figures
    assert rows["0.1"][3] == "68.3 (+4.0)"


def test_a_quick_choice_is_caught_sooner(script: dict[str, Any]) -> None:
    """Without growth everybody ends up copying, whose drafts are better here."""
    setting = script["Setting"]((1.0,), (0.6,), (0.5,), work=0.5)
    slow, quick = (script["accuracies"](setting, COOP, rate, 0.0, seed=0)[1] for rate in (0.4, 4.0))
    assert 0.55 < slow < 0.58 < quick < 0.6


def test_without_growth_and_choice_accuracy_is_what_was_measured(script: dict[str, Any]) -> None:
    drafts, skill = (0.7, 0.1, 0.4), (0.5, 0.05, 0.8)
    setting = script["Setting"]((1 / 3,) * 3, drafts, skill, work=0.98)
    first, *_ = script["accuracies"](setting, COOP, 0.0, 0.0, seed=0)
    assert first == pytest.approx(np.mean(skill), abs=0.01)


def test_few_samples_are_drawn_to_the_mean_and_keep_it(script: dict[str, Any]) -> None:
    correct = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 0]], dtype=bool)
    rates = script["rates"](correct)
    assert rates == pytest.approx((0.9, 0.1, 0.5))
    assert np.mean(rates) == pytest.approx(correct.mean())
    assert script["rates"](np.ones((2, 4), dtype=bool)) == (script["MOST"],) * 2


@pytest.mark.parametrize(
    ("changed", "share"),
    [
        ({}, 0.25),  # 10 of 40 that could be after right drafts, 93 of 373 after wrong ones
        ({"alone_after_right": 0.75, "alone_after_wrong": 0.5}, 0.0),  # less than alone
        ({"alone_after_right": None, "alone_after_wrong": None}, 0.0),
    ],
)
def test_copies_are_answers_that_the_challenger_would_not_have_found(
    script: dict[str, Any], changed: dict[str, Any], share: float
) -> None:
    counts: dict[str, Any] = {
        "both_right": 70,
        "corrupted": 30,
        "converted": 50,
        "both_wrong": 450,
        "answered_wrong": 400,
        "repeated": 120,
        "alone_after_right": 0.6,
        "alone_after_wrong": 1 / 15,
    }
    assert script["copied"](DraftEffects(**{**counts, **changed})) == pytest.approx(share)


def test_it_reads_p_and_q_off_an_evaluated_pair(script: dict[str, Any]) -> None:
    setting, table = script["measured"]([f"{RUN}@B", f"{RUN}@A", f"{RUN}@B->A"], "gsm8k", "validation")
    p, q, band, _, inside = table.rows[0]
    assert (p, q, band, inside) == ("32.4", "35.2", "24.2", "no")  # as the page says of this run
    assert len(setting.drafts) == len(setting.skill) == 256
    own = f"{RUN}/evaluations/gsm8k-validation"  # an evaluation's own folder stands for itself, as in agon compare
    _, table = script["measured"]([f"{own}@A", f"{own}@B", f"{own}@A->B"], "gsm8k", "validation")
    assert table.rows[0][-1] == "yes"


def test_a_shorter_challenger_is_right_where_its_answer_was_short_enough(script: dict[str, Any]) -> None:
    with gzip.open(f"{RUN}/evaluations/gsm8k-validation/samples.jsonl.gz", "rt") as file:
        samples = [json.loads(line) for line in file]
    drafts = [each["drafts"][0] for each in samples if each["play"] == "A->B"]
    short = sum(draft["correct"] and draft["length"] <= 256 for draft in drafts)
    assert 0 < short < sum(draft["correct"] for draft in drafts)
    alone = enter(f"{RUN}@A", "gsm8k", "validation")
    assert script["within"](alone, "validation", 256).sum() == short
    assert (script["within"](alone, "validation", 512) == alone.correct).all()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            [f"{RUN}@B", f"{RUN}@A", f"{RUN}@A", "--split", "validation"],
            "reads no drafts; these do: A->B, B->A.",
        ),
        ([f"{RUN}@B", f"{RUN}@A", f"{RUN}@C", "--split", "validation"], "arm"),
        ([RUN, RUN, RUN], "has no test evaluation"),
        ([RUN], "give three arms"),
        (["--alone-tokens", "256"], "--alone-tokens is about ALONE: give three arms"),
        ([RUN, RUN, RUN, "--alone-tokens", "0"], "--alone-tokens must be at least 1"),
    ],
)
def test_wrong_input_is_one_sentence(
    script: dict[str, Any],
    words: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["copying_calibrated.py", *words])
    try:
        code = script["main"]()
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert sentence in capsys.readouterr().err.strip().splitlines()[-1]
