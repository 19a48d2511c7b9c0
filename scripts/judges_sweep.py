"""Tests of the judges on all of the real data and on hostile strings; takes minutes, not for CI.

    python scripts/judges_sweep.py ../shared/data            # all of it
    python scripts/judges_sweep.py ../shared/data --only golds

- `golds`: every gold of GSM8K test, MATH-500 and DeepMath verifies against itself, or is listed.
- `contests`: every CodeContests reference is accepted, a mutant of it that is wrong on a test rejected.
- `mbpp`: 200 MBPP references are accepted, the same functions returning None rejected.
- `hostile`: 100,000 random and hostile strings through the math judge: reasons, slowest, memory.

One JSON object per part on standard output, what failed in its `listed`.
"""

import argparse
import ast
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from agon.game.problem import CodeTests, Problem, StdioTest  # noqa: E402
from agon.judges.code.languages import language  # noqa: E402
from agon.judges.code.sandbox import SandboxLimits, run_program  # noqa: E402
from agon.judges.math.equality import MAX_LENGTH  # noqa: E402
from agon.judges.pool import JudgePool, check_golds  # noqa: E402
from tests.judges.hostile import hostile  # noqa: E402


def rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def golds(data: Path) -> dict[str, Any]:
    files = {
        "gsm8k": [row["answer"].split("#### ")[-1] for row in rows(data / "gsm8k" / "test.jsonl")],
        "math500": [row["answer"] for row in rows(data / "math500" / "test.jsonl")],
        "deepmath_5k": [row["final_answer"] for row in rows(data / "deepmath_5k" / "train.jsonl")],
    }
    listed = []
    with JudgePool("math", workers=2) as pool:
        for name, answers in files.items():
            problems = [
                Problem(id=str(number), prompt="", task=name, answer=gold)
                for number, gold in enumerate(answers)
            ]
            listed += [[name, bad.problem.answer, bad.verdict.detail] for bad in check_golds(pool, problems)]
    return {"golds": sum(map(len, files.values())), "refused": len(listed), "listed": listed}


def contest_problems(data: Path) -> Iterator[tuple[Problem, str]]:
    for row in rows(data / "codecontests" / "problems.jsonl"):
        if row["reference_verified"]:
            tests = CodeTests(stdio=tuple(StdioTest(test["input"], test["output"]) for test in row["tests"]))
            problem = Problem(id=row["id"], prompt="", task="codecontests", domain="code", tests=tests)
            yield problem, row["reference_python"]


def mutants(program: str) -> Iterator[str]:
    """The program with one operator, comparison or constant changed; last, with one line too many."""
    tree = ast.parse(program)
    for node in reversed(
        list(ast.walk(tree))
    ):  # what is deep decides a result rather than the reading of input
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            old, node.op = node.op, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield ast.unparse(tree)
            node.op = old
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Lt, ast.Gt, ast.Eq)):
            kept, node.ops[0] = node.ops[0], ast.NotEq() if isinstance(node.ops[0], ast.Eq) else ast.Eq()
            yield ast.unparse(tree)
            node.ops[0] = kept
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            node.value += 1
            yield ast.unparse(tree)
            node.value -= 1
    yield "print(0)\n" + program


def wrong_mutant(problem: Problem, program: str, tries: int = 4) -> str:
    """A mutant that misses at least one test, seen here by running it and not by the judge."""
    assert problem.tests is not None
    limits = SandboxLimits(cpu_seconds=3, wall_seconds=4.0)
    candidates = list(mutants(program))
    for mutant in [*candidates[:tries], candidates[-1]]:
        for test in problem.tests.stdio:
            outcome = run_program(mutant, test.input.encode(), language("python"), limits)
            slow = outcome.ending == "timeout" or outcome.code in (-24, 152)
            if slow:  # it may be right, given time
                break
            if not outcome.ok or outcome.stdout.decode("utf-8", "replace").split() != test.output.split():
                return mutant
    raise AssertionError(f"No mutant of {problem.id} is wrong.")


