"""How fast the judges are, each against the plain alternative, side by side in one run.

    python benchmarks/judges.py                     # about five minutes
    python benchmarks/judges.py --against-pebble    # about six minutes; needs `pip install pebble`

- `math`: verdicts a second of the judge in one process and in a pool of two, against bare math-verify
  (parse and verify) in one process, on the pairs of tests/judges/math_pairs.py and on plain integers.
- `sandbox`: time of a sandboxed run against a bare `python -I` subprocess; at most 1.6 times.
- `hanging`: throughput of a pool with 5% hanging answers against the same pool without; at least 80%. It is
  the rate of the other answers' verdicts, until the last of them is there; what computes for ever is judged
  after them, and each is given the whole deadline in time of its own.
- `busy`: timeouts among 1,000 right answers, 25 of them slow, beside two processes that take all the CPU time
  they can get; none.
- `gym`: verdicts a second of the gym judge on chain_sum, in one process and in a pool of two.
- `--against-pebble` (alone): the pool against pebble's, see benchmarks/against_pebble.py.

The sides of each ratio take turns, so that a busy machine slows all. One JSON object per part.
"""

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from agon.game.problem import Problem  # noqa: E402
from agon.judges.code.languages import language  # noqa: E402
from agon.judges.code.sandbox import SandboxLimits, run_program  # noqa: E402
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


def rate(pool: JudgePool, asked: Sequence[tuple[Problem, str]], hang: str = "") -> tuple[float, float]:
    """Verdicts a second on the answers that do not hang, and seconds until all verdicts are there."""
    started = time.perf_counter()
    waiting = [(answer, pool.submit(problem, answer)) for problem, answer in asked]
    healthy = [future for answer, future in waiting if answer != hang]
    for future in healthy:
        future.result()
    taken = time.perf_counter() - started
    for _, future in waiting:
        future.result()
    return len(healthy) / taken, time.perf_counter() - started


def hanging(run_seconds: float) -> dict[str, Any]:
    """A run must be long against one deadline: that fixes its size."""
    problem = _problem("right")
    shown: dict[str, Any] = {"deadline": 1.0, "promised at least": 0.8}
    with JudgePool(own_judges.misbehave, workers=2, deadline=1.0) as pool:
        few = [(problem, "work")] * 100
        pool.judge_all(few)
        answers = 20 * round(run_seconds * rate(pool, few)[0] / 20)
        shown["answers"] = answers
        healthy = [(problem, "work")] * answers
        for kind, name in (("sleep", "waiting"), ("hang", "computing")):
            mixed = [(problem, kind if number % 20 == 10 else "work") for number in range(answers)]
            ratios, wholes = [], []
            for _ in range(5):
                without, alone = rate(pool, healthy)
                beside, whole = rate(pool, mixed, kind)
                ratios.append(beside / without)
                wholes.append(whole / alone)
            shown[f"throughput kept, 5% {name} for ever"] = round(statistics.median(ratios), 2)
            shown[f"each round, {name}"] = [round(ratio, 2) for ratio in ratios]
            shown[f"time until all verdicts, 5% {name}"] = f"{statistics.median(wholes):.1f} times"
        shown["timeouts"] = pool.counts.timeouts
    return shown


def busy(answers: int) -> dict[str, Any]:
    """Slow right answers: a power of a sum against its binomial series, about a second each."""
    asked = []
    for number in range(answers):
        n = 150 + number // 40
        slow = (f"(1+x)^{{{n}}}", rf"\sum_{{k=0}}^{{{n}}} \binom{{{n}}}{{k}} x^k")
        gold, answer = slow if number % 40 == 20 else (str(number), str(number))
        asked.append((_problem(gold), answer))
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        with JudgePool("math", workers=2) as pool:
            verdicts = pool.judge_all(asked)
            counts = pool.counts
    finally:
        for other in others:
            other.kill()
            other.wait()
    return {
        "right answers": answers,
        "accepted": sum(verdict.correct for verdict in verdicts),
        "timeouts": counts.timeouts,
        "second tries": counts.retries,
        "longest, seconds of its own": round(max(verdict.seconds for verdict in verdicts), 2),
    }


def gym(rounds: int) -> dict[str, Any]:
    from agon.judges.gym import GymJudge
    from agon.tasks import load_task

    task = load_task("gym:chain_sum,min_terms=2,max_terms=3,train=500,validation=1,test=1")
    asked = [
        (problem, answer) for problem in task.problems("train") for answer in (problem.answer, "7", "it is 7")
    ]
    judge = GymJudge()
    with JudgePool("gym", workers=2) as pool:
        pool.judge_all(asked[:100])
        here = [seconds(lambda: [judge.judge(*pair) for pair in asked]) for _ in range(rounds)]
        pooled = [seconds(partial(pool.judge_all, asked)) for _ in range(rounds)]
    return {
        "verdicts": len(asked),
        "per second in one process": round(len(asked) / statistics.median(here)),
        "per second in a pool of two": round(len(asked) / statistics.median(pooled)),
    }


def _problem(gold: str) -> Problem:
    return Problem(id="p", prompt="", task="t", answer=gold)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("math", "sandbox", "hanging", "busy", "gym"), action="append")
    parser.add_argument("--against-pebble", action="store_true", help="only the comparison with pebble")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to see that it runs")
    arguments = parser.parse_args()
    small = arguments.quick
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "math": lambda: math(1 if small else 3),
        "sandbox": lambda: sandbox(10 if small else 100),
        "hanging": lambda: hanging(2.0 if small else 10.0),
        "busy": lambda: busy(100 if small else 1000),
        "gym": lambda: gym(1 if small else 5),
    }
    if arguments.against_pebble:
        from benchmarks.against_pebble import compare

        parts = {"pebble": lambda: compare(1 if small else 3, 1 if small else 2)}
    for name in parts if arguments.against_pebble else arguments.only or parts:
        print(
            json.dumps({"part": name, "cores": os.cpu_count(), "load": os.getloadavg()[0], **parts[name]()}),
            flush=True,
        )


if __name__ == "__main__":
    main()
