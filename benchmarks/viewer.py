"""How the viewer grows: 10^4, 10^5 and 10^6 duels, in a server process of its own.

    python benchmarks/viewer.py                    some minutes, and 3 GB of disk for the largest
    python benchmarks/viewer.py --sizes 10000

The duels are texts of about 700 characters on each side, 2.6 kB a line. `first` is a run that was never looked
at: seconds from the start of the process to the first lines of its list, and to the whole index. `opens` is any later
time: to the list with every duel in it. A filter's time is the slowest of those listed in FILTERS, each asked for once;
a search is for a word that one duel has: to the first answer, and to the end of all texts. `of CPU` is what the server
itself used, on a machine that does other things too. `memory` is the most that the server held at any time.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode
from urllib.request import urlopen

from agon.game.duel import Duel, Entry
from agon.game.problem import Problem
from agon.game.rollout import Rollout
from agon.game.verdict import Verdict
from agon.runs.folder import Run

GROUP, PROBLEMS = 8, 32  # duels a problem, problems a step
CONFIG = {
    "method": "agon",
    "model": "none",
    "task": "sums",
    "dialect": "boxed",
    "seed": 0,
    "num_generations": 16,
}
FILTERS: list[dict[str, str]] = [
    {"outcome": "converted"},
    {"outcome": "both-wrong", "mark": "copied"},
    {"mark": "truncated", "role": "challenge", "policy": "A"},
    {"step": "10..2000", "reward": "2..4"},
    {"length": "150..", "sort": "long"},
    {"problem": "basket sum-1", "sort": "paid"},
    {"outcome": "wrong", "policy": "B", "role": "draft", "sort": "oldest"},
]
NEEDLE = "needle-in-a-haystack"
COLUMNS = {
    "duels": "duels",
    "gigabytes": "GB",
    "first_lines": "first: lines, s",
    "first_whole": "first: whole, s",
    "opens": "opens, s",
    "opens_cpu": "of CPU",
    "filter": "filter, s",
    "filter_cpu": "of CPU",
    "duel": "one duel, s",
    "group": "its group, s",
    "search_first": "search: first, s",
    "search_whole": "search: whole, s",
    "megabytes": "memory, MB",
}


class Line:
    """A line that passes for a duel where duels are written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def to_json(self) -> str:
        return self.text


def patterns(rng: random.Random, count: int = 400) -> list[str]:
    """Lines of duels with marks for what differs; all outcomes, lengths and verdicts are among them."""
    words = [
        "adding",
        "the",
        "apples",
        "gives",
        "so",
        "we",
        "multiply",
        "them",
        "by",
        "two",
        "and",
        "subtract",
        "what",
        "was",
        "eaten",
        "on",
        "Monday",
    ]

    def entry(policy: str, right: bool) -> Entry:
        answer = "42" if right else str(rng.choice((7, 7, 9)))
        said = "\n".join(" ".join(rng.choices(words, k=12)) + f" = {rng.randrange(99)}" for _ in range(8))
        cut = rng.random() < 0.03
        rollout = Rollout(
            f"{said}\nThe answer is \\boxed{{{answer}}}.",
            rng.randrange(60, 300),
            "length" if cut else "stop",
            policy,
            3,
        )
        terms = {"correctness": 2.0 * right, "form": 0.5}
        return Entry(
            rollout, Verdict(right, "correct" if right else "wrong"), not cut, 2.0 * right + 0.5, 0.3, terms
        )

    problem = Problem(
        "@problem", "How many apples are left in basket @problem, if half of them are eaten?", "sums", "42"
    )
    made = []
    for _ in range(count):
        sides = [entry(name, rng.random() < 0.3) for name in rng.choice(("AB", "BA"))]
        shown = sides[0].rollout.text.rpartition("\n")[0]
        made.append(Duel(problem, sides[0], -1, -2, shown, sides[1], 0).to_json())
    return made


