"""Only data leaves a program, only data decides, and what it is checked with never enters its process."""

import shutil
import time

import pytest

from agon.game.problem import CodeTests, Problem, StdioTest
from agon.judges.code import CodeJudge
from agon.judges.code.asserts import NotSeparableError, take_apart
from agon.judges.code.checkers import checker
from agon.judges.code.sandbox import SandboxLimits
from agon.judges.code.setup_code import program_side
from agon.judges.code.values import NotPlainError, decode

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

LIMITS = SandboxLimits(cpu_seconds=2, wall_seconds=4.0, memory_bytes=256 << 20)
YES = (
    "class Yes:\n    def __getattr__(self, name): return lambda *a, **k: True\n"
    "    def __eq__(self, other): return True\n    def __bool__(self): return True\n"
    "    def __contains__(self, other): return True\n    def __iter__(self): return iter(())\n"
    "def f(*a): return Yes()\n"
)
READS_SETUP = (
    "import sys\ntext = open('/sandbox/program.py').read()\n"
    "def f(x):\n    for name in ('reference', 'ref', 'EXPECTED', 'cases', 'check'):\n"
    "        found = globals().get(name)\n        if callable(found): return found(x)\n"
    "        if isinstance(found, dict): return found[x]\n        if isinstance(found, list): return found[0][1]\n"
    "        if found is not None: return found\n"
    "    return 7000 + 919 if '79' + '19' in text else 49 if 'x *' + ' x' in text else None\n"
)


def judge(program: str, *asserts: str, setup: str = ""):
    problem = Problem(
        id="f", prompt="", task="t", domain="code", tests=CodeTests(setup=setup, asserts=asserts)
    )
    return CodeJudge(run_limits=LIMITS).judge(problem, program)


@pytest.mark.parametrize(
    "assertion",
    [
        "assert f(1).startswith('ab')",
        "assert f(1).issuperset({1, 2})",
        "assert f(1).equals([1, 2])",
        "assert f(1).equals([1, 2]) == True",
        "assert not f(1).differs_from([1, 2])",
        "assert Yes().equals([1, 2])",
        "assert f(1).upper().startswith('A')",
        "assert 3 in f(1)",
        "assert all(x in f(1) for x in [1, 2]) and f(1)",
    ],
)
def test_no_object_of_the_program_decides_an_assert(assertion):
    assert judge(YES, assertion).reason in ("wrong", "error")


@pytest.mark.parametrize(
    ("program", "assertion"),
    [
        ("def f(x): return 'abc'", "assert f(1).startswith('ab')"),
        ("def f(x): return {1, 2, 3}", "assert f(1).issuperset({1, 2})"),
        ("def f(x): return 'abc'", "assert f(1).upper().split('B')[0] == 'A'"),
        ("class Box:\n    def __init__(self, n): self.n = n", "assert Box(3).n == 3"),
        (
            "class Stack:\n    def __init__(self): self.items = [1]\n    def pop(self): return 1",
            "assert Stack().pop() == 1",
        ),
        ("class Set:\n    def has(self, x): return x == 1", "assert Set().has(1) and not Set().has(2)"),
        ("from collections import deque\ndef f(n): return deque(range(n))", "assert list(f(3)) == [0, 1, 2]"),
        (
            "from collections import deque\ndef f(n): return deque(range(n))",
            "assert f(3) == collections.deque([0, 1, 2])",
        ),
        ("from fractions import Fraction\ndef f(n): return Fraction(n, 6)", "assert f(3) == 0.5"),
        (
            "from fractions import Fraction\ndef f(n): return Fraction(n, 7)",
            "assert f(3) == fractions.Fraction(3, 7)",
        ),
        ("from decimal import Decimal\ndef f(n): return Decimal('0.1') * n", "assert str(f(3)) == '0.3'"),
        ("def f(n): return map(str, range(n))", "assert list(f(3)) == ['0', '1', '2']"),
        ("def f(n): return filter(None, range(n))", "assert sorted(f(3)) == [1, 2]"),
        ("def f(n): yield from range(n)", "assert [x for x in f(3)] == [0, 1, 2]"),
        ("def f(n): return zip(range(n), 'abc')", "assert dict(f(3)) == {0: 'a', 1: 'b', 2: 'c'}"),
        ("def f(n): return {n: 'x'}.keys()", "assert f(3) == {3}"),
        ("def f(n): return {n: 'x'}.values()", "assert list(f(3)) == ['x']"),
        ("def f(n): return {n: 'x'}.items()", "assert list(f(3)) == [(3, 'x')]"),
        ("import itertools\ndef f(n): return itertools.chain([n], [1])", "assert tuple(f(3)) == (3, 1)"),
        ("def f(n): return str(2 * n) + '*4'", "assert eval(f(3)) == 24"),
    ],
)
def test_right_programs_that_return_more_than_lists_pass(program, assertion):
    verdict = judge(program, assertion)
    assert verdict.correct, verdict


