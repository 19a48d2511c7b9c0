r"""Judge answers or programs given as JSON lines.

One object a line on standard input, one verdict a line on standard output, in the same order, while
input is still being read:

  agon judge math   {"gold": "1/2", "answer": "0.5"}, or with --dialect {"gold": …, "text": completion}
  agon judge code   {"program": …, "tests": [{"input": …, "output": …}]}
                    {"program": …, "setup": …, "asserts": ["assert f(1) == 2"]}
  agon judge gym    {"gym": dataset, "entry": {…}, "answer": …}
  agon judge exact  as math; so does module:object, your own judge

  {"correct": true, "reason": "correct", "seconds": 0.01}

A verdict that is not `correct` may carry a sentence in `detail`. A line that cannot be read gets a
verdict with reason `error`; the rest go on.
"""

import argparse
import json
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from agon.errors import InputError
from agon.game.dialects import DIALECTS
from agon.game.problem import CodeTests, Problem, StdioTest
from agon.game.verdict import Verdict
from agon.judges.pool import JudgePool
from agon.judges.sandbox import SANDBOXES

# Lines read ahead of the verdicts written; more would only fill memory.
_READ_AHEAD = 4096


class _BadLineError(ValueError):
    """A line that cannot be judged, and why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("judge", help="math, code, gym, exact, or module:object")
    parser.add_argument(
        "--dialect", choices=sorted(DIALECTS), help="how a whole completion in `text` is written"
    )
    parser.add_argument("--workers", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument(
        "--deadline", type=float, help="seconds until a verdict is given up (default: the judge's)"
    )
    parser.add_argument(
        "--memory", type=int, metavar="MIB", help="memory of a worker in MiB (default: the judge's)"
    )
    parser.add_argument(
        "--sandbox",
        choices=SANDBOXES,
        default="bubblewrap",
        help="`none` runs programs with the rights of whoever calls this; it must be asked for",
    )
    parser.add_argument("--language", default="python", help="the language of programs (default python)")


def run(args: argparse.Namespace) -> int:
    options = {"sandbox": args.sandbox, "language": args.language} if args.judge == "code" else {}
    read = _READERS.get(args.judge, _read_answer)
    memory = args.memory << 20 if args.memory else None
    with JudgePool(
        args.judge, workers=args.workers, deadline=args.deadline, memory_bytes=memory, **options
    ) as pool:
        if options.get("sandbox") == "none":
            print("agon: programs run without a sandbox, with your rights.", file=sys.stderr)
        _stream(pool, lambda fields: read(fields, args.dialect))
        counts = pool.counts
    if counts.timeouts or counts.crashes:
        print(f"agon: {counts.timeouts} timeouts, {counts.crashes} crashed workers.", file=sys.stderr)
    return 0


def _stream(pool: JudgePool, read: Callable[[dict[str, Any]], tuple[Problem, str] | Verdict]) -> None:
    """Read and submit here, write in order over there, so that neither waits for the other."""
    pending: queue.Queue[Future[Verdict] | None] = queue.Queue(_READ_AHEAD)
    failures: list[BaseException] = []
    writer = threading.Thread(target=_write, args=(pending, failures), daemon=True)
    writer.start()
    for line in sys.stdin:
        if failures:
            break
        if line.strip():
            pending.put(_submit(pool, line, read))
    pending.put(None)
    writer.join()
    if failures:
        raise failures[0]


def _submit(
    pool: JudgePool, line: str, read: Callable[[dict[str, Any]], tuple[Problem, str] | Verdict]
) -> Future[Verdict]:
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise _BadLineError("The line is not a JSON object.")
        found = read(fields)
    except json.JSONDecodeError as fault:
        found = Verdict(False, "error", f"The line is not JSON: {fault}.")
    except (_BadLineError, InputError) as fault:
        found = Verdict(False, "error", str(fault))
    except RecursionError:
        found = Verdict(False, "error", "The line is nested too deeply.")
    if not isinstance(found, Verdict):
        return pool.submit(*found)
    future: Future[Verdict] = Future()
    future.set_result(found)
    return future


def _write(pending: "queue.Queue[Future[Verdict] | None]", failures: list[BaseException]) -> None:
    try:
        while (future := pending.get()) is not None:
            verdict = future.result()
            fields: dict[str, Any] = {"correct": verdict.correct, "reason": verdict.reason}
            fields["seconds"] = round(verdict.seconds, 6)
            if verdict.detail:
                fields["detail"] = verdict.detail
            print(json.dumps(fields), flush=True)
    except BaseException as fault:  # a closed pipe, a pool that cannot start: the reader must hear of it
        failures.append(fault)
        while pending.get() is not None:
            pass


def _read_answer(fields: dict[str, Any], dialect: str | None) -> tuple[Problem, str] | Verdict:
    problem = Problem(id="line", prompt="", task="judge", answer=_text(fields, "gold"))
    if "text" not in fields:
        return problem, _text(fields, "answer")
    answer = _answer_of(_text(fields, "text"), dialect)
    return (problem, answer) if answer is not None else _no_answer()


def _read_gym(fields: dict[str, Any], dialect: str | None) -> tuple[Problem, str] | Verdict:
    entry = fields.get("entry")
    if not isinstance(entry, dict):
        raise _BadLineError("The line needs 'entry', the problem as reasoning-gym generated it.")
    metadata = {"gym": _text(fields, "gym"), "entry": entry}
    problem = Problem(id="line", prompt="", task="judge", metadata=metadata)
    if "text" not in fields:
        return problem, _text(fields, "answer")
    answer = _answer_of(_text(fields, "text"), dialect)
    return (problem, answer) if answer is not None else _no_answer()


def _read_program(fields: dict[str, Any], dialect: str | None) -> tuple[Problem, str] | Verdict:
    tests, asserts = fields.get("tests", []), fields.get("asserts", [])
    if not isinstance(tests, list) or not isinstance(asserts, list) or not (tests or asserts):
        raise _BadLineError(
            "The line needs 'tests' (a list of input and output) or 'asserts' (a list of strings)."
        )
    if not all(isinstance(assertion, str) for assertion in asserts):
        raise _BadLineError("Every assert is a string.")
    stdio = []
    for test in tests:
        if not isinstance(test, dict):
            raise _BadLineError("Every test is an object with 'input' and 'output'.")
        stdio.append(StdioTest(_text(test, "input"), _text(test, "output")))
    setup = _text(fields, "setup") if "setup" in fields else ""
    metadata = {"checker": fields["checker"]} if isinstance(fields.get("checker"), str) else {}
    code_tests = CodeTests(tuple(stdio), setup, tuple(asserts))
    problem = Problem(id="line", prompt="", task="judge", tests=code_tests, domain="code", metadata=metadata)
    if "text" not in fields:
        return problem, _text(fields, "program")
    program = _answer_of(_text(fields, "text"), dialect, "code")
    return (problem, program) if program is not None else _no_answer()


_READERS = {"code": _read_program, "gym": _read_gym}


def _answer_of(text: str, dialect: str | None, domain: Any = "math") -> str | None:
    from agon.game.transcript import split

    if dialect is None:
        raise _BadLineError("A line with 'text' needs --dialect, to know where the answer stands.")
    return split(text, dialect, domain).answer


def _no_answer() -> Verdict:
    return Verdict(False, "no-answer", "The text has no answer section.")


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise _BadLineError(f"The line needs '{name}', a string.")
    return value
