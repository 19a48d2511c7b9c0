"""What reading the other policy's draft does: a cascade against each of its policies alone, on the same problems."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from agon.evaluate.arms import arms_for, directions
from agon.evaluate.intervals import contrast
from agon.evaluate.metrics import correctness, grid
from agon.reports.tables import Table, interval, p_value, percent, points
from agon.runs.evaluations import EvaluationFolder
from agon.runs.records import Record

HEAD = (
    *("run", "direction", "final", "reader alone", "final - reader", "95% interval", "p"),
    *("drafter alone", "final - drafter", "95% interval"),
)


@dataclass(frozen=True)
class Cascade:
    """The answers of one direction, `correct[problem, sample]`, and those of its policies without a cascade."""

    run: str
    side: str
    direction: str
    final: np.ndarray
    reader: np.ndarray
    drafter: np.ndarray


def cascades(record: Record, task: str) -> list[Cascade]:
    """Every direction of a run, or the self-cascade of a plain model; none if it was not tested on the task."""
    evaluation = record.evaluations("test").get(task)
    return list(_cascades(record, evaluation)) if evaluation else []


def exchange_table(task: str, found: Sequence[Cascade]) -> Table:
    """One row for each direction, and one for all directions of a method's runs together."""
    rows = [_row(one) for one in found]
    for side in dict.fromkeys(one.side for one in found):
        members = [one for one in found if one.side == side]
        if len(members) > 1:
            rows.append(_row(_pooled(side, members)))
    return Table(
        f"{task} test",
        HEAD,
        tuple(rows),
        (
            "In percent. final: the answer after reading the draft; reader, drafter: the policies that write the "
            "final and the draft, each answering alone (the same figure for a policy that reads itself).",
            "Intervals: bootstrap over problems. p: sign flips by problem, or exact McNemar with one sample each; not "
            "corrected for the number of contrasts. all: samples of all directions and seeds pooled; each policy of a "
            "pair is reader once and drafter once.",
        ),
    )


def _cascades(record: Record, evaluation: EvaluationFolder) -> Iterator[Cascade]:
    result, samples = evaluation.read_result(), evaluation.read_samples()
    arms = {arm.name: arm for arm in arms_for(result["policies"], result["directions"])}

    @cache
    def correct(arm: str) -> np.ndarray:
        return correctness(grid(arms[arm], result["problems"], result["samples"], samples))

    if not result["policies"]:
        base = correct("zero-shot")
        yield Cascade(record.name, record.name, "self-cascade", correct("self-cascade"), base, base)
    for play in directions(result["policies"]):
        if play.name in result["arms"]:
            alone = correct(play.challenger), correct(play.drafter)
            yield Cascade(record.name, record.method, play.name, correct(play.name), *alone)


def _pooled(side: str, members: Sequence[Cascade]) -> Cascade:
    final, reader, drafter = (
        np.concatenate([getattr(one, what) for one in members], axis=1)
        for what in ("final", "reader", "drafter")
    )
    return Cascade(f"**{side}**", side, "all", final, reader, drafter)


def _row(one: Cascade) -> tuple[str, ...]:
    reader, drafter = contrast(one.final, one.reader), contrast(one.final, one.drafter)
    return (
        *(one.run, one.direction, percent(one.final.mean())),
        *(
            percent(one.reader.mean()),
            points(reader.difference),
            interval(reader.interval),
            p_value(reader.p),
        ),
        *(percent(one.drafter.mean()), points(drafter.difference), interval(drafter.interval)),
    )
