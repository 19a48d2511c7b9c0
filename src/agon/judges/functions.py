"""Judging a program by the functions it defines: calls inside, checks outside (see `code.py`)."""

import json
import secrets
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from typing import Any

from agon.game.problem import CodeTests
from agon.game.verdict import Verdict
from agon.judges.asserts import Check, NotSeparableError, take_apart
from agon.judges.failure import failure
from agon.judges.process import Outcome
from agon.judges.values import NotPlainError, decode

Run = Callable[[str, bytes], Outcome]

# What the program prints goes nowhere; the values of the calls leave by a copy of standard output.
# The program can find that copy and write to it. It gains nothing: it does not know what to write.
_CALLS = """
import json, os, sys
out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
order = json.loads({order!r})
space = {{"__name__": "program", "__builtins__": __builtins__}}
def run(name):
    exec(compile(order[name], name, "exec"), space)
try:
    run("setup")
    again = False
except NameError:
    again = True
run("program")
if again:
    run("setup")
for call in order["calls"]:
    try:
        line = json.dumps(encode(eval(compile(call, "call", "eval"), space)))
    except NotPlainError as fault:
        line = json.dumps(["refused", str(fault)])
    os.write(out, ("{mark}" + line + "\\n").encode())
os._exit(0)
"""

_CHECKS = """
import importlib, json, sys
order = json.loads({order!r})
space = {{}}
try:
    exec(order["setup"], space)
except NameError:
    pass
said = []
for test, modules, values in order["checks"]:
    names = {{name: importlib.import_module(name) for name in modules}}
    names.update({{"_%d" % number: decode(value) for number, value in enumerate(values)}})
    said.append(bool(eval(test, {{**names, **space, **names}})))
print(json.dumps(said))
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
    coded = _call(program, tests.setup, checks, run)
    if isinstance(coded, Verdict):
        return coded
    later: list[tuple[int, Check, list[Any]]] = []
    for number, (check, answers) in enumerate(zip(checks, coded, strict=True), 1):
        try:
            values = [decode(answer) for answer in answers]
        except NotPlainError as fault:
            return Verdict(False, "wrong", f"Assert {number}: {_refusal(answers) or fault}.")
        if not check.literal:
            later.append((number, check, answers))
        elif not _equal(values[0], check.expected):
            return Verdict(False, "wrong", f"Assert {number} does not hold.")
    return _check(later, tests.setup, run) if later else Verdict(True, "correct")


def _call(program: str, setup: str, checks: list[Check], run: Run) -> list[list[Any]] | Verdict:
    """What the calls of each check returned, still coded."""
    calls = [call for check in checks for call in check.calls]
    # The mark tells our lines from a program's stray ones; it is no secret and need not be.
    mark = secrets.token_hex(8)
    order = json.dumps({"setup": setup, "program": program, "calls": calls})
    outcome = run(_values_source() + _CALLS.format(order=order, mark=mark), b"")
    failed = failure(outcome)
    if failed is not None:
        return failed
    lines = [line for line in outcome.stdout.split(b"\n") if line.startswith(mark.encode())]
    if len(lines) != len(calls):
        return Verdict(False, "wrong", "The program left before its functions had returned.")
    try:
        answers = iter([json.loads(line[len(mark) :]) for line in lines])
    except (ValueError, RecursionError):
        return Verdict(False, "wrong", "The program wrote something that is no value.")
    return [[next(answers) for _ in check.calls] for check in checks]


def _check(later: list[tuple[int, Check, list[Any]]], setup: str, run: Run) -> Verdict:
    """Decide what is more than `call == literal`, without the program."""
    order = json.dumps(
        {"setup": setup, "checks": [[check.test, check.modules, coded] for _, check, coded in later]}
    )
    outcome = run(_values_source() + _CHECKS.format(order=order), b"")
    if not outcome.ok:
        # The values are plain, so a check that raises is `len(5)` as often as a faulty problem.
        errors = outcome.stderr.decode("utf-8", "replace").strip().splitlines()
        return Verdict(
            False, "wrong", f"The checks could not be made: {errors[-1][:200] if errors else outcome.ending}"
        )
    for (number, _, _), held in zip(later, json.loads(outcome.stdout), strict=True):
        if not held:
            return Verdict(False, "wrong", f"Assert {number} does not hold.")
    return Verdict(True, "correct")


def _equal(value: Any, expected: Any) -> bool:
    try:
        return bool(value == expected)
    except RecursionError:
        return False


def _refusal(answers: list[Any]) -> str | None:
    for answer in answers:
        if isinstance(answer, list) and len(answer) == 2 and answer[0] == "refused":
            return str(answer[1])[:200]
    return None


@lru_cache(maxsize=1)
def _values_source() -> str:
    return files("agon.judges").joinpath("values.py").read_text(encoding="utf-8")
