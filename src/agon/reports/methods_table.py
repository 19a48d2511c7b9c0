"""Every arm of several evaluated runs in one table, and each run against the untrained base."""

from collections.abc import Mapping, Sequence
from typing import Any

from agon.evaluate.arms import CONTROLS
from agon.evaluate.compare import Entrant, refuse_unlike
from agon.evaluate.intervals import contrast
from agon.reports.evaluation_tables import LEGEND, RATES
from agon.reports.tables import Table, interval, number, p_value, percent, points

CONTROL_NAMES = tuple(arm.name for arm in CONTROLS)


def methods_table(entrants: Sequence[Entrant], base: Entrant | None = None) -> Table:
    """Every arm of every run, below the controls over the untrained base: those of `base`, else of the first run."""
    refuse_unlike([*([base] if base else []), *entrants])
    first = (base or entrants[0]).result
    rows = [
        _arm(f"{name} (base)", "", figures)
        for name, figures in first["arms"].items()
        if base is not None or name in CONTROL_NAMES
    ]
    for entrant in entrants:
        arms = {
            name: figures for name, figures in entrant.result["arms"].items() if name not in CONTROL_NAMES
        }
        rows.append(_arm(f"**{entrant.name}**", entrant.arm, arms.pop(entrant.arm)))
        rows += [_arm("", name, figures) for name, figures in arms.items()]
    title = (
        f"{first['task']} {first['split']}: {first['n']} problems, samples per problem: {first['samples']}"
    )
    head = ("run", "arm", "pass@1", "95% interval", "length", "tokens", *(title for title, _ in RATES))
    return Table(
        title, head, tuple(rows), ("The first row of a run is its headline, chosen on validation.", LEGEND)
    )


def _arm(label: str, arm: str, figures: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        label,
        arm,
        percent(figures["pass@1"]),
        interval(figures["ci95"]),
        number(figures["final_length"]),
        number(figures["tokens"]["total"]),
        *(percent(figures.get(name)) for _, name in RATES),
    )


def against_zero_shot(trained: Entrant, zero_shot: Entrant) -> str:
    """A run's headline against the untrained base on the same problems, in one line."""
    found = contrast(trained.correct, zero_shot.correct)
    return (
        f"{trained.name} {trained.arm} - zero-shot: {points(found.difference)} points {interval(found.interval)}, "
        f"right only in the run/only in zero-shot: {found.only_first}/{found.only_second}, "
        f"{found.test} p {_equals(found.p)}"
    )


def _equals(p: float) -> str:
    return f"= {p:.1e}" if p >= 1e-300 else p_value(p)
