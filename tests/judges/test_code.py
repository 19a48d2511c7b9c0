"""The code judge and its sandbox: right programs are correct, wrong ones get a reason."""

import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from agon.errors import InputError
from agon.game import split
from agon.game.problem import CodeTests, Problem, StdioTest
from agon.judges.code import CodeJudge
from agon.judges.code.asserts import NotSeparableError, take_apart
from agon.judges.code.checkers import checker
from agon.judges.code.languages import language
from agon.judges.code.sandbox import SandboxLimits, require_sandbox, run_program
from agon.judges.code.values import NotPlainError, decode, encode
from agon.judges.pool import JudgePool

needs_sandbox = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
HELD_BY_ANY_PROGRAM = (
    "assert isinstance(f(2), int)",
    "assert f(2) != 6",
    "assert f(2)",
    "assert f(f(1)) == f(2)",
)
LIMITS = SandboxLimits(cpu_seconds=2, wall_seconds=4.0, memory_bytes=256 << 20)


def stdio(*tests: tuple[str, str], **metadata: object) -> Problem:
    pairs = tuple(StdioTest(given, wanted) for given, wanted in tests)
    return Problem(
        id="s", prompt="", task="t", domain="code", tests=CodeTests(stdio=pairs), metadata=metadata
    )


def asserts(*assertions: str, setup: str = "") -> Problem:
    return Problem(
        id="f", prompt="", task="t", domain="code", tests=CodeTests(setup=setup, asserts=assertions)
    )


@pytest.fixture(scope="module")
def judge() -> CodeJudge:
    return CodeJudge(run_limits=LIMITS)


@pytest.fixture(scope="module")
def code_pool() -> Iterator[JudgePool]:
    with JudgePool("code", workers=2, run_limits=LIMITS) as pool:
        yield pool


@needs_sandbox
class TestStandardInputAndOutput:
    problem = stdio(("1 2\n", "3\n"), ("5 5\n", "10\n"))

    @pytest.mark.parametrize(
        ("program", "reason"),
        [
            ("a, b = map(int, input().split()); print(a + b)", "correct"),
            ("```python\na, b = map(int, input().split())\nprint(a + b)\n```", "correct"),
            ("import sys\nprint(sum(map(int, sys.stdin.read().split())), end='')", "correct"),
            ("a, b = map(int, input().split()); print(' ', a + b, '  \\n\\n')", "correct"),
            ("print(3)", "wrong"),
            ("print(1 / 0)", "wrong"),
            ("syntax error", "wrong"),
            ("while True: pass", "timeout"),
            ("import time; time.sleep(100)", "timeout"),
            ("x = bytearray(1 << 30)", "wrong"),
            ("while True: print('x' * 10**6)", "wrong"),
            ("  \n ", "no-answer"),
        ],
    )
    def test_a_program_gets_its_verdict(self, judge, program, reason):
        assert judge.judge(self.problem, program).reason == reason

    def test_the_first_failing_test_is_named_and_the_last_one_run(self, judge):
        verdict = judge.judge(self.problem, "a, b = map(int, input().split()); print(3); assert a == 1")
        assert verdict.detail.startswith("Test 2: The program ended with exit code 1: AssertionError")

    def test_large_input_and_output_pass_through(self, judge):
        numbers = " ".join(map(str, range(200_000)))
        assert judge.judge(stdio((numbers, numbers)), "print(input())").correct

    def test_input_that_is_not_read_is_no_fault(self, judge):
        assert judge.judge(stdio(("x" * 1_000_000, "ok")), "print('ok')").correct

    def test_a_problem_with_several_right_answers_needs_a_checker(self, judge):
        several = stdio(("3\n", "1 2 3\n"), needs_checker=True)
        verdict = judge.judge(several, "print(1, 2, 3)")
        assert (verdict.reason, "several right answers" in verdict.detail) == ("error", True)
        checked = stdio(("3\n", "1\n2\n3\n"), needs_checker=True, checker="lines-any-order")
        assert judge.judge(checked, "print(3); print(1); print(2)").correct
        assert not judge.judge(checked, "print(3); print(1); print(1)").correct
        assert judge.judge(stdio(("", "1"), checker="tokenz"), "print(1)").reason == "error"

    def test_a_problem_without_tests_is_an_error(self, judge):
        assert judge.judge(Problem(id="n", prompt="", task="t", domain="code"), "print(1)").reason == "error"


