"""`agon judge`, through the command line."""

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence

import pytest

from agon.cli import main

needs_sandbox = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def judge(monkeypatch, capsys, lines: Sequence[object], *arguments: str) -> list[dict]:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert main(["judge", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_math_lines_are_answered_in_order_and_bad_ones_do_not_stop_the_rest(monkeypatch, capsys):
    lines = [
        {"gold": "1/2", "answer": "0.5"},
        "this is no JSON",
        {"gold": "42", "answer": "41 or 42"},
        {"answer": "42"},
        [1, 2],
        {"gold": 42, "answer": 42},
        {"gold": "42", "text": "<answer>42</answer>"},
        {"gold": "42", "answer": ""},
        '{"gold": ' + "[" * 100_000,
    ]
    verdicts = judge(monkeypatch, capsys, lines, "math")
    reasons = [verdict["reason"] for verdict in verdicts]
    assert reasons == [
        "correct",
        "error",
        "wrong",
        "error",
        "error",
        "correct",
        "error",
        "no-answer",
        "error",
    ]
    assert "not JSON" in verdicts[1]["detail"]
    assert "'gold'" in verdicts[3]["detail"]
    assert "--dialect" in verdicts[6]["detail"]
    assert set(verdicts[0]) == {"correct", "reason", "seconds"}


@pytest.mark.parametrize(
    ("dialect", "completions"),
    [
        (
            "think",
            {
                "<think>41</think>So it is.<answer>42</answer>": "correct",
                "<think>42</think>So it is.<answer>41</answer>": "wrong",
                "<think>42</think>So it is 42.": "no-answer",
                "<think>the answer is 42": "no-answer",
            },
        ),
        ("boxed", {r"First 41, then \boxed{42}.": "correct", r"\boxed{41} no, \boxed{42}": "wrong"}),
    ],
)
def test_a_whole_completion_is_split_by_its_dialect(monkeypatch, capsys, dialect, completions):
    lines = [{"gold": "42", "text": text} for text in completions]
    verdicts = judge(monkeypatch, capsys, lines, "math", "--dialect", dialect)
    assert [verdict["reason"] for verdict in verdicts] == list(completions.values())


@needs_sandbox
def test_code_lines_are_judged_by_tests_and_by_asserts(monkeypatch, capsys):
    tests = [{"input": "2\n", "output": "4\n"}]
    lines = [
        {"program": "print(2 * int(input()))", "tests": tests},
        {"program": "print(5)", "tests": tests},
        {"program": "def f(x): return x + 1", "asserts": ["assert f(1) == 2"]},
        {"program": "def f(x): return x * ONE", "setup": "ONE = 1", "asserts": ["assert f(1) == 1"]},
        {"program": "def f(x): return None", "asserts": ["assert f(1) == 2"]},
        {"program": "print(1)"},
        {"tests": tests},
        {"program": "print(1)", "tests": [1]},
        {"program": "print(1)", "asserts": [1]},
        {"program": "print('Yes')", "tests": [{"input": "", "output": "YES"}], "checker": "tokens-any-case"},
    ]
    reasons = [verdict["reason"] for verdict in judge(monkeypatch, capsys, lines, "code")]
    expected = [
        "correct",
        "wrong",
        "correct",
        "correct",
        "wrong",
        "error",
        "error",
        "error",
        "error",
        "correct",
    ]
    assert reasons == expected


@needs_sandbox
def test_a_program_may_be_bare_fenced_or_part_of_a_completion(monkeypatch, capsys):
    tests = [{"input": "2\n", "output": "4\n"}]
    bare = "print(2 * int(input()))\n"
    lines = [
        {"program": bare, "tests": tests},
        {"program": f"```python\n{bare}```", "tests": tests},
        {"program": f"Here it is:\n```python\n{bare}```\nDone.", "tests": tests},
        {"text": f"First\n```python\nprint(5)\n```\nthen\n```python\n{bare}```", "tests": tests},
        {"text": f"Only prose, no fence: {bare}", "tests": tests},
    ]
    verdicts = judge(monkeypatch, capsys, lines, "code", "--dialect", "boxed")
    assert [verdict["reason"] for verdict in verdicts] == ["correct"] * 4 + ["no-answer"]


def test_gym_lines_are_scored_by_the_gym(monkeypatch, capsys):
    import reasoning_gym

    entry = reasoning_gym.create_dataset("chain_sum", size=1, seed=1)[0]
    lines = [
        {"gym": "chain_sum", "entry": entry, "answer": entry["answer"]},
        {"gym": "chain_sum", "entry": entry, "answer": "none"},
        {"gym": "no_such_game", "entry": entry, "answer": "1"},
        {"gym": "chain_sum", "answer": "1"},
    ]
    reasons = [verdict["reason"] for verdict in judge(monkeypatch, capsys, lines, "gym")]
    assert reasons == ["correct", "wrong", "error", "error"]


def test_your_own_judge_by_module_and_object(monkeypatch, capsys):
    lines = [{"gold": "a", "answer": "A"}, {"gold": "a", "answer": "a"}]
    verdicts = judge(monkeypatch, capsys, lines, "tests.judges.own_judges:shouting")
    assert [verdict["correct"] for verdict in verdicts] == [True, False]


def test_timeouts_are_verdicts_and_are_counted(monkeypatch, capsys):
    text = '{"gold": "a", "answer": "sleep"}\n{"gold": "a", "answer": "a"}\n'
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert main(["judge", "tests.judges.own_judges:misbehave", "--deadline", "0.5"]) == 0
    shown = capsys.readouterr()
    assert [json.loads(line)["reason"] for line in shown.out.splitlines()] == ["timeout", "correct"]
    assert "1 timeouts" in shown.err


def test_a_verdict_is_written_while_input_is_still_open():
    asked = subprocess.Popen(
        [sys.executable, "-m", "agon.cli", "judge", "math"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert asked.stdin is not None
    assert asked.stdout is not None
    for gold in ("1", "2"):
        asked.stdin.write(json.dumps({"gold": gold, "answer": "1"}) + "\n")
        asked.stdin.flush()
        assert json.loads(asked.stdout.readline())["correct"] is (gold == "1")
    asked.stdin.close()
    assert asked.wait(timeout=30) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["maths"], "did you mean 'math'"),
        (["math", "--workers", "0"], "--workers must be a whole number of at least 1, not '0'"),
        (["math", "--deadline", "-1"], "--deadline must be a number above 0, not '-1'"),
        (["code", "--language", "cobol"], "Unknown language"),
        (["code", "--sandbox", "none", "--language", "cobol"], "Unknown language"),
        (["math", "--dialect", "latin"], "latin"),
        ([], "judge"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(monkeypatch, capsys, arguments, sentence):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    if arguments[:1] == ["code"] and "none" not in arguments and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    assert main(["judge", *arguments]) == 2
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert shown.err.count("\n") == 1


def test_code_without_a_sandbox_is_refused(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert main(["judge", "code"]) == 2
    assert "apt-get install bubblewrap" in capsys.readouterr().err
