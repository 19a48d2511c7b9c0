"""What reading the other policy's draft does: a cascade against each of its policies alone, on the same problems."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agon.evaluate.arms import directions
from agon.evaluate.compare import Entrant
from agon.evaluate.intervals import bootstrap_interval, contrast
from agon.reports.tables import Table, interval, p_value, percent, points
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


def cascades(record: Record, arms: Mapping[str, Entrant]) -> list[Cascade]:
    """Every direction of a run, or the self-cascade of a plain model, from the arms of one evaluation."""
    return list(_cascades(record, arms)) if arms else []


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


def _cascades(record: Record, arms: Mapping[str, Entrant]) -> Iterator[Cascade]:
    policies = next(iter(arms.values())).result["policies"]
    if not policies and {"zero-shot", "self-cascade"} <= set(arms):
        base = arms["zero-shot"].correct
        yield Cascade(record.name, record.name, "self-cascade", arms["self-cascade"].correct, base, base)
    for play in directions(policies):
        if play.name in arms:
            alone = arms[play.challenger].correct, arms[play.drafter].correct
            yield Cascade(record.name, record.method, play.name, arms[play.name].correct, *alone)


def _pooled(side: str, members: Sequence[Cascade]) -> Cascade:
    final, reader, drafter = (
        np.concatenate([getattr(one, what) for one in members], axis=1)
        for what in ("final", "reader", "drafter")
    )
    return Cascade(f"**{side}**", side, "all", final, reader, drafter)


def _row(one: Cascade) -> tuple[str, ...]:
    reader = contrast(one.final, one.reader)
    over_drafter = one.final.mean(axis=1) - one.drafter.mean(axis=1)
    return (
        *(one.run, one.direction, percent(one.final.mean())),
        *(
            percent(one.reader.mean()),
            points(reader.difference),
            interval(reader.interval),
            p_value(reader.p),
        ),
        *(percent(one.drafter.mean()), points(float(over_drafter.mean()))),
        interval(bootstrap_interval(over_drafter)),
    )
