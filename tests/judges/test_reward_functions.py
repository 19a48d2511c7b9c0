"""Reward functions of TRL as judges, and judges of a script or a notebook."""

import subprocess
import sys
import textwrap
from typing import Any

import pytest

from agon.errors import InputError
from agon.game.problem import Problem
from agon.judges.registry import FunctionJudge, as_judge, name_of
from agon.judges.reward_functions import RewardFunctionJudge

PROBLEM = Problem("p", "What is 1 + 1?", "t", "2", metadata={"columns": {"level": 3, "answer": "2"}})
ASKED = Problem("p", "?", "t", metadata={"conversation": []})


def levels(completions: list[Any], level: list[int], **kwargs: Any) -> list[float]:
    return [each / 3 if text == "all" else 0.5 for each, text in zip(level, completions, strict=True)]


def said(completions: list[Any], prompts: list[Any]) -> list[float]:
    assert prompts == [[{"role": "user", "content": "?"}]]
    return [float(completions[0][0]["content"] == "yes")]


async def later(completions: list[Any], **kwargs: Any) -> list[float]:
    return [1.0]


def never(completions: list[Any], **kwargs: Any) -> list[float | None]:
    return [None]


def test_columns_come_by_name_and_the_score_is_kept() -> None:
    judge = as_judge(levels)
    assert isinstance(judge, RewardFunctionJudge)
    assert judge.judge(PROBLEM, "all").correct
    half = judge.judge(PROBLEM, "half")
    assert (half.correct, half.score) == (False, 0.5)


def test_a_conversation_is_given_in_its_own_form() -> None:
    assert as_judge(said).judge(ASKED, "yes").correct
    assert not as_judge(said).judge(ASKED, "no").correct


def test_of_several_functions_all_must_say_right_and_the_score_is_their_mean() -> None:
    both = as_judge([levels, later])
    assert both.judge(PROBLEM, "all").correct
    verdict = both.judge(PROBLEM, "half")
    assert (verdict.correct, verdict.score) == (False, 0.75)


def test_a_function_that_does_not_apply_is_left_out() -> None:
    assert as_judge([later, never]).judge(PROBLEM, "x").correct
    assert not as_judge(never).judge(PROBLEM, "x").correct


@pytest.mark.parametrize(("result", "score"), [(0.25, 0.25), (7, 1.0), (-1, 0.0), (True, None)])
def test_a_plain_function_may_grade(result: Any, score: float | None) -> None:
    assert FunctionJudge(lambda problem, answer: result).judge(PROBLEM, "").score == score


def test_mixed_judges_are_refused() -> None:
    with pytest.raises(InputError, match="parameter `completions`"):
        as_judge([levels, lambda problem, answer: True])


def test_only_what_can_be_imported_again_has_a_name() -> None:
    assert name_of(as_judge) == "agon.judges.registry:as_judge"
    assert name_of(lambda problem, answer: True) is None


def test_judges_of_the_running_script_work_in_its_workers() -> None:
    """A lambda, a closure and a class of the script that is being run, as in a notebook."""
    script = textwrap.dedent(
        """
        from agon.game import Problem, Verdict
        from agon.judges.pool import JudgePool
        LIMIT = 3
        def near(problem, answer):
            return abs(int(answer) - int(problem.answer)) < LIMIT
        class Never:
            def judge(self, problem, answer):
                return Verdict(False, "wrong", "never")
        problem = Problem("p", "", "t", "10")
        for judge in (near, lambda problem, answer: answer == problem.answer, Never()):
            with JudgePool(judge, workers=1) as pool:
                print(*(verdict.correct for verdict in pool.judge_all([(problem, "12"), (problem, "10")])))
        """
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines() == ["True True", "False True", "False False"], ended.stderr
