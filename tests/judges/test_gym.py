"""The gym judge: no answer is executed, and only an answer is an answer, in every dataset."""

import inspect
import json
import re
import shutil
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from agon.game.problem import Problem
from agon.judges.gym import GymJudge
from agon.judges.gym.expressions import NotAFormulaError, arithmetic, polynomial
from agon.judges.gym.forms import COMPARED, FORMS
from agon.judges.gym.scorers import OWN_SCORERS
from agon.judges.pool import JudgePool
from agon.tasks.gym import UNSAFE, gym_names

MARKER = "agon_gym_marker"
# A gold of theirs is refused after a journey through JSON, so no task can be made of them.
NOT_STORABLE = {"arc_agi", "rearc"}
INSPECTED = sorted({*OWN_SCORERS, *FORMS, *COMPARED})
EXECUTED = (
    "binary_matrix countdown intermediate_integration n_queens polynomial_multiplication puzzle24 "
    "simple_integration spiral_matrix string_insertion"
)


@dataclass(frozen=True)
class Asked:
    problem: Problem
    gold: str | None


@pytest.fixture(scope="module")
def asked() -> dict[str, Asked]:
    """One problem of every dataset that can be made without parameters, as a task stores it."""
    import reasoning_gym

    found = {}
    for name in INSPECTED:
        entry = json.loads(json.dumps(reasoning_gym.create_dataset(name, size=1, seed=7)[0], default=str))
        problem = Problem(id=name, prompt="", task="t", metadata={"gym": name, "entry": entry})
        found[name] = Asked(problem, entry["answer"] or _possible(entry["metadata"]))
    return found


def _possible(metadata: dict[str, Any]) -> str | None:
    """An answer to a problem that has no gold of its own, where its entry knows one."""
    found = metadata.get("possible_answer") or metadata.get("example_correct_answer")
    return json.dumps(found) if isinstance(found, dict) else found


def codes(path: Path) -> list[str]:
    """Answers that, executed, leave a file, an attribute of a module, or a changed scorer behind."""
    write = f"open({str(path)!r}, 'w').write('x')"
    mark = f"setattr(__import__('sys'), {MARKER!r}, 1)"
    forge = (
        "setattr(__import__('reasoning_gym').dataset.ProceduralDataset, 'score_answer', lambda *a, **k: 1.0)"
    )
    return [
        write,
        f"({write}, 24)[1]",
        f"[{write}, {mark}, {forge}]",
        f"__import__('os').system('touch {path}') or 24",
        f"1 + {mark}",
        f"x + __import__('pathlib').Path({str(path)!r}).touch()",
        f"(lambda: {forge})()",
        f"cos\ndocos\nsystem\n(S'touch {path}'\ntR.",
    ]


def test_every_dataset_is_inspected_or_refused() -> None:
    assert len(INSPECTED) == len(OWN_SCORERS) + len(FORMS) + len(COMPARED), "a dataset is in two tables"
    assert sorted({*INSPECTED, *UNSAFE}) == gym_names()


def test_no_scorer_that_we_call_executes_anything() -> None:
    """Looks at a scorer's own source and at all functions of its module: it may call any of them."""
    from reasoning_gym.factory import DATASETS

    calls = re.compile(
        r"(?<![\w.])(?:eval|exec|compile|__import__)\(|sympify|sympy|\bsp\.|pickle|importlib|subprocess"
    )
    found = set()
    for name in gym_names():
        kind = DATASETS[name][0]
        helpers = [
            function
            for owner in (kind, import_module(kind.__module__))
            for function_name, function in vars(owner).items()
            if inspect.isfunction(function)
            and re.search(r"pars|verif|valid|extract|normal|score", function_name)
        ]
        if any(calls.search(inspect.getsource(helper)) for helper in helpers):
            found.add(name)
    assert set(EXECUTED.split()) <= found, "the search itself works"
    assert found - set(OWN_SCORERS) == set()


def test_an_answer_that_is_code_is_never_executed(asked: dict[str, Asked], tmp_path: Path) -> None:
    """In this process, where an audit hook sees everything that is compiled, and afterwards every scorer
    still tells right from wrong."""
    path = tmp_path / "executed"
    compiled: list[str] = []
    listening = [True]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if listening[0] and event in ("compile", "exec") and MARKER in str(arguments[0]):
            compiled.append(str(arguments[0])[:80])

    sys.addaudithook(hook)
    judge = GymJudge()
    try:
        for name in INSPECTED:
            for code in codes(path):
                assert not judge.judge(asked[name].problem, code).correct, (name, code)
                assert not judge.judge(asked[name].problem, rf"\boxed{{{code}}}").correct, (name, code)
    finally:
        listening[0] = False
    # Python's parser reads a formula into a tree, which is not executed; it raises the same event.
    assert not [code for code in compiled if "(" not in code]
    assert not path.exists()
    assert not hasattr(sys, MARKER)
    for name in INSPECTED:
        assert not judge.judge(asked[name].problem, "certainly wrong").correct, name


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_scorer_that_is_not_inspected_runs_in_the_sandbox(asked: dict[str, Asked], tmp_path: Path) -> None:
    path = tmp_path / "executed"
    problem = asked["n_queens"].problem
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(OWN_SCORERS, "n_queens")  # its scorer executes what it is given
        verdict = GymJudge().judge(problem, codes(path)[0])
    assert (verdict.reason, path.exists()) == ("wrong", False)


