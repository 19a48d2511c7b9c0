"""Run the worlds: every method, several seeds, side by side; then the tables of what was predicted and what came out.

    python scripts/worlds.py --out worlds --jobs 16                       # everything
    python scripts/worlds.py --out worlds --jobs 2 --worlds relay --methods grpo coop --seeds 2
    python scripts/worlds.py --out worlds --report                        # only the tables of what is there
    python scripts/worlds.py --out worlds --page docs/results/worlds      # a page of the seeds that are complete

Every run is a process of its own with one thread. It leaves one file with one line of JSON,
`OUT/WORLD.METHOD.SEED.jsonl`, and nothing else unless --keep. A run that is there is not made again, so the command
goes on where it was stopped. A run that fails leaves its last words in a .log file beside it and stops no other.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import yaml

from agon.errors import InputError
from agon.lab.worlds import page
from agon.lab.worlds.catalogue import WORLDS
from agon.lab.worlds.play import Outcome, play
from agon.lab.worlds.verdict import table

Cell = tuple[str, str, int]  # world, method, seed


def cells(worlds: list[str], methods: list[str] | None, seeds: range) -> Iterator[Cell]:
    """Seed by seed, so that an early stop leaves whole comparisons behind."""
    for seed in seeds:
        for world in worlds:
            for method in WORLDS[world].methods:
                if methods is None or method in methods:
                    yield world, method, seed + WORLDS[world].first_seeds.get(method, 0)


def path_of(cell: Cell, out: Path, suffix: str = ".jsonl") -> Path:
    return out / ("{}.{}.{}".format(*cell) + suffix)


def make(cell: Cell, out: Path, keep: bool, changes: dict[str, str]) -> None:
    """One run, in this process."""
    world, method, seed = cell
    chosen = WORLDS[world]
    chosen = replace(
        chosen, options={**chosen.options, **{name: yaml.safe_load(text) for name, text in changes.items()}}
    )
    folder = out / "runs" / path_of(cell, out, "").name
    shutil.rmtree(folder, ignore_errors=True)
    outcome = play(chosen, method, seed, folder)
    whole = path_of(cell, out, ".part")
    whole.write_text(json.dumps(outcome) + "\n")
    whole.rename(path_of(cell, out))
    if not keep:
        shutil.rmtree(folder)


def start(cell: Cell, out: Path, words: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--out", str(out), "--cell", *map(str, cell), *words]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    with path_of(cell, out, ".log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=log)


def run_all(waiting: list[Cell], out: Path, jobs: int, words: list[str]) -> int:
    """Make every run, `jobs` at a time; how many failed."""
    running: dict[Cell, subprocess.Popen[bytes]] = {}
    total, done, failed, began = len(waiting), 0, 0, time.monotonic()
    while waiting or running:
        while waiting and len(running) < jobs:
            cell = waiting.pop(0)
            running[cell] = start(cell, out, words)
        time.sleep(0.5)
        for cell in [cell for cell, process in running.items() if process.poll() is not None]:
            code = running.pop(cell).returncode
            done, failed = done + 1, failed + (code != 0)
            if code == 0:
                path_of(cell, out, ".log").unlink()
            said = "" if code == 0 else f" failed: see {path_of(cell, out, '.log')}"
            print(
                f"{done}/{total}  {time.monotonic() - began:.0f} s  {' '.join(map(str, cell))}{said}",
                flush=True,
            )
    return failed


def read(out: Path) -> list[Outcome]:
    lines = [line for path in sorted(out.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def report(outcomes: list[Outcome]) -> None:
    for world in WORLDS.values():
        own = [outcome for outcome in outcomes if outcome["world"] == world.name]
        if own:
            print(f"\n## {world.name}\n\n{world.why}\n\n{table(world, own)}")


def write_page(outcomes: list[Outcome], folder: Path) -> None:
    """The page, and the outcomes that it was written from."""
    chosen = page.complete(outcomes)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "outcomes.jsonl").write_text(page.lines(chosen))
    (folder / "README.md").write_text(page.page(chosen))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the outcomes")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default 1)")
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--methods", nargs="+", help="only these methods")
    parser.add_argument("--seeds", type=int, default=page.PLANNED, help="seeds of every method (default 10)")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument("--report", action="store_true", help="only print the tables of what is there")
    parser.add_argument(
        "--page", type=Path, metavar="FOLDER", help="only write a page of what is there, and its outcomes"
    )
    parser.add_argument("--keep", action="store_true", help="keep the run folders, in OUT/runs")
    parser.add_argument(
        "--cell", nargs=3, metavar=("WORLD", "METHOD", "SEED"), help="make this run here and now"
    )
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="try other options of the trainings, in another --out",
    )
    args = parser.parse_args()
    changes = dict(change.split("=", 1) for change in args.set)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.cell:
        world, method, seed = args.cell
        make((world, method, int(seed)), args.out, args.keep, changes)
        return 0
    if args.page:
        try:
            write_page(read(args.out), args.page)
        except InputError as error:
            parser.error(str(error))
        return 0
    failed = 0
    if not args.report:
        seeds = range(args.first_seed, args.first_seed + args.seeds)
        wanted = cells(args.worlds, args.methods, seeds)
        waiting = [cell for cell in wanted if not path_of(cell, args.out).exists()]
        words = [*(["--keep"] if args.keep else []), *(["--set", *args.set] if args.set else [])]
        failed = run_all(waiting, args.out, args.jobs, words)
    report(read(args.out))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
