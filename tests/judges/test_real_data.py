"""A sample of real problems through the judges; `scripts/judges_sweep.py` runs all of them."""

import json
import runpy
import shutil
from pathlib import Path

import pytest

from agon.game.problem import Problem
from agon.judges.pool import JudgePool, check_golds
from tests.judges.hostile import hostile

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the folder ../shared/data is not there")
needs_sandbox = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.fixture(scope="module")
def sweep() -> dict:
    return runpy.run_path(str(ROOT / "scripts" / "judges_sweep.py"))


@needs_data
def test_golds_of_real_tasks_verify_against_themselves():
    lines = (DATA / "deepmath_5k" / "train.jsonl").read_text("utf-8").splitlines()[::10]
    golds = [json.loads(line)["final_answer"] for line in lines]
    golds += [
        json.loads(line)["answer"]
        for line in (DATA / "math500" / "test.jsonl").read_text("utf-8").splitlines()
    ]
    with JudgePool("math", workers=2) as pool:
        bad = check_golds(pool, [Problem(id="p", prompt="", task="t", answer=gold) for gold in golds])
    assert bad == []


@needs_data
@needs_sandbox
def test_references_of_contests_are_accepted_and_their_mutants_rejected(sweep):
    problems = list(sweep["contest_problems"](DATA))[::28]
    mutants = [sweep["wrong_mutant"](problem, program) for problem, program in problems]
    with JudgePool("code", workers=2) as pool:
        accepted = pool.judge_all(problems)
        rejected = pool.judge_all(
            (problem, mutant) for (problem, _), mutant in zip(problems, mutants, strict=True)
        )
    assert all(verdict.correct for verdict in accepted), accepted
    assert all(verdict.reason in ("wrong", "timeout") for verdict in rejected), rejected


@needs_data
@needs_sandbox
def test_references_of_function_problems_are_accepted_and_none_is_rejected(sweep):
    problems = sweep["mbpp_problems"](DATA, 200)[::20]
    with JudgePool("code", workers=2) as pool:
        accepted = pool.judge_all(problems)
        rejected = pool.judge_all(
            (problem, sweep["returning_none"](program)) for problem, program in problems
        )
    assert all(verdict.correct for verdict in accepted), accepted
    assert all(verdict.reason == "wrong" for verdict in rejected), rejected


@pytest.mark.parametrize("count", [200, pytest.param(600, marks=pytest.mark.exhaustive)])
def test_hostile_strings_get_a_verdict_in_time_and_never_a_point(count):
    problem = Problem(id="p", prompt="", task="t", answer="43")
    with JudgePool("math", workers=2, deadline=0.5) as pool:
        verdicts = pool.judge_all((problem, text) for text in hostile(count, seed=1))
        assert pool.submit(problem, "43").result().correct
        crashes = pool.counts.crashes
    assert {verdict.reason for verdict in verdicts} <= {"wrong", "no-answer", "timeout", "error"}
    assert max(verdict.seconds for verdict in verdicts) < 1.0
    assert sum(verdict.reason == "error" for verdict in verdicts) <= crashes + 5
