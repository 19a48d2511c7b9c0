"""What finals made of the drafts they read, as a table: converted, corrupted, copied, right or wrong."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agon.evaluate.draft_effects import DraftEffects, draft_effects, exchanges
from agon.judges.pool import JudgePool
from agon.reports.tables import Table, percent
from agon.runs.evaluations import EvaluationFolder
from agon.runs.records import Record

COUNTS = ("both right", "corrupted", "converted", "both wrong", "same error")
SHARES = ("copied right", "alone", "copied wrong", "alone", "conversion rate", "alone")


@dataclass(frozen=True)
class Direction:
    """A run, a direction of it, and what became of its drafts."""

    run: str
    name: str
    effects: DraftEffects
    # Of wrong drafts, the share that the final's policy gets right without reading them.
    solved_alone: float | None


def read_directions(
    record: Record, task: str, pool: JudgePool, read_result: Callable[[EvaluationFolder], Mapping[str, Any]]
) -> Iterator[Direction]:
    """Every direction in which a run was tested on a task, if it was; `pool` judges math."""
    evaluation = record.evaluations("test").get(task)
    if evaluation is None:
        return
    result, dialect = read_result(evaluation), evaluation.read_settings()["dialect"]
    for name, played in exchanges(result, evaluation.read_samples()).items():
        effects = draft_effects(played, dialect, pool)
        yield Direction(record.name, name, effects, result["arms"][name].get("alone_given_wrong_draft"))


def transitions_table(title: str, directions: Sequence[Direction]) -> Table:
    """How drafts and finals ended, and how often a final gave the draft's own answer."""
    return Table(
        title,
        ("run", "direction", *COUNTS, *SHARES),
        tuple(map(_row, directions)),
        (
            "Counts of samples by how draft and final ended: corrupted is right, then wrong; converted is wrong, then "
            "right. same error: of both wrong, those with the draft's own answer.",
            "copied: finals with the draft's answer, in percent of right drafts, and of wrong drafts that gave an "
            "answer. alone: how often the same policy gives that answer without reading the draft.",
            "conversion rate: converted, in percent of wrong drafts. alone: how often the same policy solves those "
            "problems without reading the draft.",
        ),
    )


def _row(direction: Direction) -> tuple[str, ...]:
    effects = direction.effects
    counts = (effects.both_right, effects.corrupted, effects.converted, effects.both_wrong)
    shares = (
        *(effects.copied_right, effects.alone_after_right),
        *(effects.copied_wrong, effects.alone_after_wrong),
        *(effects.conversion_rate, direction.solved_alone),
    )
    return direction.run, direction.name, *map(str, (*counts, effects.repeated)), *map(percent, shares)
