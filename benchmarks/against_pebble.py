"""The judge pool against pebble's, side by side: `python benchmarks/judges.py --against-pebble`.

Pebble (https://pypi.org/project/Pebble) is a pool of processes with timeouts, the nearest library to ours;
it is not a dependency of the project. It runs on multiprocessing's fork server with the judge preloaded and
the same limits, with two workers, as ours, and with as many as ours may run while verdicts are overdue.

- verdicts a second on integers and on the pairs of tests/judges/math_pairs.py; with 5% hanging answers, of
  the other answers until the last of their verdicts;
- milliseconds until the next verdict after both workers were killed;
- what an answer that takes too much memory gets, and the right one after it.
"""

import logging
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from agon.game.problem import Problem
from agon.judges.limits import Limits
from agon.judges.pool import JudgePool
from benchmarks import warm_math
from tests.judges.math_pairs import DIFFERENT, EQUAL

Answers = Sequence[tuple[Problem, str]]
Submit = Callable[[Problem, str], Callable[[], str]]  # returns a function that waits for the reason

WORKERS, DEADLINE, MEMORY = 2, 1.0, 1 << 30
MANY = WORKERS + Limits().max_overdue


@contextmanager
def our_pool(workers: int) -> Iterator[Submit]:
    with JudgePool(warm_math.judge, workers=workers, deadline=DEADLINE, memory_bytes=MEMORY) as pool:

        def submit(problem: Problem, answer: str) -> Callable[[], str]:
            future = pool.submit(problem, answer)
            return lambda: future.result().reason

        yield submit


@contextmanager
def pebble_pool(workers: int) -> Iterator[Submit]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.against_pebble"])
    limit = (resource.RLIMIT_AS, (MEMORY, MEMORY))
    start = import_module("pebble").ProcessPool
    with start(workers, Limits().verdicts_per_worker, resource.setrlimit, limit, context) as pool:
        started: set[int] = set()
        while len(started) < workers:  # all of them, or the first answers would pay for their start
            waiting = [pool.schedule(warm_math.process_id) for _ in range(workers)]
            started |= {future.result() for future in waiting}

        def submit(problem: Problem, answer: str) -> Callable[[], str]:
            return partial(_reason, pool.schedule(warm_math.judge, args=(problem, answer), timeout=DEADLINE))

        yield submit


def _reason(future: Any) -> str:
    try:
        return str(future.result().reason)
    except Exception as fault:  # a timeout, a dead worker, or what the judge raised
        return "timeout" if isinstance(fault, TimeoutError) else "error"


SIDES: dict[str, tuple[Callable[[int], AbstractContextManager[Submit]], int]] = {
    "ours": (our_pool, WORKERS),
    f"pebble with {WORKERS} workers": (pebble_pool, WORKERS),
    f"pebble with {MANY} workers": (pebble_pool, MANY),
}


def compare(rounds: int, repeats: int) -> dict[str, Any]:
    """All cases, `rounds` times each, the sides taking turns."""
    if find_spec("pebble") is None:
        raise SystemExit("The comparison needs pebble, which is not installed: pip install pebble")
    logging.disable(logging.CRITICAL)
    pairs = [pair for group in (*EQUAL.values(), *DIFFERENT.values()) for pair in group]
    table = [(_problem(gold), answer) for gold, answer in pairs] * repeats
    integers = [(_problem(str(number)), str(number + number % 2)) for number in range(1000)] * repeats
    shown: dict[str, Any] = {"deadline": DEADLINE, "rounds": rounds}
    for name, answers, hang in (
        ("integers", integers, ""),
        ("table", table, ""),
        ("table, 5% waiting for ever", table, "sleep"),
        ("table, 5% computing for ever", table, "hang"),
    ):
        shown[name] = _compare_rates(answers, hang, table[:200], rounds)
        print(name, shown[name], file=sys.stderr)
    for side, (start, workers) in list(SIDES.items())[:2]:
        with start(workers) as submit:
            _rate(submit, table[:200])
            shown[f"{side}: ms until the verdict after {WORKERS} killed workers"] = _after_kill(submit)
            reasons = [submit(_problem("1"), answer)() for answer in ("grow", "1")]
            shown[f"{side}: reasons for too much memory, then a right answer"] = reasons
    return shown


def _compare_rates(answers: Answers, hang: str, warm_up: Answers, rounds: int) -> dict[str, Any]:
    asked = [(pair[0], hang) if hang and number % 20 == 10 else pair for number, pair in enumerate(answers)]
    rates: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side, (start, workers) in SIDES.items():
            with start(workers) as submit:
                _rate(submit, warm_up)
                rates[side].append(_rate(submit, asked, hang))
    medians = {side: statistics.median(found) for side, found in rates.items()}
    shown: dict[str, Any] = {"answers": len(asked)}
    for side, rate in medians.items():
        shown[f"{side}, verdicts per second"] = round(rate, 1)
        if side != "ours":
            shown[f"ours / {side}"] = round(medians["ours"] / rate, 2)
    return shown


def _rate(submit: Submit, asked: Answers, hang: str = "") -> float:
    """Verdicts a second on the answers that do not hang, until the last of these."""
    started = time.perf_counter()
    waiting = [(answer, submit(problem, answer)) for problem, answer in asked]
    healthy = [wait() for answer, wait in waiting if answer != hang]
    taken = time.perf_counter() - started
    for _, wait in waiting:
        wait()
    return len(healthy) / taken


def _after_kill(submit: Submit) -> float:
    def milliseconds() -> float:
        started = time.perf_counter()
        waiting = [submit(_problem("1"), answer) for answer in (*["be killed"] * WORKERS, "1")]
        for wait in waiting:
            wait()
        return 1000 * (time.perf_counter() - started)

    return round(statistics.median(milliseconds() for _ in range(10)), 1)


def _problem(gold: str) -> Problem:
    return Problem(id="p", prompt="", task="t", answer=gold)
