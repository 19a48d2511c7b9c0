"""Judging a program by the functions it defines: calls inside the sandbox, checks outside (see `judge.py`)."""

import json
import secrets
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from typing import Any

from agon.game.problem import CodeTests
from agon.game.verdict import Verdict
from agon.judges.code.asserts import EXECUTING, Check, NotSeparableError, take_apart
from agon.judges.code.failure import failure
from agon.judges.code.process import Outcome
from agon.judges.code.setup_code import ProgramSide, program_side
from agon.judges.code.values import NotPlainError, decode

Run = Callable[[str, bytes], Outcome]

# What the program prints is discarded; the values of the calls leave by a copy of standard output.
# The program can find that copy and write to it, but it does not know what to write.
_CALLS = """
import json, os, sys
out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
request = json.loads({request!r})
namespace = {{"__name__": "program", "__builtins__": __builtins__}}
namespace.update({{"_given_%d" % number: decode(value) for number, value in enumerate(request["given"])}})
def run(name):
    exec(compile(request[name], name, "exec"), namespace)
try:
    run("setup")
    setup_needs_program = False
except NameError:
    setup_needs_program = True
run("program")
if setup_needs_program:
    run("setup")
for call in request["calls"]:
    try:
        line = json.dumps(encode(eval(compile(call, "call", "eval"), namespace)))
    except NotPlainError as fault:
        line = json.dumps(["refused", str(fault)])
    os.write(out, ("{mark}" + line + "\\n").encode())
os._exit(0)
"""

# The values are data, but a check may be one that executes data: `eval(f(2)) == 4`. There, `eval` computes
# formulas of numbers and nothing else.
_CHECKS = """
import ast, builtins, importlib, json, operator, os
out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
request = json.loads({request!r})
OPERATIONS = dict(Add=operator.add, Sub=operator.sub, Mult=operator.mul, Div=operator.truediv,
                  FloorDiv=operator.floordiv, Mod=operator.mod)
def compute(node):
    if isinstance(node, ast.BinOp) and type(node.op).__name__ in OPERATIONS:
        return OPERATIONS[type(node.op).__name__](compute(node.left), compute(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -compute(node.operand)
    return ast.literal_eval(node)
def evaluate(text, *scopes):
    return compute(ast.parse(text.strip(), mode="eval").body)
def refuse(*_, **__):
    raise ValueError("a check executes nothing")
def load(name, *rest):
    if name.partition(".")[0] in {executing!r}:
        refuse()
    return builtins.__import__(name, *rest)
known = dict(vars(builtins), eval=evaluate, exec=refuse, compile=refuse, open=refuse, __import__=load)
namespace = {{"__builtins__": known, "__name__": "setup"}}
try:
    exec(request["setup"], namespace)
except NameError:
    pass
results = []
for test, modules, values in request["checks"]:
    names = {{name: importlib.import_module(name) for name in modules}}
    names.update({{"_%d" % number: decode(value) for number, value in enumerate(values)}})
    results.append(bool(eval(test, {{**names, **namespace, **names}})))
os.write(out, json.dumps(results).encode())
os._exit(0)
"""

# Arguments that are made from names which the program must not see.
_ARGUMENTS = """
import json, os
out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
request = json.loads({request!r})
namespace = {{"__name__": "setup"}}
try:
    exec(request["setup"], namespace)
except NameError:
    pass
os.write(out, json.dumps([encode(eval(each, namespace)) for each in request["arguments"]]).encode())
os._exit(0)
"""