def contests(data: Path) -> dict[str, Any]:
    listed = []
    with JudgePool("code", workers=2) as pool:
        problems = list(contest_problems(data))
        references = pool.judge_all(problems)
        with ThreadPoolExecutor(2) as runs:
            mutated = list(runs.map(lambda pair: wrong_mutant(*pair), problems))
        broken = pool.judge_all(
            (problem, mutant) for (problem, _), mutant in zip(problems, mutated, strict=True)
        )
    for (problem, _), accepted, rejected in zip(problems, references, broken, strict=True):
        if not accepted.correct or rejected.reason not in ("wrong", "timeout"):
            listed.append([problem.id, accepted.to_dict(), rejected.to_dict()])
    return {
        "problems": len(problems),
        "references accepted": sum(verdict.correct for verdict in references),
        "mutants rejected": sum(not verdict.correct for verdict in broken),
        "slowest reference seconds": round(max(verdict.seconds for verdict in references), 2),
        "listed": listed,
    }


def mbpp_problems(data: Path, count: int) -> list[tuple[Problem, str]]:
    chosen = rows(data / "mbpp" / "MBPP.jsonl")[:count]
    tests = [CodeTests(setup=row["test_setup_code"], asserts=tuple(row["test_list"])) for row in chosen]
    return [
        (Problem(id=str(row["task_id"]), prompt="", task="mbpp", domain="code", tests=test), row["code"])
        for row, test in zip(chosen, tests, strict=True)
    ]


def returning_none(program: str) -> str:
    """The program with every function reduced to `return None`."""
    tree = ast.parse(program)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = [ast.Return(ast.Constant(None))]
    return ast.unparse(ast.fix_missing_locations(tree))


def mbpp(data: Path, count: int = 200) -> dict[str, Any]:
    problems = mbpp_problems(data, count)
    with JudgePool("code", workers=2) as pool:
        references = pool.judge_all(problems)
        empty = pool.judge_all((problem, returning_none(program)) for problem, program in problems)
    listed = [
        [problem.id, accepted.to_dict(), rejected.to_dict()]
        for (problem, _), accepted, rejected in zip(problems, references, empty, strict=True)
        if not accepted.correct or rejected.reason != "wrong"
    ]
    return {
        "problems": len(problems),
        "references accepted": sum(verdict.correct for verdict in references),
        "None rejected": sum(not verdict.correct for verdict in empty),
        "listed": listed,
    }


def hostile_strings(data: Path, count: int = 100_000, deadline: float = 2.0) -> dict[str, Any]:
    problems = [
        Problem(id=gold, prompt="", task="t", answer=gold)
        for gold in ("42", r"\frac{\pi}{2}", "x^2+1", "(1,2]")
    ]
    reasons: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    accepted, memory, slowest = [], [], 0.0
    started = time.monotonic()
    with JudgePool("math", workers=2, deadline=deadline) as pool:
        answers = hostile(count)
        for block in range(20):
            texts = [next(answers) for _ in range(count // 20)]
            pairs = [(problems[number % 4], text) for number, text in enumerate(texts)]
            verdicts = pool.judge_all(pairs)
            reasons.update(verdict.reason for verdict in verdicts)
            errors.update(verdict.detail[:60] for verdict in verdicts if verdict.reason == "error")
            slowest = max(slowest, *(verdict.seconds for verdict in verdicts))
            accepted += [
                [pair[0].answer, pair[1][:200]]
                for pair, verdict in zip(pairs, verdicts, strict=True)
                if verdict.correct
            ]
            memory.append(round(_resident() / 2**20))
            print(f"{block + 1}/20 {dict(reasons)} {memory[-1]} MiB", file=sys.stderr)
        counts = pool.counts
    return {
        "strings": sum(reasons.values()),
        "reasons": dict(reasons),
        "errors": dict(errors),
        "crashed workers": counts.crashes,
        "slowest seconds": round(slowest, 3),
        "deadline": deadline,
        "memory MiB by twentieth": memory,
        "strings per second": round(count / (time.monotonic() - started)),
        "longest text compared": MAX_LENGTH,
        "listed": accepted,
    }


def _resident() -> int:
    """Resident memory of this process, the fork server and its workers."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    total = 0
    for process in processes:
        try:
            total += process.memory_full_info().uss
        except psutil.Error:
            continue  # it ended in the meantime
    return total


PARTS = {"golds": golds, "contests": contests, "mbpp": mbpp, "hostile": hostile_strings}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "data", type=Path, help="the folder with gsm8k, math500, deepmath_5k, codecontests, mbpp"
    )
    parser.add_argument("--only", choices=PARTS, action="append")
    arguments = parser.parse_args()
    for name in arguments.only or PARTS:
        print(json.dumps({"part": name, **PARTS[name](arguments.data)}), flush=True)


if __name__ == "__main__":
    main()
