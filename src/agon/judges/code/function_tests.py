"""Judging a program by the functions it defines: calls inside the sandbox, checks outside (see `judge.py`)."""

import json
import secrets
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from typing import Any

from agon.game.problem import CodeTests
from agon.game.verdict import Verdict
from agon.judges.code.asserts import Check, NotSeparableError, take_apart
from agon.judges.code.failure import failure
from agon.judges.code.process import Outcome
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

_CHECKS = """
import importlib, json, sys
request = json.loads({request!r})
namespace = {{}}
try:
    exec(request["setup"], namespace)
except NameError:
    pass
results = []
for test, modules, values in request["checks"]:
    names = {{name: importlib.import_module(name) for name in modules}}
    names.update({{"_%d" % number: decode(value) for number, value in enumerate(values)}})
    results.append(bool(eval(test, {{**names, **namespace, **names}})))
print(json.dumps(results))
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
    returned = _call(program, tests.setup, checks, run)
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


def _call(program: str, setup: str, checks: list[Check], run: Run) -> list[list[Any]] | Verdict:
    """What the calls of each check returned, still encoded."""
    calls = [call for check in checks for call in check.calls]
    # The mark tells our lines from others that the program writes; it is no secret and need not be.
    mark = secrets.token_hex(8)
    request = json.dumps({"setup": setup, "program": program, "calls": calls})
    outcome = run(_values_source() + _CALLS.format(request=request, mark=mark), b"")
    failed = failure(outcome)
    if failed is not None:
        return failed
    lines = [line for line in outcome.stdout.split(b"\n") if line.startswith(mark.encode())]
    if len(lines) != len(calls):
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
    outcome = run(_values_source() + _CHECKS.format(request=request), b"")
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