def test_the_gold_is_right_and_a_hedge_is_not(asked: dict[str, Asked]) -> None:
    judge = GymJudge()
    wrong = []
    for name in sorted(set(INSPECTED) - NOT_STORABLE):
        problem, gold = asked[name].problem, asked[name].gold
        if gold is None:
            continue
        assert judge.judge(problem, gold).correct, (name, gold)
        assert judge.judge(problem, rf"\boxed{{{gold}}}").correct, (name, gold)
        hedges = [
            f"It is not 405, it is {gold}.", f"{gold} or 3", f"junk {gold}", f"{gold} junk", f"{gold} {gold}",
            f"Not {gold}", f"{gold}\njunk", f"x\n{gold}", f"{gold}, 7", f"# {gold}", f"{gold} # 3", f"7, {gold}",
            f"{gold}; 7", f"either {gold}, or 8", f"= {gold}", f"{gold}?", f"{gold}\n{gold}", f"Answer: {gold}",
        ]  # fmt: skip
        wrong += [(name, hedge) for hedge in hedges if judge.judge(problem, hedge).correct]
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "entry", "right", "wrong"),
    [
        (
            "countdown",
            {"answer": "", "metadata": {"numbers": [2, 3, 4], "target": 20}},
            ["4*(2+3)", "(3 + 2) * 4", "4 * (3 - -2)"],
            ["20", "4*5", "4*(2+3)*1", "4**2+3+2", "4*(2+3) # ok", "4 // 1", "4*(2+3)=20", "(4*(2+3)", "1/0"],
        ),
        (
            "puzzle24",
            {"answer": "", "metadata": {"numbers": [1, 2, 3, 4]}},
            ["1*2*3*4"],
            ["6*4*1*1", "24", "(1+2+3)*4.0", "4*3*2+1"],
        ),
        (
            "polynomial_multiplication",
            {"answer": "x**2 - 1", "metadata": {}},
            ["x**2 - 1", "-1 + x*x", "2*x**2/2 - 1"],
            ["(x-1)*(x+1)", "x**2", "x**2 - y", "x**2 - 1 + x.real", "x**10000000", "x^2-1", "lambda: 1"],
        ),
        (
            "simple_integration",
            {"answer": "", "metadata": {"variable": "x", "integrand": "2*x + cos(x)"}},
            ["x**2 + sin(x) + C", "sin(x) + x*x", "C + x**2 + sin(x) + 0.5"],
            [
                "x**2",
                "x**2 + sin(x) + y",
                "integrate(2*x + cos(x), x)",
                "sin.__class__",
                "x**2 + sin(x",
                "x^2",
            ],
        ),
        ("gsm_symbolic", {"answer": "5"}, ["5", "5.0", "+5"], ["-5", "5 6", "6 or 5", "five"]),
        ("game_of_life_halting", {"answer": "True"}, ["True", "true"], ["False", "0", "anything"]),
        ("game_of_life", {"answer": "[[0,1]]"}, ["[[0, 1]]"], ["[[0,1,1]]", "[[0,1],[0,0]]", "[[0,true]]"]),
        (
            "number_sorting",
            {"answer": "['1.5', '2.0']"},
            ["[1.5, 2]", "['1.5','2.0']"],
            ["[1, 2]", "[2, 1.5]"],
        ),
        ("bitwise_arithmetic", {"answer": "-0xa"}, ["-0xa", "-10", "-0XA"], ["10", "0xa", "-0xa-0", "-(10)"]),
    ],
)
def test_our_own_scorers_decide(name: str, entry: dict[str, Any], right: list[str], wrong: list[str]) -> None:
    problem = Problem(id="p", prompt="", task="t", metadata={"gym": name, "entry": entry})
    assert [answer for answer in right if not GymJudge().judge(problem, answer).correct] == []
    assert [answer for answer in wrong if GymJudge().judge(problem, answer).reason != "wrong"] == []


@pytest.mark.parametrize(
    "text", ["", "a.b", "f(1)", "[1]", "'1'", "1 if 1 else 2", "(" * 900 + "1" + ")" * 900, "1" * 3000]
)
def test_what_is_no_formula_is_refused(text: str) -> None:
    for read in (arithmetic, polynomial):
        with pytest.raises(NotAFormulaError):
            read(text)


def test_hostile_answers_leave_later_verdicts_as_they_are(asked: dict[str, Asked], tmp_path: Path) -> None:
    """In the pool, as in training: one worker, hostile answers first, wrong and right ones after them."""
    names = ["countdown", "polynomial_multiplication", "n_queens", "string_insertion", "chain_sum"]
    path = tmp_path / "executed"
    pairs = [(asked[name].problem, code) for name in names for code in codes(path)]
    pairs += [(asked[name].problem, "certainly wrong") for name in names]
    golds = [(asked[name].problem, str(asked[name].gold)) for name in names]
    with JudgePool("gym", workers=1) as pool:
        verdicts = pool.judge_all([*pairs, *golds])
    assert not any(verdict.correct for verdict in verdicts[: len(pairs)])
    assert all(verdict.correct for verdict in verdicts[len(pairs) :])
    assert not path.exists()
