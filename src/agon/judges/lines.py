r"""Judging JSON lines: each line becomes a problem and an answer, verdicts come back in the same order.

    {"gold": "1/2", "answer": "0.5"}                                    math, exact, your own judge
    {"program": …, "tests": [{"input": …, "output": …}]}                code
    {"program": …, "setup": …, "asserts": ["assert f(1) == 2"]}         code
    {"gym": dataset, "entry": {…}, "answer": …}                         gym

A line may hold a whole completion in `text` in place of `answer` or `program`; then the dialect says
where its answer stands. A line that cannot be read gets a verdict with reason `error`.
"""

import json
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any

from agon.errors import InputError
from agon.game.problem import CodeTests, Domain, Problem, StdioTest
from agon.game.transcript import split
from agon.game.verdict import Verdict
from agon.judges.pool import JudgePool

# From the fields of a line to what is judged, or to a verdict if there is nothing to judge.
ReadFields = Callable[[dict[str, Any]], tuple[Problem, str] | Verdict]

# Lines read ahead of the verdicts written; more would only fill memory.
_READ_AHEAD = 4096


class BadLineError(ValueError):
    """A line that cannot be judged, and why."""


def judge_lines(
    lines: Iterable[str], pool: JudgePool, read: ReadFields, write: Callable[[Verdict], None]
) -> None:
    """Read and submit lines in this thread and write verdicts in order in another, so that a verdict is
    written as soon as it is there, while input is still being read."""
    pending: queue.Queue[Future[Verdict] | None] = queue.Queue(_READ_AHEAD)
    failures: list[BaseException] = []
    writer = threading.Thread(target=_write_in_order, args=(pending, write, failures), daemon=True)
    writer.start()
    for line in lines:
        if failures:
            break
        if line.strip():
            pending.put(_submit(pool, line, read))
    pending.put(None)
    writer.join()
    if failures:
        raise failures[0]


def reader_for(judge: str, dialect: str | None = None) -> ReadFields:
    """How the lines for this judge are read."""
    return partial(_READERS.get(judge, _read_answer), dialect=dialect)


def _submit(pool: JudgePool, line: str, read: ReadFields) -> Future[Verdict]:
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise BadLineError("The line is not a JSON object.")
        found = read(fields)
    except json.JSONDecodeError as fault:
        found = Verdict(False, "error", f"The line is not JSON: {fault}.")
    except (BadLineError, InputError) as fault:
        found = Verdict(False, "error", str(fault))
    except RecursionError:
        found = Verdict(False, "error", "The line is nested too deeply.")
    if not isinstance(found, Verdict):
        return pool.submit(*found)
    future: Future[Verdict] = Future()
    future.set_result(found)
    return future


def _write_in_order(
    pending: "queue.Queue[Future[Verdict] | None]",
    write: Callable[[Verdict], None],
    failures: list[BaseException],
) -> None:
    try:
        while (future := pending.get()) is not None:
            write(future.result())
    except BaseException as fault:  # a closed pipe, a pool that cannot start: the reading thread raises it
        failures.append(fault)
        while pending.get() is not None:
            pass


def _read_answer(fields: dict[str, Any], dialect: str | None) -> tuple[Problem, str] | Verdict:
    problem = Problem(id="line", prompt="", task="judge", answer=_text(fields, "gold"))
    return _with_answer(problem, fields, "answer", dialect)


def _read_gym(fields: dict[str, Any], dialect: str | None) -> tuple[Problem, str] | Verdict:
    entry = fields.get("entry")
    if not isinstance(entry, dict):
        raise BadLineError("The line needs 'entry', the problem as reasoning-gym generated it.")
    metadata = {"gym": _text(fields, "gym"), "entry": entry}
    problem = Problem(id="line", prompt="", task="judge", metadata=metadata)
    return _with_answer(problem, fields, "answer", dialect)


def _read_program(fields: dict[str, Any], dialect: str | None) -> tuple[Problem, str] | Verdict:
    tests, asserts = fields.get("tests", []), fields.get("asserts", [])
    if not isinstance(tests, list) or not isinstance(asserts, list) or not (tests or asserts):
        raise BadLineError(
            "The line needs 'tests' (a list of input and output) or 'asserts' (a list of strings)."
        )
    if not all(isinstance(assertion, str) for assertion in asserts):
        raise BadLineError("Every assert is a string.")
    stdio = []
    for test in tests:
        if not isinstance(test, dict):
            raise BadLineError("Every test is an object with 'input' and 'output'.")
        stdio.append(StdioTest(_text(test, "input"), _text(test, "output")))
    setup = _text(fields, "setup") if "setup" in fields else ""
    metadata = {"checker": fields["checker"]} if isinstance(fields.get("checker"), str) else {}
    code_tests = CodeTests(tuple(stdio), setup, tuple(asserts))
    problem = Problem(id="line", prompt="", task="judge", tests=code_tests, domain="code", metadata=metadata)
    return _with_answer(problem, fields, "program", dialect, "code")


_READERS = {"code": _read_program, "gym": _read_gym}


def _with_answer(
    problem: Problem, fields: dict[str, Any], name: str, dialect: str | None, domain: Domain = "math"
) -> tuple[Problem, str] | Verdict:
    """The problem with the answer in the field of this name, or with the one of the completion in `text`."""
    if "text" not in fields:
        return problem, _text(fields, name)
    text = _text(fields, "text")
    if dialect is None:
        raise BadLineError("A line with 'text' needs --dialect, to know where the answer stands.")
    answer = split(text, dialect, domain).answer
    if answer is None:
        return Verdict(False, "no-answer", "The text has no answer section.")
    return problem, answer


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BadLineError(f"The line needs '{name}', a string.")
    return value