def write_run(folder: Path, duels: int) -> None:
    rng = random.Random(0)
    run = Run(folder)
    run.write_config(CONFIG)
    lines = patterns(rng)
    log = run.duels(max_mb=1 << 20)
    for first in range(0, duels, 10_000):
        batch = []
        for number in range(first, min(first + 10_000, duels)):
            line = rng.choice(lines).replace("@problem", f"sum-{number // GROUP}")
            line = line.replace('"step":-1', f'"step":{number // (GROUP * PROBLEMS)}')
            line = line.replace('"index":-2', f'"index":{number % GROUP}')
            batch.append(line.replace("Monday", NEEDLE, 1) if number == duels // 3 else line)
        log.write(cast(Any, [Line(line) for line in batch]))


@contextmanager
def server(run: Path, cache: Path) -> Iterator[tuple[str, int, float]]:
    """A viewer in a process of its own: where it is, its process, and when it was started."""
    began = time.perf_counter()
    code = "import sys; from agon.cli import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "view", str(run), "--port", "0"],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    try:
        yield process.stdout.readline().strip(), process.pid, began
    finally:
        process.terminate()
        process.wait()


def ask(url: str, question: str, **words: Any) -> tuple[float, dict[str, Any]]:
    began = time.perf_counter()
    query = urlencode({"run": "run", "source": "training", "count": 60, **words})
    with urlopen(f"{url}api/{question}?{query}", timeout=600) as answer:
        told = json.load(answer)
    return time.perf_counter() - began, told


def used(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak(pid: int) -> float:
    """The most memory that a process has held, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure(duels: int, folder: Path) -> dict[str, float]:
    run, cache = folder / "run", folder / "cache"
    write_run(run, duels)
    size = sum(path.stat().st_size for path in Run(run).duels().files())
    told: dict[str, float] = {"duels": duels, "gigabytes": size / 1e9}
    with server(run, cache) as (url, pid, began):
        while not ask(url, "duels")[1]["lines"]:
            pass
        told["first_lines"] = time.perf_counter() - began
        while (now := ask(url, "state")[1])["count"] < duels or now["unread"]:
            time.sleep(0.2)
        told["first_whole"] = time.perf_counter() - began
        time.sleep(1)  # the index is written
        memory = peak(pid)
    with server(run, cache) as (url, pid, began):
        urlopen(url).read()
        ask(url, "runs")
        assert ask(url, "duels")[1]["total"] == duels
        told["opens"], told["opens_cpu"] = time.perf_counter() - began, used(pid)
        answers, spent = [], [used(pid)]
        for words in FILTERS:
            answers.append(ask(url, "duels", **words))
            spent.append(used(pid))
        told["filter_cpu"] = max(after - before for before, after in pairwise(spent))
        assert all(0 < answer["total"] < duels for _, answer in answers)
        told["filter"] = max(seconds for seconds, _ in answers)
        name = answers[0][1]["lines"][0]["id"]
        told["duel"], told["group"] = ask(url, "duel", id=name)[0], ask(url, "group", id=name)[0]
        began = time.perf_counter()
        told["search_first"], found = ask(url, "duels", search=NEEDLE)
        while found["searched"] < 1:
            found = ask(url, "duels", search=NEEDLE)[1]
        told["search_whole"] = time.perf_counter() - began
        assert found["total"] == 1
        told["megabytes"] = max(memory, peak(pid))
    return told


def table(results: list[dict[str, float]]) -> str:
    rows = [list(COLUMNS.values()), ["---:"] * len(COLUMNS)]
    for told in results:
        whole = {"duels": f"{told['duels']:,}", "megabytes": f"{told['megabytes']:.0f}"}
        rows.append([whole.get(name, f"{told[name]:.2f}") for name in COLUMNS])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--out", type=Path, help="write the figures as JSON, too")
    arguments = parser.parse_args()
    results = []
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory(prefix="agon-viewer-") as folder:
            results.append(measure(size, Path(folder)))
        print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=2) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