@needs_sandbox
class TestFunctions:
    @pytest.mark.parametrize(
        "assertion",
        [
            "assert f(2) == 5",
            "assert 5 == f(2)",
            "assert f(2) == 5, 'a message'",
            "assert f(2) != 6",
            "assert f(2)",
            "assert not f(-3)",
            "assert f(2) > 4 and f(3) == 10",
            "assert math.isclose(f(2) / 2, 2.5)",
            "assert abs(f(2) - 5.0) < 1e-9",
            "assert sorted(g(3)) == [0, 1, 2]",
            "assert g(3) == {2, 1, 0}",
            "assert set(g(3)) == set([0, 1, 2])",
            "assert h() == (1, [2.5, None], {'k': 'ü'}, b'x', 1j, True)",
            "assert h()[1][0] == 2.5",
            "assert isinstance(f(2), int)",
            "assert f(f(1)) == f(2)",
            "assert Point(1, 2).norm() == 5",
            "assert LIMIT == 7",
            "assert select(3) == 3",
            "assert twice(f(2)) == 10",
            "assert len([x for x in g(3) if x > 0]) == 2",
            "assert f(*[2]) == 5 and f(x=2) == 5",
            "assert big() == 10 ** 5000",
            "assert sum(10, 15) == 150",
        ],
    )
    def test_every_form_of_assert_can_hold_and_fail(self, judge, assertion):
        program = (
            "def f(x): return x * x + 1 if x != -3 else 0\n"
            "def g(n): return set(range(n))\n"
            "def h(): return (1, [2.5, None], {'k': 'ü'}, b'x', 1j, True)\n"
            "class Point:\n    def __init__(self, x, y): self.x, self.y = x, y\n"
            "    def norm(self): return self.x ** 2 + self.y ** 2\n"
            "def select(x): return x\n"
            "def big(): return 10 ** 5000\n"
            "def sum(a, b): return a * b\n"
            "LIMIT = 7\n"
        )
        wrong = (
            "def f(x): return -1 if x != -3 else 1\ndef g(n): return [9]\ndef h(): return [[1], [2]]\n"
            "class Point:\n    def __init__(self, *a): pass\n    def norm(self): return 0\n"
            "def select(x): return None\ndef big(): return 1\nLIMIT = 8\ndef sum(a, b): return 6\n"
        )
        problem = asserts(assertion, setup="def twice(x):\n    return 2 * x\n")
        assert judge.judge(problem, program).correct, judge.judge(problem, program)
        if assertion not in HELD_BY_ANY_PROGRAM:
            assert judge.judge(problem, wrong).reason == "wrong"

    def test_the_setup_may_need_the_program_or_the_program_the_setup(self, judge):
        tree = asserts("assert depth(root) == 2", setup="root = Node()\nroot.left = Node()")
        program = (
            "class Node:\n    left = None\n"
            "def depth(node): return 0 if node is None else 1 + depth(node.left)"
        )
        assert judge.judge(tree, program).correct
        given = asserts("assert area(1) == PI", setup="PI = 3")
        assert judge.judge(given, "def area(r): return PI * r * r").correct

    def test_what_a_program_prints_or_asks_for_does_not_matter(self, judge):
        program = "print('noise')\ndef f(x):\n    print(x)\n    return x\nif __name__ == '__main__': input()"
        assert judge.judge(asserts("assert f(1) == 1"), program).correct

    def test_an_assert_that_cannot_be_taken_apart_is_not_judged(self, judge):
        for assertion in (
            "assert all(f(i) == i for i in range(3))",
            "f(1) == 1",
            "assert (",
            "assert 1 == 1",
        ):
            verdict = judge.judge(asserts(assertion), "def f(x): return x")
            assert (verdict.reason, "cannot be judged safely" in verdict.detail) == ("error", True)


