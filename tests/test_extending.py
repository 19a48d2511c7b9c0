"""Each row of CONTRIBUTING's table "to add …" is done here, on a copy of the package, and the new part used.

A row may touch three files at most; the files that a step edits or makes must be the ones its row names.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


class Workshop:
    """A copy of the package that may be changed, and what was touched in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "src" / "agon"
        shutil.copytree(ROOT / "src" / "agon", self.package, ignore=shutil.ignore_patterns("__pycache__"))
        self.touched: set[str] = set()

    def edit(self, name: str, before: str, after: str) -> None:
        """Put `after` in front of the first `before` of a file."""
        path = self.package / name
        text = path.read_text("utf-8")
        assert before in text, f"{name} has no {before!r}"
        path.write_text(text.replace(before, after + before, 1), "utf-8")
        self.touched.add(name)

    def write(self, name: str, text: str) -> None:
        assert not (self.package / name).exists()
        (self.package / name).write_text(text, "utf-8")
        self.touched.add(name)

    def python(self, *words: str, given: str = "") -> str:
        """Run Python on the changed package and return what it prints."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src")}
        ended = subprocess.run(
            [sys.executable, *words],
            input=given,
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def agon(self, *words: str, given: str = "") -> str:
        return self.python("-m", "agon.cli", *words, given=given)


def add_a_method(shop: Workshop) -> None:
    row = '    Method("duplicate", 2, "rival draft", "nobody", rewards.COOPERATIVE, "2c(b)", "fixed", "cascade"),\n'
    shop.edit("game/methods.py", ")  # fmt: skip", row)
    (shown,) = json.loads(shop.agon("methods", "duplicate", "--json"))
    assert (shown["challenger reads"], shown["roles"]) == ("rival draft", "fixed")


def add_a_task(shop: Workshop) -> None:
    function = (
        "def riddle_problem(row: Row, options: Options) -> ProblemOrReason:\n"
        '    return Problem(row.text("id"), row.text("riddle"), "riddles", row.text("solution"))\n\n\n'
    )
    source = 'Source("someone/riddles", "train", ("id", "riddle", "solution"), ("riddles",))'
    sizes = '{"train": 20, "validation": 10, "test": 10}'
    row = f'    "riddles": Benchmark("riddles", "exact", riddle_problem, ({source},), sizes={sizes}),\n'
    shop.edit("tasks/problems.py", "def deepmath_problem(", function)
    shop.edit(
        "tasks/benchmarks.py",
        "from agon.tasks.problems import",
        "from agon.tasks.problems import riddle_problem\n",
    )
    shop.edit("tasks/benchmarks.py", '    "gsm8k": Benchmark(', row)
    lines = [{"id": str(n), "riddle": f"What is {n}?", "solution": str(n)} for n in range(40)]
    data = shop.folder / "riddles" / "train.jsonl"
    data.parent.mkdir()
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    shown = json.loads(shop.agon("tasks", "riddles", "--path", str(shop.folder), "--json"))
    assert (shown["judge"], shown["kept"]) == ("exact", 40)


def add_a_judge(shop: Workshop) -> None:
    shop.write(
        "judges/reversed.py",
        '"""The gold, backwards."""\n\n'
        "from agon.game.problem import Problem\nfrom agon.game.verdict import Verdict\n\n\n"
        "class ReversedJudge:\n"
        "    def judge(self, problem: Problem, answer: str) -> Verdict:\n"
        "        right = answer.strip() == problem.answer[::-1]\n"
        '        return Verdict(right, "correct" if right else "wrong")\n',
    )
    rows = (shop.package / "judges" / "registry.py").read_text("utf-8")
    (exact,) = re.findall(r'    "exact": .*\n', rows)
    new = exact.replace('"exact"', '"reversed"').replace("exact", "reversed").replace("Exact", "Reversed")
    shop.edit("judges/registry.py", exact, new)
    lines = [{"gold": "abc", "answer": "cba"}, {"gold": "abc", "answer": "abc"}]
    said = shop.agon("judge", "reversed", given="".join(json.dumps(line) + "\n" for line in lines))
    assert [json.loads(line)["correct"] for line in said.splitlines()] == [True, False]


def add_an_engine(shop: Workshop) -> None:
    shop.write(
        "engines/silent.py",
        '"""Ends every completion at once."""\n\n'
        "from agon.engines.protocol import Capabilities, Finished\nfrom agon.game.rollout import Rollout\n\n\n"
        "class SilentEngine:\n"
        '    capabilities = Capabilities("silent", streams=False, live_weights=True, logprobs=True)\n\n'
        "    def __init__(self):\n        self.pending = []\n\n"
        "    def sync(self, policy, version): ...\n\n"
        "    def submit(self, requests):\n        self.pending += requests\n\n"
        "    def collect(self):\n"
        "        done, self.pending = self.pending, []\n"
        '        return [Finished(each, Rollout("", 1, "stop", each.policy, each.version)) for each in done]\n\n'
        "    def sleep(self): ...\n\n    def wake(self): ...\n\n    def close(self): ...\n",
    )
    shop.edit(
        "engines/build.py",
        "ENGINES: Mapping",
        "def _silent(pair, chat, model_path, options):\n"
        "    from agon.engines.silent import SilentEngine\n\n    return SilentEngine()\n\n\n",
    )
    shop.edit("engines/build.py", '    "vllm": ', '    "silent": EngineEntry(_silent, None),\n')
    task = "gym:chain_sum,train=2,validation=2,test=2"
    words = ["eval", "embedded", "--task", task, "--output", "out", "--engine", "silent", "--json"]
    result = json.loads(shop.agon(*words))
    assert result["engine"] == "silent"
    assert result["arms"]["zero-shot"]["reasons"] == {"no-answer": 2}


def add_a_metric(shop: Workshop) -> None:
    row = '        "longest": max(entry.rollout.length for entry in entries),\n'
    shop.edit("train/metrics.py", '        "dropped_groups": ', row)
    code = (
        "from agon.game import Duel, Entry, Problem, Rollout, Verdict\n"
        "from agon.train.metrics import duel_metrics\n"
        'entries = [Entry(Rollout("", n, "stop", "A", 0), Verdict(False, "wrong"), True) for n in (3, 5)]\n'
        'duels = [Duel(Problem("1", "", ""), entry, step=0) for entry in entries]\n'
        'print(duel_metrics(duels, 2)["draft/longest"])'
    )
    assert shop.python("-c", code) == "5\n"


def add_a_report(shop: Workshop) -> None:
    shop.write(
        "reports/steps.py",
        '"""How far each run of a folder got."""\n\n'
        "from agon.reports.tables import Table\nfrom agon.runs.records import read_records\n\n\n"
        "def steps_table(folder):\n"
        "    rows = tuple((one.name, str(len(one.steps))) for one in read_records(folder) if one.trained)\n"
        '    return Table("Steps", ("run", "steps"), rows)\n',
    )
    runs = ROOT / "docs" / "results" / "qwen2.5-coder-0.5b" / "runs"
    code = (
        "from pathlib import Path\nfrom agon.reports.steps import steps_table\n"
        f"from agon.reports.tables import markdown\nprint(markdown(steps_table(Path({str(runs)!r}))))"
    )
    assert "| agon-s0-lr3e-4 | 32 |" in shop.python("-c", code)


def add_a_command(shop: Workshop) -> None:
    shop.write(
        "commands/greet.py",
        '"""Say hello."""\n\n\n'
        'def add_arguments(parser):\n    parser.add_argument("name")\n\n\n'
        'def run(arguments):\n    print(f"Hello, {arguments.name}.")\n    return 0\n',
    )
    shop.edit("cli.py", '    "methods": ', '    "greet": "say hello",\n')
    assert shop.agon("greet", "reader") == "Hello, reader.\n"
    assert "greet" in shop.agon("--help")


STEPS: dict[str, Callable[[Workshop], None]] = {
    "method": add_a_method,
    "task": add_a_task,
    "judge": add_a_judge,
    "engine": add_an_engine,
    "metric": add_a_metric,
    "report": add_a_report,
    "command": add_a_command,
}


def table() -> dict[str, set[str]]:
    """The rows of CONTRIBUTING: what is added, and the patterns of the files that it touches."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = re.findall(r"^\| an? ([a-z]+) \| (.+?) \|", text, re.MULTILINE)
    return {name: set(re.findall(r"`([^`]+\.py)`", files)) for name, files in rows}


def test_the_table_has_a_row_for_each_and_no_row_has_more_than_three_files() -> None:
    assert set(table()) == set(STEPS)
    assert {name: len(files) for name, files in table().items() if not 1 <= len(files) <= 3} == {}


@pytest.mark.parametrize("name", STEPS)
def test_what_the_table_says_is_enough(name: str, tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    STEPS[name](shop)
    named = [pattern.replace("NAME", r"\w+") for pattern in table()[name]]
    assert [file for file in shop.touched if not any(re.fullmatch(pattern, file) for pattern in named)] == []