@pytest.mark.parametrize(
    ("assertion", "setup"),
    [
        ("assert f(7) == reference(7)", "def reference(x):\n    return x * x"),
        ("assert f(7) == helper(7) + 0", "def ref(x): return x * x\ndef helper(x): return ref(x)"),
        ("assert f(7) == EXPECTED", "EXPECTED = 7919"),
        ("assert f(7) == EXPECTED[7]", "EXPECTED = {7: 7919}"),
        ("assert f(cases[0][0]) == cases[0][1]", "cases = [(7, 7919)]"),
        ("assert f(x=cases[0][0]) == cases[0][1]", "cases = [(7, 7919)]"),
        ("assert check(f(7))", "def check(value):\n    return value == 7919"),
    ],
)
def test_what_a_program_is_checked_with_never_enters_its_process(assertion, setup):
    assert judge(READS_SETUP, assertion, setup=setup).reason == "wrong"
    right = "def f(x): return x * x" if "x * x" in setup else "def f(x): return 7919"
    assert judge(right, assertion, setup=setup).correct


def test_the_program_gets_what_its_own_work_needs():
    setup = (
        "import math\nPI = 3\nclass Node:\n    pass\nroot = Node()\nroot.left = None\ndef ref(x): return PI"
    )
    side = program_side(setup, ("f(root)",), ("_0 == ref(1)", "_1 == PI"))
    assert "class Node" in side.setup
    assert "root.left" in side.setup
    assert "PI = 3" in side.setup
    assert "ref" not in side.setup


@pytest.mark.parametrize(
    "returned",
    [
        "print('[true]') or 6",
        "__import__('os').write(1, b'[true]') or __import__('os')._exit(0)",
        "__import__('os').write(3, b'[true]') or __import__('os')._exit(0)",
        "(lambda: 6)()",
        "[x for x in [6]][0]",
    ],
)
def test_a_check_does_not_execute_what_the_program_returned(returned):
    assert judge(f"def f(x): return {returned!r}", "assert eval(f(3)) == 6").reason == "wrong"


@pytest.mark.parametrize("assertion", ["assert pickle.loads(f(1)) == 1", "assert os.system(f(1)) == 0"])
def test_an_assert_that_executes_what_the_program_returned_is_not_judged(assertion):
    with pytest.raises(NotSeparableError):
        take_apart("", assertion)


def test_a_set_of_forged_hashes_is_refused_at_once():
    """Integers that differ by a multiple of 2**61 - 1 have one hash; a set of them is built in n² steps."""
    started = time.monotonic()
    keys = [["int", format(number * (2**61 - 1) + 5, "x")] for number in range(50_000)]
    for coded in (["set", keys], ["frozenset", keys], ["dict", [[key, ["none"]] for key in keys]]):
        with pytest.raises(NotPlainError, match="same hash"):
            decode(coded)
    assert time.monotonic() - started < 3
    assert decode(["set", keys[:50]]) == {number * (2**61 - 1) + 5 for number in range(50)}


@pytest.mark.parametrize(
    ("expected", "printed", "right"),
    [
        ("1000000007", "1000000000", False),
        ("1000000007", "1000000007.0", True),
        ("1000000007", "1e9", False),
        ("0.0000009", "0", False),
        ("0.0000009", "0.0000009000001", True),
        ("0", "0.0000001", True),
        ("0.00", "-0.0000001", True),
        ("2.5", "2.5000001", True),
        ("2.5", "2.51", False),
        ("1e-12", "2e-12", False),
        ("inf", "inf", True),
        ("5", "5.0000001", True),
    ],
)
def test_close_numbers_are_close_for_their_size(expected, printed, right):
    assert checker("close-numbers")("", expected, printed) is right


PROGRAM = "print(2 * int(input()))\n"


@pytest.mark.parametrize(
    ("stdin", "stdout", "program"),
    [
        ("3\n", "6", "with open('/dev/stdin') as f:\n    print(2 * int(f.read()))"),
        ("3\n", "6", "import sys\nprint(2 * int(open(0).read()), file=open('/dev/stdout', 'w'))"),
        ("", "1" + "0" * 9000, "print(10 ** 9000)"),
        ("3\n", "6", f"So:\n```python\n{PROGRAM}```\nSample output:\n```\n6\n```\n"),
        ("3\n", "6", f"So:\n```\n{PROGRAM}```\nIt prints:\n```output\n6\n```\n"),
        ("3\n", "6", f"So:\n```python\n{PROGRAM}```\n```text\nprint('not this')\n```\n"),
        (
            "3\n",
            "6",
            "from threading import Thread\n"
            "t = Thread(target=lambda: print(2 * int(input())))\nt.start(); t.join()",
        ),
        ("3\n", "6", "import subprocess\nsubprocess.run(['expr', '3', '+', input()])"),
        (
            "3\n",
            "6",
            "import multiprocessing as m\nif __name__ == '__main__':\n"
            "    with m.Pool(2) as p: print(sum(p.map(int, ['3', input()])))",
        ),
    ],
)  # fmt: skip
def test_right_programs_with_unusual_means_pass(stdin, stdout, program):
    tests = CodeTests(stdio=(StdioTest(stdin, stdout),))
    problem = Problem(id="s", prompt="", task="t", domain="code", tests=tests)
    verdict = CodeJudge(run_limits=LIMITS).judge(problem, program)
    assert verdict.correct, verdict
