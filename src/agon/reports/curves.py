"""Training curves of several runs: accuracy, length, conversions and corruptions, step by step."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from agon.game.methods import METHODS
from agon.reports.charts import Line, Panel, draw
from agon.runs.records import Record

# The paper's colours for its three main methods; the others in the order of the table of methods.
COLOURS = {"grpo": "#5b6470", "coop": "#a8720a", "agon": "#2f5d9b"}
OTHER_COLOURS = ("#2e7d4f", "#a63d57", "#6b4fa3", "#1f8a8a", "#8a6d3b", "#b3541e", "#7a7a12",
                 "#4d7ea8", "#8c3fa0", "#c0392b")  # fmt: skip
WINDOW = 4  # roles swap every step: an even window holds both policies in both roles
DRAFT, CHALLENGE = "draft", "challenge"


def curves(records: Sequence[Record]) -> str:
    """The picture of these runs as SVG text; runs of one method are seeds of it."""
    panels = (
        Panel("right, % of rollouts", list(_streams(records, "correct", 100))),
        Panel("mean length of a completion, tokens", list(_streams(records, "length"))),
        Panel("duels, % of all", list(_duels(records))),
    )
    caption = f"Mean over {WINDOW} steps and over seeds; thin lines are single seeds."
    return draw(
        "Training, step by step", caption, "optimizer step", [panel for panel in panels if panel.lines]
    )


def colour(method: str) -> str:
    others = [name for name in METHODS if name not in COLOURS]
    return COLOURS.get(method) or OTHER_COLOURS[others.index(method) % len(OTHER_COLOURS)]


def moving_mean(values: Sequence[float], window: int = WINDOW) -> list[tuple[float, float]]:
    """The mean of the last `window` values, from the first step that has as many, steps counted from 1.

    >>> moving_mean([1, 3, 5, 7], window=2)
    [(2.0, 2.0), (3.0, 4.0), (4.0, 6.0)]
    """
    ends = range(window, len(values) + 1)
    return [(float(end), fmean(values[end - window : end])) for end in ends]


def _streams(records: Sequence[Record], metric: str, scale: float = 1) -> Iterable[Line]:
    """Solid lines for challenges, or for the drafts of a method without any; dashed ones for drafts that are read."""
    for method, runs in _by_method(records).items():
        if method not in METHODS or METHODS[method].challenges:
            yield from _lines(runs, f"{CHALLENGE}/{metric}", scale, f"{method}, challenges")
            yield from _lines(runs, f"{DRAFT}/{metric}", scale, f"{method}, drafts", dashed=True)
        else:
            yield from _lines(runs, f"{DRAFT}/{metric}", scale, method)


def _duels(records: Sequence[Record]) -> Iterable[Line]:
    for method, runs in _by_method(records).items():
        if method not in METHODS or METHODS[method].challenges:
            yield from _lines(runs, "duel/converted", 100, f"{method}, converted")
            yield from _lines(runs, "duel/corrupted", 100, f"{method}, corrupted", dashed=True)


def _lines(
    runs: Sequence[Record], metric: str, scale: float, label: str, dashed: bool = False
) -> Iterable[Line]:
    """The mean over seeds, up to the shortest of them, and each seed alone where there are several."""
    seeds = [[scale * step[metric] for step in run.steps] for run in runs]
    stroke = colour(runs[0].method)
    mean = [fmean(values) for values in zip(*seeds, strict=False)]
    yield Line(moving_mean(mean), stroke, label, dashed)
    if len(seeds) > 1:
        yield from (Line(moving_mean(values), stroke, dashed=dashed, thin=True) for values in seeds)


def _by_method(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        if record.steps:
            found.setdefault(record.method, []).append(record)
    return found
