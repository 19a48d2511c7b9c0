"""Everything that is reported of a comparison of methods, as files by their names.

    tables.md          controls and runs with every arm, methods over seeds, exchange, training budget, GPU use
    learning-rate.md   runs of grpo that differ in their learning rate
    transitions.md     what finals made of the drafts they read, and how often they copied
    curves.svg         training, step by step

The runs may be whole or lean copies (`agon.runs.lean`). The same runs give the same bytes. A run's note is printed with
its figures, and keeps it out of the table of exchange.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agon.errors import InputError
from agon.evaluate.compare import Entrant, compare, enter
from agon.judges.pool import JudgePool
from agon.reports.curves import curves
from agon.reports.evaluation_tables import compare_tables
from agon.reports.exchange import cascades, exchange_table
from agon.reports.methods_table import against_zero_shot, methods_table
from agon.reports.tables import markdown
from agon.reports.training_tables import budget_table, gpu_table, rates_table, signal_table
from agon.reports.transitions import read_directions, transitions_table
from agon.runs.records import Record, common_rate, differing_in_rate, read_records, tested_on

MADE_BY = "Made by `python scripts/comparison_report.py` from the runs beside it."


PAGES = ("tables.md", "learning-rate.md", "transitions.md", "curves.svg")


def write_report(
    folder: Path, out: Path, rate: float | None = None, wanted: Sequence[str] = PAGES
) -> list[Path]:
    """Write the report of the runs in `folder` into `out`; its files in the order of their names above."""
    pages = report(folder, rate, wanted)
    out.mkdir(parents=True, exist_ok=True)
    for name, content in pages.items():
        (out / name).write_text(content, encoding="utf-8")
    return [out / name for name in pages]


def report(folder: Path, rate: float | None = None, wanted: Sequence[str] = PAGES) -> dict[str, str]:
    """The wanted files by their names. `rate` is the learning rate compared, by default that of most runs."""
    records = read_records(folder)
    runs = [record for record in records if record.trained]
    rate = common_rate(runs) if rate is None else rate
    compared = [record for record in runs if record.rate == rate]
    if not compared:
        raise InputError(f"No run in '{folder}' has the learning rate {rate:g}.")
    # Each is computed when it is asked for; the transitions judge tens of thousands of pairs of answers.
    pages: dict[str, Callable[[], str]] = {
        "tables.md": lambda: _page("Tables", _tables(records, compared)),
        "learning-rate.md": lambda: _page("Learning rate", _learning_rates(runs)),
        "transitions.md": lambda: _page("Transitions", _transitions(records)),
        "curves.svg": lambda: curves(compared),
    }
    return {name: make() for name, make in pages.items() if name in wanted}


def _page(title: str, parts: Iterator[str]) -> str:
    return "\n\n".join(part.strip() for part in (f"# {title}", MADE_BY, *parts)) + "\n"


def _tables(records: Sequence[Record], compared: Sequence[Record]) -> Iterator[str]:
    runs = [record for record in records if record.trained]
    plain = [record for record in records if not record.trained]
    entrants = {task: _entrants(runs, task) for task in tested_on(runs)}
    yield "## Every run and every arm"
    for task, entered in entrants.items():
        base = _entrants(plain, task, "zero-shot")
        yield markdown(methods_table(entered, base[0] if base else None))
        yield "\n".join(against_zero_shot(entrant, zero) for entrant in entered for zero in base[:1])
        yield from _notes(records)
    yield f"## Methods over seeds, at the learning rate {compared[0].rate:g}"
    names = {record.name for record in compared}
    for task, entered in entrants.items():
        yield from _contrasts(task, [entrant for entrant in entered if entrant.name in names])
    yield "## Exchange"
    without_note = [record for record in [*plain, *compared] if not record.note]
    for task in tested_on(records):
        found = [cascade for record in without_note for cascade in cascades(record, task)]
        yield markdown(exchange_table(task, found))
    yield "## Budget"
    yield markdown(budget_table(runs))
    yield markdown(signal_table(compared))
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


def _learning_rates(runs: Sequence[Record]) -> Iterator[str]:
    found = differing_in_rate(runs)
    if not found:
        yield "No two runs differ in their learning rate only."
        return
    own_task = str(found[0].task.get("name", ""))
    entrants = {entrant.name: entrant for entrant in _entrants(found, own_task, split="validation")}
    yield markdown(rates_table([(record, entrants.get(record.name)) for record in found]))
    if len(entrants) > 1:
        yield markdown(compare_tables(compare(list(entrants.values())))[1])


def _transitions(records: Sequence[Record]) -> Iterator[str]:
    tasks = tested_on(records)
    if not tasks:
        yield "Nothing was tested."
        return
    with JudgePool("math") as pool:
        for task in tasks:
            found = [each for record in records for each in read_directions(record, task, pool)]
            yield markdown(transitions_table(f"{task} test", found))
        undecided = pool.counts.timeouts + pool.counts.crashes + pool.counts.errors
    if undecided:
        yield f"{undecided} pairs of wrong answers could not be compared and count as different."
    yield from _notes(records)


def _entrants(
    records: Sequence[Record], task: str, arm: str = "headline", split: str = "test"
) -> list[Entrant]:
    return [enter(str(one.folder), task, split, arm) for one in records if task in one.evaluations(split)]
