"""Duels to quote, from evaluations whose texts were kept: conversions, corruptions and copied errors.

The samples name their problems; the problem's text and its gold answer come from the task.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agon.errors import InputError
from agon.evaluate.draft_effects import Exchange, exchanges, same_answers
from agon.game.problem import Problem
from agon.game.transition import transition
from agon.judges.pool import JudgePool
from agon.own_parts import is_part
from agon.runs.evaluations import EvaluationFolder
from agon.runs.records import Record
from agon.tasks import Task, load_task

KINDS = ("conversion", "corruption", "copied error")


@dataclass(frozen=True)
class Quote:
    """One exchange with its problem, and what it is an example of."""

    kind: str
    where: str
    problem: Problem
    exchange: Exchange

    @property
    def length(self) -> int:
        return sum(map(len, (self.problem.prompt, self.exchange.draft.text, self.exchange.final.text)))


@dataclass(frozen=True)
class Source:
    """An evaluation with its texts and its problems."""

    name: str
    dialect: str
    problems: Mapping[str, Problem]
    played: Mapping[str, Sequence[Exchange]]


def sources(record: Record, path: str | None = None) -> list[Source]:
    """The test evaluations of a run; their problems come from `path`, or from where the run read its own."""
    found = [_source(record, task, each, path) for task, each in record.evaluations("test").items()]
    if not found:
        raise InputError(f"'{record.name}' has no test evaluation to quote from: run `agon eval` first.")
    return found


def quotes(found: Sequence[Source], count: int, pool: JudgePool) -> list[Quote]:
    """The shortest well-formed examples of each kind and evaluation, no two of one problem; `pool` judges math."""
    chosen = []
    for source in found:
        examples = list(_examples(source, pool))
        for kind in KINDS:
            chosen += _shortest([quote for quote in examples if quote.kind == kind], count)
    return chosen


def _source(record: Record, task: str, evaluation: EvaluationFolder, path: str | None) -> Source:
    file = evaluation.sample_file()
    if file.packed:
        raise InputError(f"{file.packed} holds no texts to quote: give the whole run.")
    result, dialect = evaluation.read_result(), evaluation.read_settings()["dialect"]
    problems = {problem.id: problem for problem in _task(record, task, path).problems("test")}
    if not problems.keys() >= set(result["problems"]):
        raise InputError(
            f"The test problems of '{task}' are not those of '{record.name}': give their --path."
        )
    return Source(f"{record.name}, {task} test", dialect, problems, exchanges(result, file.samples))


def _task(record: Record, name: str, path: str | None) -> Task:
    own = record.task if name == record.task.get("name") else {}
    where = path or record.task.get("path")
    if is_part(str(own.get("spec") or name)):
        raise InputError(
            f"The task '{name}' of '{record.name}' is code, which a report does not run: quote its training."
        )
    try:
        return load_task(str(own.get("spec") or name), path=where, seed=int(own.get("seed", 0)))
    except InputError as error:
        raise InputError(
            f"The problems of '{name}' cannot be loaded ({error}) Give a local copy with --path."
        ) from error


def _examples(source: Source, pool: JudgePool) -> Iterator[Quote]:
    for direction, played in source.played.items():
        formed = [each for each in played if each.draft.well_formed and each.final.well_formed]
        same = same_answers([(each.draft, each.final) for each in formed], source.dialect, pool)
        for each, copied in zip(formed, same, strict=True):
            kind = _kind(each, copied)
            if kind:
                where = f"{source.name}: {direction}, {each.problem}, sample {each.number}"
                yield Quote(kind, where, source.problems[each.problem], each)


def _kind(exchange: Exchange, copied: bool) -> str | None:
    ended = transition(exchange.draft.correct, exchange.final.correct)
    if ended == "both wrong":
        return "copied error" if copied else None
    return {"converted": "conversion", "corrupted": "corruption"}.get(ended)


def _shortest(examples: Sequence[Quote], count: int) -> list[Quote]:
    longest_first = sorted(examples, key=lambda quote: quote.length, reverse=True)
    per_problem = {
        quote.problem.id: quote for quote in longest_first
    }  # a shorter quote replaces a longer one
    return sorted(per_problem.values(), key=lambda quote: quote.length)[:count]
