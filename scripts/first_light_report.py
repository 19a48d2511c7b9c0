"""Everything that is reported of a comparison of methods, from the runs that `scripts/gpu/cells.py` made.

    python scripts/first_light_report.py RUNS --out DIR
    python scripts/first_light_report.py --duels runs/coop-s0-lr3e-4 runs/agon-s0-lr3e-4 --path data

RUNS is a folder of runs, whole or lean (`scripts/lean_outcomes.py`), and of plain models' evaluations. DIR gets

    tables.md          controls and runs with every arm, methods over seeds, budgets, use of the GPU
    learning-rate.md   runs of grpo that differ in their learning rate
    transitions.md     what finals did with the drafts they read, and how often they copied
    curves.svg         training, step by step

The same runs give the same bytes. The comparison is of the runs at one learning rate, that of most runs unless --rate
says which. A run's note.txt is printed with its figures, and keeps it out of the table of exchange. `--duels` prints
duels to quote from, of whole runs: lean ones have no texts.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from agon.errors import InputError
from agon.evaluate.compare import Entrant, compare, enter
from agon.evaluate.samples import SampleFile
from agon.evaluate.tables import compare_tables, markdown
from agon.evaluate.transitions import exchanges, transitions
from agon.judges.pool import JudgePool
from agon.lab.curves import curves
from agon.lab.exchange import cascades, exchange_table
from agon.lab.quotes import markdown as quoted
from agon.lab.quotes import quotes, sources
from agon.lab.records import Record, common_rate, differing_in_rate, read_record, read_records, tested_on
from agon.lab.tables import (
    Crossing,
    against_zero_shot,
    budget_table,
    gpu_table,
    methods_table,
    rates_table,
    signal_table,
    transitions_table,
)

MADE = "Made by `python scripts/first_light_report.py` from the runs beside it."


def report(folder: Path, rate: float | None = None) -> dict[str, str]:
    """Every file of the report by its name."""
    records = read_records(folder)
    runs = [record for record in records if record.trained]
    rate = common_rate(runs) if rate is None else rate
    chosen = [record for record in runs if record.rate == rate]
    if not chosen:
        raise InputError(f"No run in '{folder}' has the learning rate {rate:g}.")
    pages = {
        "tables.md": ["# Tables", MADE, *_tables(records, chosen)],
        "learning-rate.md": ["# Learning rate", MADE, *_rates(runs)],
        "transitions.md": ["# Transitions", MADE, *_transitions(records)],
    }
    return {
        **{name: "\n\n".join(part.strip() for part in parts) + "\n" for name, parts in pages.items()},
        "curves.svg": curves(chosen),
    }


def _tables(records: Sequence[Record], chosen: Sequence[Record]) -> Iterator[str]:
    runs = [record for record in records if record.trained]
    plain = [record for record in records if not record.trained]
    exchanging = [record for record in [*plain, *chosen] if not record.note]
    yield "## Every run and every arm"
    for task in tested_on(records):
        base = _entrants(plain, task, "zero-shot")
        entrants = _entrants(runs, task)
        if entrants:
            yield markdown(methods_table(entrants, base[0] if base else None))
            yield "\n".join(against_zero_shot(entrant, zero) for entrant in entrants for zero in base[:1])
            yield from _notes(records)
    yield f"## Methods over seeds, at the learning rate {chosen[0].rate:g}"
    for task in tested_on(runs):
        yield from _contrasts(task, _entrants(chosen, task))
    yield "## Exchange"
    for task in tested_on(records):
        yield markdown(exchange_table(task, [one for record in exchanging for one in cascades(record, task)]))
    yield "## Budget"
    yield markdown(budget_table(runs))
    yield markdown(signal_table(chosen))
    yield "## GPU"
    yield markdown(gpu_table(records))


def _notes(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        if record.note:
            yield f"- {record.name}: {record.note}"


def _contrasts(task: str, entrants: Sequence[Entrant]) -> Iterator[str]:
    """Later rows of the table of methods against earlier ones: coop:grpo, agon:grpo, agon:coop."""
    methods = list(dict.fromkeys(entrant.method for entrant in entrants))
    asked = [(one, other) for place, one in enumerate(methods) for other in methods[:place]]
    if not asked:
        yield f"{task}: there are no two methods to contrast, only {methods[0] if methods else 'other rates'}."
        return
    yield from map(markdown, compare_tables(compare(entrants, asked)))


def _rates(runs: Sequence[Record]) -> Iterator[str]:
    found = differing_in_rate(runs)
    if not found:
        yield "No two runs differ in their learning rate only."
        return
    own = str(found[0].task.get("name", ""))
    entered = {entrant.name: entrant for entrant in _entrants(found, own, split="validation")}
    yield markdown(rates_table([(record, entered.get(record.name)) for record in found]))
    if len(entered) > 1:
        yield markdown(compare_tables(compare(list(entered.values())))[1])


def _transitions(records: Sequence[Record]) -> Iterator[str]:
    tasks = tested_on(records)
    if not tasks:
        yield "Nothing was tested."
        return
    with JudgePool("math") as pool:
        for task in tasks:
            folders = {record.name: record.evaluations("test").get(task) for record in records}
            crossings = [
                crossing
                for name, folder in folders.items()
                if folder
                for crossing in _crossings(name, folder, pool)
            ]
            yield markdown(transitions_table(f"{task} test", crossings))
        undecided = pool.counts.timeouts + pool.counts.crashes + pool.counts.errors
    if undecided:
        yield f"{undecided} pairs of wrong answers could not be compared and count as different."
    yield from _notes(records)


def _crossings(run: str, folder: Path, pool: JudgePool) -> Iterator[Crossing]:
    result, settings = (json.loads((folder / f"{name}.json").read_text()) for name in ("result", "settings"))
    for direction, played in exchanges(result, SampleFile(folder / "samples.jsonl").samples).items():
        counts = transitions(played, settings["dialect"], pool)
        yield Crossing(run, direction, counts, result["arms"][direction].get("alone_given_wrong_draft"))


def _entrants(
    records: Sequence[Record], task: str, arm: str = "headline", split: str = "test"
) -> list[Entrant]:
    return [enter(str(one.folder), task, split, arm) for one in records if task in one.evaluations(split)]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", metavar="RUNS", nargs="?", type=Path, help="folder of runs")
    parser.add_argument("--out", metavar="DIR", type=Path, help="where the report is written")
    parser.add_argument(
        "--rate", type=float, help="learning rate of the comparison; that of most runs otherwise"
    )
    parser.add_argument(
        "--duels", metavar="RUN", nargs="+", type=Path, help="print duels of these whole runs"
    )
    parser.add_argument("--path", help="with --duels: local copy of the benchmarks, the run's own otherwise")
    parser.add_argument(
        "--count", type=int, default=3, help="with --duels: examples of each kind (default 3)"
    )
    arguments = parser.parse_args(words)
    if not arguments.duels and not (arguments.runs and arguments.out):
        parser.error("give RUNS and --out DIR, or --duels RUN...")
    try:
        if arguments.duels:
            found = {run.resolve().name: sources(read_record(run), arguments.path) for run in arguments.duels}
            with JudgePool("math") as pool:
                for name, evaluations in found.items():
                    print(f"# {name}\n\n{quoted(quotes(evaluations, arguments.count, pool))}")
            return 0
        pages = report(arguments.runs, arguments.rate)
        arguments.out.mkdir(parents=True, exist_ok=True)
        for name, content in pages.items():
            (arguments.out / name).write_text(content, encoding="utf-8")
            print(arguments.out / name)
    except InputError as error:
        print(f"first_light_report: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
