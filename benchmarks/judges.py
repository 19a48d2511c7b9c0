"""How fast the judges are, each against the plain alternative, side by side in one run.

    python benchmarks/judges.py                     # about five minutes
    python benchmarks/judges.py --against-pebble    # about six minutes; needs `pip install pebble`

- `math`: verdicts a second of the judge in one process and in a pool of two, against bare math-verify
  (parse and verify) in one process, on the pairs of tests/judges/math_pairs.py and on plain integers.
- `sandbox`: time of a sandboxed run against a bare `python -I` subprocess; at most 1.6 times.
- `hanging`: throughput of a pool with 5% hanging answers against the same pool without; at least 70%.
- `--against-pebble` (alone): the pool against pebble's with multiprocessing's fork server, the judge
  preloaded in both. Verdicts a second on integers and pairs, without and with 5% hanging answers; time
  until the next verdict after workers were killed; whether the memory limit holds. Pebble runs with two
  workers, as ours, and with as many as ours may run while verdicts are overdue.

The sides of each ratio take turns, so that a busy machine slows all. One JSON object per part.
"""

import argparse
import json
import logging
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from agon.game.problem import Problem  # noqa: E402
from agon.judges.code.languages import language  # noqa: E402
from agon.judges.code.sandbox import SandboxLimits, run_program  # noqa: E402
from agon.judges.limits import Limits  # noqa: E402
from agon.judges.math import MathJudge  # noqa: E402
from agon.judges.math.symbolic import parse  # noqa: E402
from agon.judges.pool import JudgePool  # noqa: E402
from tests.judges import own_judges  # noqa: E402
from tests.judges.math_pairs import DIFFERENT, EQUAL  # noqa: E402

Pair = tuple[str, str]


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def bare_math_verify(pairs: Sequence[Pair]) -> list[bool]:
    import math_verify

    read = math_verify.parse
    return [math_verify.verify(read(f"${gold}$"), read(f"${answer}$")) for gold, answer in pairs]


def judge_here(judge: MathJudge, asked: Sequence[tuple[Problem, str]]) -> list[bool]:
    return [judge.judge(*pair).correct for pair in asked]


def math(rounds: int) -> dict[str, Any]:
    logging.disable(logging.CRITICAL)
    table = [pair for group in (*EQUAL.values(), *DIFFERENT.values()) for pair in group]
    integers = [(str(number), str(number + number % 2)) for number in range(300)]
    judge = MathJudge()
    judge.warm()
    bare_math_verify(table[:50])
    shown: dict[str, Any] = {}
    for name, pairs in (("table", table), ("integers", integers)):
        asked = [(_problem(gold), answer) for gold, answer in pairs]
        times: dict[str, list[float]] = {"math-verify": [], "judge": [], "pool": []}
        for _ in range(rounds):
            # No side may use a cache of the round before; math-verify keeps its last 20.
            parse.cache_clear()
            times["math-verify"].append(seconds(partial(bare_math_verify, pairs)))
            times["judge"].append(seconds(partial(judge_here, judge, asked)))
            with JudgePool("math", workers=2) as pool:
                pool.judge_all([(_problem("1"), "1")] * 10)
                times["pool"].append(seconds(partial(pool.judge_all, asked)))
        rate = {side: len(pairs) / statistics.median(taken) for side, taken in times.items()}
        shown[name] = {f"{side} per second": round(value, 1) for side, value in rate.items()}
        shown[name]["judge / math-verify"] = round(rate["judge"] / rate["math-verify"], 2)
        shown[name]["pool / math-verify"] = round(rate["pool"] / rate["math-verify"], 2)
    return shown


def sandbox(rounds: int) -> dict[str, Any]:
    program = "import sys\nprint(sum(map(int, sys.stdin.read().split())))\n"
    stdin = " ".join(map(str, range(1000))).encode()
    python = language("python")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.py")
        Path(path).write_text(program, encoding="utf-8")
        command = python.command(path)
        bare, boxed = [], []
        for _ in range(rounds):
            bare.append(
                seconds(lambda: subprocess.run(command, input=stdin, capture_output=True, check=True))
            )
            boxed.append(seconds(lambda: run_program(program, stdin, python, SandboxLimits())))
    return {
        "runs": rounds,
        "bare median ms": round(1000 * statistics.median(bare), 1),
        "sandboxed median ms": round(1000 * statistics.median(boxed), 1),
        "sandboxed / bare (medians)": round(statistics.median(boxed) / statistics.median(bare), 2),
        "sandboxed / bare (totals)": round(sum(boxed) / sum(bare), 2),
        "promised at most": 1.6,
    }


def hanging(run_seconds: float) -> dict[str, Any]:
    """The last deadline of a run is idle time, so a run must be long against it: that fixes its size."""
    problem = _problem("right")
    shown: dict[str, Any] = {"deadline": 1.0, "promised at least": 0.7}
    with JudgePool(own_judges.misbehave, workers=2, deadline=1.0) as pool:
        few = [(problem, "work")] * 100
        pool.judge_all(few)
        answers = 20 * round(run_seconds / seconds(partial(pool.judge_all, few)) * len(few) / 20)
        shown["answers"] = answers
        healthy = [(problem, "work")] * answers
        for kind, name in (("sleep", "waiting"), ("hang", "computing")):
            mixed = [(problem, kind if number % 20 == 10 else "work") for number in range(answers)]
            ratios = []
            for _ in range(5):
                without = seconds(partial(pool.judge_all, healthy))
                ratios.append(without / seconds(partial(pool.judge_all, mixed)))
            shown[f"throughput kept, 5% {name} for ever"] = round(statistics.median(ratios), 2)
            shown[f"each round, {name}"] = [round(ratio, 2) for ratio in ratios]
        shown["timeouts"] = pool.counts.timeouts
    return shown


