"""Train and evaluate many runs that differ in method, seed or an option, and say where they are.

  agon sweep --methods grpo coop agon --seeds 3   the embedded default
  agon sweep qwen2.5-0.5b-gsm8k --methods grpo agon --seeds 3 --parallel 2
  agon sweep my-sweep.yaml --on slurm             a sweep file, on a cluster
  agon sweep --status sweeps/my-sweep             where every cell is
  agon sweep --pack sweeps/my-sweep --out packed  without the weights

Options of `agon train` (--max_steps 5) are for every cell. Each cell is an
ordinary run. The same command again goes on where it was stopped: finished
stages are not repeated, a training that was interrupted is resumed, a cell that
failed is tried again. Exit codes: 0 all cells are done (on Slurm: submitted),
1 a cell failed, 2 wrong input, 130 Ctrl-C, 143 SIGTERM.
"""

import argparse
import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from agon.commands.arguments import add_trust, number, whole
from agon.errors import InputError
from agon.printing import say

if TYPE_CHECKING:
    from agon.lab.sweep.launch import Plan
    from agon.runs.sweep_folder import SweepFolder

PARSES_REST = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        nargs="?",
        metavar="FILE|RECIPE|DIR",
        help="a sweep file, a recipe as `agon train` takes it, or a sweep's folder for --status and --pack; the "
        "embedded default if absent",
    )
    parser.add_argument("--methods", nargs="+", default=[], metavar="NAME", help="methods (`agon methods`)")
    parser.add_argument(
        "--seeds", nargs="+", type=whole(0), default=[], metavar="N", help="how many, from 0; several: these"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="CELL",
        help="only these cells now (grpo-s0); the others wait",
    )
    parser.add_argument("--on", default="local", help="local (default), slurm or ray")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="the sweep's folder; sweeps/NAME otherwise"
    )
    parser.add_argument(
        "--parallel", type=whole(1), metavar="N", help="cells at a time; one for each GPU otherwise"
    )
    parser.add_argument(
        "--stagger", type=number(0), metavar="S", help="seconds between two starts; 5 on a GPU, else 0"
    )
    parser.add_argument("--strict", action="store_true", help="refuse cells whose budgets differ")
    parser.add_argument("--status", action="store_true", help="only say where every cell of DIR is")
    parser.add_argument("--pack", action="store_true", help="only pack the cells of DIR, without weights")
    parser.add_argument("--out", type=Path, default=Path("packed"), help="where --pack writes (packed)")
    parser.add_argument("--dry-run", action="store_true", help="only print the cells and their commands")
    parser.add_argument("--json", action="store_true", help="print the cells as JSON in the end")
    add_trust(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.status or arguments.pack:
        return _look(arguments)
    from agon.lab.sweep.asked import read_sweep
    from agon.lab.sweep.launch import own, plan, write_plan

    methods = [name for word in arguments.methods for name in word.split(",") if name]
    seeds = list(range(arguments.seeds[0])) if len(arguments.seeds) == 1 else arguments.seeds
    if arguments.seeds == [0]:
        raise InputError("--seeds must be at least 1: it is how many, counted from 0.")
    only = [name for word in arguments.only for name in word.split(",") if name]
    _refuse_folder(arguments.target)
    sweep = read_sweep(arguments.target, arguments.rest, methods, seeds)
    made = plan(sweep, arguments.output, arguments.on, arguments.strict, arguments.trust_run_code, only)
    _announce(made, arguments.json)
    if arguments.dry_run:
        _show_commands(made, arguments.json)
        return 0
    with own(made):
        write_plan(made)
        return _queue(made, arguments) if made.on == "slurm" else _carry_out(made, arguments)


def _carry_out(made: "Plan", arguments: argparse.Namespace) -> int:
    from agon.lab.sweep.launch import carry_out
    from agon.lab.sweep.local import devices
    from agon.lab.sweep.progress import rows_of
    from agon.lab.sweep.watching import SweepView
    from agon.runs.sweep_folder import FAILED

    at_a_time = arguments.parallel or max(1, len(devices()) if made.on == "local" else len(made.chosen))
    stopped = 0
    with _sigterm() as ended_by, SweepView(made.folder, made.chosen, at_a_time) as view:
        try:
            carry_out(made, view, arguments.parallel, arguments.stagger)
        except KeyboardInterrupt:
            stopped = 128 + (ended_by[0] if ended_by else signal.SIGINT)
    _show_status(made.folder, arguments.json)
    if stopped:
        say("agon: stopped; every cell has kept what it had, and the same command goes on.", file=sys.stderr)
        return stopped
    say(f"What came of it: agon report {made.folder.folder}", file=sys.stderr)
    failed = [row for row in rows_of(made.folder, made.chosen) if row.state == FAILED]
    return 1 if failed else 0


def _queue(made: "Plan", arguments: argparse.Namespace) -> int:
    from agon.lab.sweep.launch import queue

    submitted = queue(made, arguments.parallel)
    if arguments.json:
        _show_status(made.folder, True)
    else:
        say(f"Submitted {len(submitted)} of {len(made.chosen)} cells; the others are done or in the queue.")
        say(f"Where they are: agon sweep --status {made.folder.folder}")
        say(f"What came of it: agon report {made.folder.folder}")
    return 0


def _look(arguments: argparse.Namespace) -> int:
    """Say where the cells of a folder are, or pack them."""
    from agon.lab.sweep.pack import pack
    from agon.runs.sweep_folder import SweepFolder

    if arguments.rest:
        raise InputError(
            f"'{arguments.rest[0]}' is an option of a sweep that runs, not of --status or --pack."
        )
    if arguments.target is None:
        word = "--status" if arguments.status else "--pack"
        raise InputError(f"{word} needs the folder of a sweep: agon sweep {word} DIR.")
    folder = SweepFolder(Path(os.path.expanduser(arguments.target)))
    folder.cells()  # what is not a sweep is refused
    if arguments.pack:
        for path in pack(folder, arguments.out):
            say(str(path))
        return 0
    _show_status(folder, arguments.json)
    return 0


def _show_status(folder: "SweepFolder", as_json: bool) -> None:
    from agon.lab.sweep import progress
    from agon.reports.tables import print_rich

    rows = progress.rows_of(folder)
    if as_json:
        say(json.dumps(progress.as_json(rows), indent=2))
        return
    print_rich(progress.status_table(rows, f"{folder.folder}"))


def _announce(made: "Plan", as_json: bool) -> None:
    """What is about to run: the cells, their budgets, and where these differ."""
    from agon.lab.sweep.parity import parity_table
    from agon.reports.tables import print_rich

    left = len(made.unfinished())
    if not as_json:
        say(
            f"{len(made.cells)} cells in {made.folder.folder}, {left} of them to do, on {made.on}", flush=True
        )
        print_rich(parity_table(made.budgets))
    for warning in made.warnings:
        say(f"agon: warning: {warning}", file=sys.stderr)


def _show_commands(made: "Plan", as_json: bool) -> None:
    jobs = made.jobs()
    if as_json:
        cells = {job.cell.name: {stage: list(words) for stage, words in job.stages} for job in jobs}
        say(json.dumps(cells, indent=2))
        return
    for job in jobs:
        for _, words in job.stages:
            say(shlex.join(["agon", *words]))


def _refuse_folder(target: str | None) -> None:
    if target is not None and Path(os.path.expanduser(target)).is_dir():
        raise InputError(
            f"'{target}' is a folder: give the sweep file or recipe that it was made from, or --status {target}."
        )


@contextmanager
def _sigterm() -> Iterator[list[int]]:
    """Take SIGTERM for a Ctrl-C, and remember that it was one."""
    seen: list[int] = []

    def handle(signum: int, frame: FrameType | None) -> None:
        seen.append(signum)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGTERM, before)
