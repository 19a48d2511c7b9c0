"""Judges by name, judges of one's own, and the small ones: exact and gym."""

import inspect
import json
from importlib import import_module

import pytest

from agon.errors import InputError
from agon.game.problem import Problem
from agon.judges.exact import ExactJudge
from agon.judges.gym import GymJudge
from agon.judges.judge import Judge
from agon.judges.pool import JudgePool
from agon.judges.registry import JUDGES, as_judge, build, options_for
from tests.judges import own_judges

PROBLEM = Problem(id="p", prompt="", task="t", answer="Paris")


@pytest.mark.parametrize("name", [name for name in JUDGES if name != "code"])
def test_every_named_judge_can_be_built(name):
    assert isinstance(build(name), Judge)


@pytest.mark.parametrize("name", JUDGES)
def test_the_declared_options_are_those_that_the_judge_takes(name):
    module, _, kind = JUDGES[name].where.partition(":")
    taken = inspect.signature(getattr(import_module(module), kind)).parameters
    assert JUDGES[name].options == tuple(taken)


def test_of_the_offered_options_a_judge_gets_those_it_takes():
    assert options_for("code", sandbox="none", loud=True) == {"sandbox": "none"}
    for spec in ("math", "exact", "gym", "maths", "tests.judges.own_judges:Shouting", ExactJudge()):
        assert options_for(spec, sandbox="none", language="python") == {}
    assert build("exact", **options_for("exact", sandbox="none", case_sensitive=True)) == ExactJudge(True)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="did you mean 'math'"):
        build("maths")


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("no_such_module:judge", "cannot be imported"),
        ("tests.judges.own_judges:nothing", "has no 'nothing'"),
        ("tests.judges.own_judges:NOT_A_JUDGE", "not int"),
    ],
)
def test_what_cannot_be_found_is_one_sentence(spec, sentence):
    with pytest.raises(InputError, match=sentence):
        build(spec)


def test_options_that_a_judge_does_not_take_are_bad_input():
    with pytest.raises(InputError, match="flavour"):
        build("exact", flavour="sweet")
    with pytest.raises(InputError, match="takes no options"):
        build("tests.judges.own_judges:shouting", loud=True)


def test_an_object_a_class_and_a_function_are_all_judges():
    for spec in ("tests.judges.own_judges:shouting", "tests.judges.own_judges:Shouting"):
        assert build(spec).judge(PROBLEM, "PARIS").correct
    assert build("tests.judges.own_judges:Shouting", loud=False).judge(PROBLEM, "Paris").correct
    assert build("tests.judges.own_judges:misbehave").judge(PROBLEM, "Paris").correct


def test_a_function_may_return_a_number_and_nothing_stranger():
    judge = as_judge(own_judges.score)
    assert [judge.judge(PROBLEM, answer).correct for answer in ("1", "0.99", "0")] == [True, False, False]
    assert as_judge(own_judges.confused).judge(PROBLEM, "x").reason == "error"


def test_your_own_judge_runs_in_the_pool_like_the_others():
    with JudgePool("tests.judges.own_judges:Shouting", workers=1, loud=False) as pool:
        assert pool.submit(PROBLEM, "Paris").result().correct


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("Paris", "correct"),
        (" paris. ", "correct"),
        (r"\boxed{PARIS}", "correct"),
        ("Ｐａｒｉｓ", "correct"),
        ("Paris or Rome", "wrong"),
        (r"\boxed{Paris} \boxed{Rome}", "wrong"),
        (r"\boxed{Paris} \boxed{paris}", "correct"),
        ("", "no-answer"),
        (r"\boxed{Paris", "no-answer"),
    ],
)
def test_the_exact_judge_wants_the_gold_and_nothing_else(answer, reason):
    assert ExactJudge().judge(PROBLEM, answer).reason == reason


def test_the_exact_judge_may_mind_the_case():
    assert not ExactJudge(case_sensitive=True).judge(PROBLEM, "paris").correct


def gym_problem(name: str) -> tuple[Problem, str]:
    import reasoning_gym

    entry = reasoning_gym.create_dataset(name, size=1, seed=7)[0]
    plain = json.loads(json.dumps(entry))
    return Problem(id="g", prompt="", task="t", metadata={"gym": name, "entry": plain}), entry["answer"]


@pytest.mark.parametrize("name", ["chain_sum", "leg_counting", "spell_backward"])
def test_the_gym_judge_accepts_the_generated_answer_and_no_other(name):
    problem, answer = gym_problem(name)
    assert GymJudge().judge(problem, answer).correct
    assert GymJudge().judge(problem, rf"\boxed{{{answer}}}").correct
    for wrong in (answer + "1", "nonsense", rf"\boxed{{{answer}}} \boxed{{0}}"):
        assert GymJudge().judge(problem, wrong).reason == "wrong"
    assert GymJudge().judge(problem, "").reason == "no-answer"


def test_a_gym_problem_without_its_entry_is_an_error():
    assert GymJudge().judge(PROBLEM, "1").reason == "error"
