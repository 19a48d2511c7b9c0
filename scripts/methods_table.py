"""Every method and control of evaluated runs in one table.

    python scripts/methods_table.py runs/agon runs/coop runs/grpo [--split test]

A run gives its headline arm, the other arms of its policies below it, and, once for all runs, the controls over
the bare base. Runs that `agon compare` would refuse are refused here too.
"""

import argparse
import sys

from agon.errors import InputError
from agon.evaluate.compare import enter, refuse_unlike
from agon.evaluate.statistics import contrast
from agon.evaluate.tables import Table, interval, markdown, percent

CONTROLS = ("zero-shot", "self-cascade", "moa")


def methods_table(runs: list[str], split: str) -> Table:
    entrants = [enter(run, split=split) for run in runs]
    refuse_unlike(entrants)
    first = entrants[0].result
    rows = [row(f"{name} (base)", "", first["arms"][name]) for name in CONTROLS if name in first["arms"]]
    for entrant in entrants:
        arms = {name: figures for name, figures in entrant.result["arms"].items() if name not in CONTROLS}
        rows.append(row(f"**{entrant.name}**", entrant.arm, arms.pop(entrant.arm)))
        rows += [row("", name, figures) for name, figures in arms.items()]
    title = (
        f"{first['task']} {first['split']}: {first['n']} problems, samples per problem: {first['samples']}"
    )
    head = ("run", "arm", "pass@1", "95% interval", "length", "tokens", "conv.", "corr.", "trunc.", "malf.")
    return Table(
        title, head, tuple(rows), ("The first line of a run is its headline, chosen on validation.",)
    )


def row(label: str, arm: str, figures: dict) -> tuple[str, ...]:
    return (
        label,
        arm,
        percent(figures["pass@1"]),
        interval(figures["ci95"]),
        f"{figures['final_length']:.0f}",
        f"{figures['tokens']['total']:.0f}",
        *(percent(figures.get(name)) for name in ("converted", "corrupted", "truncated", "malformed")),
    )


def against_zero_shot(run: str, split: str) -> str:
    """A run's headline against the bare base on the same problems."""
    trained, base = enter(run, split=split), enter(run, split=split, arm="zero-shot")
    found = contrast(trained.correct, base.correct)
    low, high = found.interval
    return (
        f"- {trained.name} {trained.arm} - zero-shot: {100 * found.difference:+.1f} points "
        f"[{100 * low:.1f}, {100 * high:.1f}], only the one or the other right: {found.only_first}/"
        f"{found.only_second}, exact McNemar p = {found.p:.1e}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--split", default="test")
    arguments = parser.parse_args()
    try:
        print(markdown(methods_table(arguments.runs, arguments.split)))
        print("\n" + "\n".join(against_zero_shot(run, arguments.split) for run in arguments.runs))
    except InputError as error:
        sys.exit(f"{parser.prog}: {error}")