def test_the_expected_value_is_never_part_of_what_the_program_is_asked():
    for assertion in ("assert f(1) == 77", "assert math.isclose(f(1), 77)", "assert g(f(1)) == {77: [77]}"):
        check = take_apart("", assertion)
        assert not any("77" in call for call in check.calls)
        assert "77" in check.test
    with pytest.raises(NotSeparableError):
        take_apart("", "assert any(f(x) == 77 for x in [1])")


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 0, -(10**400), 0.1, float("inf"), 2j, "ü\ud800", b"\x00", bytearray(b"a"), range(3)),
        *([], [[1], (2,)], {1, 2}, frozenset({(1, "a")}), {"k": {None: [1.5]}}),
    ],
)
def test_plain_values_survive_the_journey(value):
    assert decode(encode(value)) == value
    assert type(decode(encode(value))) is type(value)


@pytest.mark.parametrize("value", [object(), len, type, iter(()), [object()], Exception("x")])
def test_what_is_no_plain_data_is_refused(value):
    with pytest.raises(NotPlainError):
        encode(value)


@pytest.mark.parametrize(
    "coded",
    [
        *(None, 5, [], ["int"], ["int", "zz"], ["object", 1], ["list", 5], ["dict", [[1]]], ["str", 5]),
        *(
            ["set", [["list", []]]],
            ["range", ["1", "2", "0"]],
            ["refused", "x"],
            ["dict", [[["list", []], ["none"]]]],
        ),
    ],
)
def test_forged_values_are_refused(coded):
    with pytest.raises(NotPlainError):
        decode(coded)


@pytest.mark.parametrize(
    ("name", "expected", "printed", "right"),
    [
        ("tokens", "1 2\n3", "1\n2 3\n", True),
        ("tokens", "1 2", "1 2 3", False),
        ("tokens", "1 2", "1", False),
        ("tokens", "YES", "yes", False),
        ("tokens-any-case", "YES", "yes", True),
        ("lines-any-order", "1 2\n3", "3\n1 2", True),
        ("lines-any-order", "1 2\n3", "3\n2 1", False),
        ("close-numbers", "0.3333333", "0.33333334", True),
        ("close-numbers", "0.3333333", "0.34", False),
        ("close-numbers", "1 x", "1 y", False),
        ("close-numbers", "1", "nan", False),
    ],
)
def test_a_checker_decides_as_it_says(name, expected, printed, right):
    assert checker(name)("", expected, printed) is right


DOUBLE = stdio(("2\n", "4\n"), ("5\n", "10\n"))
DOCSTRING = '''def double(x):
    """Twice the number.

    ```
    double(1)
    ```
    """
    return 2 * x


print(double(int(input())))
'''


@needs_sandbox
@pytest.mark.parametrize("language_name", ["", "python"])
@pytest.mark.parametrize(
    ("dialect", "completion"),
    [
        ("boxed", "So:\n```python\nPROGRAM```\nDone."),
        ("boxed", "So:\n````python\nPROGRAM````\nDone."),
        ("think", "<think>t</think>So.<answer>```python\nPROGRAM```</answer>"),
        ("think", "<think>t</think>So.<answer>````python\nPROGRAM````</answer>"),
        ("think", "<think>t</think>So.<answer>PROGRAM</answer>"),
        ("gemma", "<|channel>thought\nt<channel|>So.<answer>\n~~~\nPROGRAM~~~\n</answer>"),
    ],
)
def test_a_right_program_with_a_fenced_block_in_its_docstring_is_correct(
    code_pool, dialect, completion, language_name
):
    source = DOCSTRING.replace("```", f"```{language_name}", 1)
    seen = split(completion.replace("PROGRAM", source), dialect, "code")
    assert seen.answer is not None
    assert seen.answer.strip() == source.strip()
    assert code_pool.submit(DOUBLE, seen.answer).result(timeout=60).correct


@needs_sandbox
@pytest.mark.parametrize("fenced", ["```python\nPROGRAM```", "Here it is:\n```python\nPROGRAM```\nDone."])
def test_the_judge_takes_such_a_program_out_of_its_fence(code_pool, fenced):
    assert code_pool.submit(DOUBLE, fenced.replace("PROGRAM", DOCSTRING)).result(timeout=60).correct