def judge_functions(program: str, tests: CodeTests, run: Run, language: str) -> Verdict:
    """Correct if every assert holds."""
    if language != "python":
        return Verdict(
            False, "error", f"Asserts are Python; a program in {language} is judged by its output."
        )
    try:
        checks = [take_apart(tests.setup, assertion) for assertion in tests.asserts]
    except NotSeparableError as fault:
        return Verdict(False, "error", f"An assert of this problem cannot be judged safely: {fault}.")
    calls = tuple(call for check in checks for call in check.calls)
    side = program_side(tests.setup, calls, tuple(check.test for check in checks))
    given = _arguments(side, tests.setup, run)
    if isinstance(given, Verdict):
        return given
    returned = _call(program, side, given, checks, run)
    if isinstance(returned, Verdict):
        return returned
    undecided: list[tuple[int, Check, list[Any]]] = []
    for number, (check, encoded) in enumerate(zip(checks, returned, strict=True), 1):
        try:
            values = [decode(value) for value in encoded]
        except NotPlainError as fault:
            return Verdict(False, "wrong", f"Assert {number}: {_refusal(encoded) or fault}.")
        if not check.literal:
            undecided.append((number, check, encoded))
        elif not _equal(values[0], check.expected):
            return Verdict(False, "wrong", f"Assert {number} does not hold.")
    return _check(undecided, tests.setup, run) if undecided else Verdict(True, "correct")


def _arguments(side: ProgramSide, setup: str, run: Run) -> list[Any] | Verdict:
    """The values of the arguments that are evaluated without the program."""
    if not side.arguments:
        return []
    request = json.dumps({"setup": setup, "arguments": side.arguments})
    outcome = run(_values_source() + _ARGUMENTS.format(request=request), b"")
    try:
        if outcome.ok:
            return list(json.loads(outcome.stdout))
    except ValueError:
        pass
    return Verdict(
        False, "error", "An argument of this problem's asserts is no plain data without the program."
    )


def _call(
    program: str, side: ProgramSide, given: list[Any], checks: list[Check], run: Run
) -> list[list[Any]] | Verdict:
    """What the calls of each check returned, still encoded."""
    # The mark tells our lines from others that the program writes; it is no secret and need not be.
    mark = secrets.token_hex(8)
    request = json.dumps({"setup": side.setup, "program": program, "calls": side.calls, "given": given})
    outcome = run(_values_source() + _CALLS.format(request=request, mark=mark), b"")
    failed = failure(outcome)
    if failed is not None:
        return failed
    lines = [line for line in outcome.stdout.split(b"\n") if line.startswith(mark.encode())]
    if len(lines) != len(side.calls):
        return Verdict(False, "wrong", "The program exited before its functions had returned.")
    try:
        values = iter([json.loads(line[len(mark) :]) for line in lines])
    except (ValueError, RecursionError):
        return Verdict(False, "wrong", "The program wrote something that is no value.")
    return [[next(values) for _ in check.calls] for check in checks]


def _check(undecided: list[tuple[int, Check, list[Any]]], setup: str, run: Run) -> Verdict:
    """Decide what is more than `call == literal`, without the program."""
    request = json.dumps(
        {"setup": setup, "checks": [[check.test, check.modules, values] for _, check, values in undecided]}
    )
    source = _values_source() + _CHECKS.format(request=request, executing=sorted(EXECUTING - {"importlib"}))
    outcome = run(source, b"")
    if not outcome.ok:
        # The values are plain, so a check that raises is `len(5)` as often as a faulty problem.
        errors = outcome.stderr.decode("utf-8", "replace").strip().splitlines()
        return Verdict(
            False, "wrong", f"The checks could not be made: {errors[-1][:200] if errors else outcome.ending}"
        )
    for (number, _, _), held in zip(undecided, json.loads(outcome.stdout), strict=True):
        if not held:
            return Verdict(False, "wrong", f"Assert {number} does not hold.")
    return Verdict(True, "correct")


def _equal(value: Any, expected: Any) -> bool:
    try:
        return bool(value == expected)
    except RecursionError:
        return False


def _refusal(encoded: list[Any]) -> str | None:
    for value in encoded:
        if isinstance(value, list) and len(value) == 2 and value[0] == "refused":
            return str(value[1])[:200]
    return None


@lru_cache(maxsize=1)
def _values_source() -> str:
    return files("agon.judges.code").joinpath("values.py").read_text(encoding="utf-8")
