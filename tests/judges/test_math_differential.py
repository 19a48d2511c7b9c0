"""Our judge against answers made from real golds; `scripts/judges_differential.py` also asks the others."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the folder ../shared/data is not there")


@pytest.fixture(scope="module")
def differential() -> dict:
    return runpy.run_path(str(ROOT / "scripts" / "judges_differential.py"))


@needs_data
@pytest.mark.parametrize("golds", [8, pytest.param(600, marks=pytest.mark.exhaustive)])
def test_no_changed_gold_is_accepted_and_hardly_a_rewritten_one_refused(differential, golds):
    shown = differential["run"](DATA, golds, seed=7, only_ours=True)
    errors = shown["totals"]["ours"]
    assert shown["answers"] > 8 * golds
    assert errors.get("false right", 0) == 0, shown["listed"]
    assert errors.get("false wrong", 0) <= 1 + golds / 100, shown["listed"]


def test_the_other_judges_are_asked_the_same(differential):
    answers = differential["made"](["42", r"\frac{1}{2}"], seed=0)
    for judge in (differential["by_math_verify"], differential["by_sympy"]):
        given = differential["verdicts"](judge, answers[:3])
        assert given == [True, True, True]
