"""What `agon best` prints: one row per checkpoint."""

from collections.abc import Mapping
from typing import Any

from agon.reports.tables import Table, interval, percent


def checkpoint_table(found: Mapping[str, Any]) -> Table:
    """The accuracies of every checkpoint on validation, the best marked."""
    rows = found["checkpoints"]
    arms = [name.removesuffix("/correct") for name in rows[0]["rates"] if name.endswith("/correct")]
    best = next(row for row in rows if row["step"] == found["best"])
    title = (
        f"{found['task']} {found['split']}: {found['n']} problems, samples per problem: {found['samples']}"
    )
    return Table(
        title,
        ("step", "headline", "95% interval", *arms),
        tuple(
            (
                f"{row['step']} *" if row is best else str(row["step"]),
                percent(row["headline"]),
                interval(row["ci95"]),
                *(percent(row["rates"][f"{arm}/correct"]) for arm in arms),
            )
            for row in rows
        ),
        (
            f"* best on validation; {best['checkpoint']}.",
            "In percent. The best of several is flattered by the choice; `agon eval` measures it on the test split.",
        ),
    )