JudgeAll = Callable[[Sequence[tuple[Problem, str]]], list[str]]  # answers in, reasons out
WORKERS, DEADLINE, MEMORY = 2, 1.0, 1 << 30


@contextmanager
def our_pool(workers: int) -> Iterator[JudgeAll]:
    from benchmarks import warm_math

    with JudgePool(warm_math.judge, workers=workers, deadline=DEADLINE, memory_bytes=MEMORY) as pool:
        yield lambda asked: [verdict.reason for verdict in pool.judge_all(asked)]


@contextmanager
def pebble_pool(workers: int) -> Iterator[JudgeAll]:
    from benchmarks import warm_math

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.warm_math", "tests.judges.math_pairs"])

    def reason(future: Any) -> str:
        try:
            return str(future.result().reason)
        except Exception as fault:  # a timeout, a dead worker, or what the judge raised
            return "timeout" if isinstance(fault, TimeoutError) else "error"

    limit = (resource.RLIMIT_AS, (MEMORY, MEMORY))
    start = import_module("pebble").ProcessPool
    with start(workers, Limits().verdicts_per_worker, resource.setrlimit, limit, context) as pool:
        started: set[int] = set()
        while len(started) < workers:  # all of them, or the first answers would pay for their start
            waiting = [pool.schedule(warm_math.process_id) for _ in range(workers)]
            started |= {future.result() for future in waiting}
        yield lambda asked: [
            reason(future)
            for future in [pool.schedule(warm_math.judge, args=pair, timeout=DEADLINE) for pair in asked]
        ]


def against_pebble(rounds: int, repeats: int) -> dict[str, Any]:
    if find_spec("pebble") is None:
        raise SystemExit("The comparison needs pebble, which is not installed: pip install pebble")
    logging.disable(logging.CRITICAL)
    pairs = [pair for group in (*EQUAL.values(), *DIFFERENT.values()) for pair in group]
    table = [(_problem(gold), answer) for gold, answer in pairs] * repeats
    integers = [(_problem(str(number)), str(number + number % 2)) for number in range(1000)] * repeats
    problem = table[0][0]
    asked = {
        "integers": integers,
        "table": table,
        "table, 5% waiting for ever": _with_hanging(table, "sleep"),
        "table, 5% computing for ever": _with_hanging(table, "hang"),
    }
    many = WORKERS + Limits().max_overdue
    sides = {
        "ours": (our_pool, WORKERS),
        f"pebble with {WORKERS} workers": (pebble_pool, WORKERS),
        f"pebble with {many} workers": (pebble_pool, many),
    }
    shown: dict[str, Any] = {"deadline": DEADLINE, "rounds": rounds}
    for name, answers in asked.items():
        rates: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side, (start, workers) in sides.items():
                with start(workers) as judge_all:
                    judge_all(table[:200])
                    rates[side].append(len(answers) / seconds(partial(judge_all, answers)))
        medians = {side: statistics.median(found) for side, found in rates.items()}
        shown[name] = {"answers": len(answers)}
        shown[name] |= {f"{side}, verdicts per second": round(rate, 1) for side, rate in medians.items()}
        for side in list(sides)[1:]:
            shown[name][f"ours / {side}"] = round(medians["ours"] / medians[side], 2)
        print(name, shown[name], file=sys.stderr)
    killed = [(problem, "be killed")] * WORKERS + table[:1]
    for side, (start, workers) in list(sides.items())[:2]:
        with start(workers) as judge_all:
            judge_all(table[:200])
            waits = [seconds(partial(judge_all, killed)) for _ in range(10)]
            shown[f"{side}: ms until the verdict after {WORKERS} killed workers"] = round(
                1000 * statistics.median(waits), 1
            )
            shown[f"{side}: reasons for too much memory, then a right answer"] = judge_all(
                [(problem, "grow"), table[0]]
            )
    return shown


def _with_hanging(answers: Sequence[tuple[Problem, str]], kind: str) -> list[tuple[Problem, str]]:
    return [(pair[0], kind) if number % 20 == 10 else pair for number, pair in enumerate(answers)]


def _problem(gold: str) -> Problem:
    return Problem(id="p", prompt="", task="t", answer=gold)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("math", "sandbox", "hanging"), action="append")
    parser.add_argument("--against-pebble", action="store_true", help="only the comparison with pebble")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to see that it runs")
    arguments = parser.parse_args()
    small = arguments.quick
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "math": lambda: math(1 if small else 3),
        "sandbox": lambda: sandbox(10 if small else 100),
        "hanging": lambda: hanging(2.0 if small else 10.0),
    }
    if arguments.against_pebble:
        parts = {"pebble": lambda: against_pebble(1 if small else 3, 1 if small else 2)}
    for name in parts if arguments.against_pebble else arguments.only or parts:
        print(
            json.dumps({"part": name, "cores": os.cpu_count(), "load": os.getloadavg()[0], **parts[name]()}),
            flush=True,
        )


if __name__ == "__main__":
    main()