def test_without_a_sandbox_nothing_runs_and_the_sentence_says_how_to_get_one(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match="apt-get install bubblewrap"):
        CodeJudge()
    with pytest.raises(InputError, match="bubblewrap, none"):
        require_sandbox("docker")
    assert CodeJudge(sandbox="none").sandbox == "none"


def test_an_unknown_language_is_bad_input():
    with pytest.raises(InputError, match="Unknown language 'pyhton': did you mean 'python'"):
        CodeJudge(sandbox="none", language="pyhton")


def test_asked_for_by_name_no_sandbox_still_keeps_the_limits():
    judge = CodeJudge(sandbox="none", run_limits=replace(LIMITS, wall_seconds=2.0))
    assert judge.judge(stdio(("4", "8")), "print(2 * int(input()))").correct
    assert judge.judge(stdio(("4", "8")), "import time; time.sleep(60)").reason == "timeout"
    assert judge.judge(stdio(("4", "8")), "x = bytearray(1 << 30)").reason == "wrong"


@needs_sandbox
class TestSandbox:
    def run(self, program: str, limits: SandboxLimits = LIMITS, stdin: bytes = b"") -> str:
        outcome = run_program(program, stdin, language("python"), limits)
        assert outcome.ending == "exit", outcome
        return outcome.stdout.decode()

    def test_a_program_sees_only_its_runtime(self):
        shown = self.run("import os; print(sorted(os.environ), os.getcwd(), *sorted(os.listdir('/proc')))")
        assert shown.startswith(("['HOME', 'LANG', 'PATH', 'PWD'] /tmp ", "['HOME', 'LANG', 'PATH'] /tmp "))
        processes = [word for word in shown.split() if word.isdigit()]
        assert len(processes) == 2, "the sandbox's first process and the program"

    def test_a_program_has_no_capability_and_is_not_root(self):
        shown = self.run("import os; print(os.getuid()); print(open('/proc/self/status').read())")
        assert shown.splitlines()[0] != "0"
        lines = dict(line.split(":\t", 1) for line in shown.splitlines()[1:] if ":\t" in line)
        assert {lines[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert lines["NoNewPrivs"] == "1"

    def test_no_network_but_an_unused_loopback(self):
        assert self.run("import socket; print([name for _, name in socket.if_nameindex()])") == "['lo']\n"

    def test_no_descriptor_is_inherited(self):
        shown = self.run("import os; print(sorted(int(f) for f in os.listdir('/proc/self/fd')))")
        assert shown == "[0, 1, 2, 3]\n"  # 3 is the folder being listed

    def test_processes_are_counted_per_run(self):
        program = (
            "import os, time\nmade = 0\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(50)\n"
            "        made += 1\nexcept OSError: print(made)"
        )
        limits = replace(LIMITS, processes=10)
        assert 5 <= int(self.run(program, limits)) <= 10

    def test_only_the_temporary_folders_can_be_written(self):
        program = (
            "import os\nfor place in ['/', '/tmp', '/dev', '/dev/shm', '/usr', '/sandbox', '/proc', '/etc']:\n"
            "    try: open(os.path.join(place, 'x'), 'w').write('y'); print(place)\n    except OSError: pass"
        )
        assert self.run(program).split() == ["/tmp", "/dev/shm"]

    def test_the_temporary_folder_is_small(self):
        program = (
            "size = 0\ntry:\n    for i in range(1000):\n"
            "        open(f'/tmp/{i}', 'wb').write(bytes(1 << 20)); size += 1\n"
            "except OSError: print(size)"
        )
        assert int(self.run(program, replace(LIMITS, tmp_bytes=8 << 20))) <= 8

    def test_a_sandbox_that_cannot_start_is_an_error_and_not_a_wrong_answer(self, monkeypatch):
        from agon.judges.code import sandbox

        monkeypatch.setattr(sandbox, "_bubblewrap", lambda *_: ("bwrap", "--no-such-option"))
        verdict = CodeJudge(run_limits=LIMITS).judge(stdio(("1", "1")), "print(1)")
        assert verdict.reason == "error"
        assert "The sandbox did not start" in verdict.detail
