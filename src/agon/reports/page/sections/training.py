"""Training step by step, with bands over seeds, and the accuracy on held-out problems during it."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from agon.game.methods import METHODS
from agon.reports.page.colours import colour_of
from agon.reports.page.material import Group, Material
from agon.reports.page.model import Beside, Block, Chart, Heading, Point, Section, Series, Text
from agon.reports.page.paper import OVER_TRAINING, PROBLEMS, SETTING
from agon.runs.records import Record

Span = tuple[float, float, float]
WINDOW = 4  # roles swap every step: an even window holds both policies in both roles
NOTE = f"Mean over {WINDOW} steps and over seeds; a band reaches from the lowest seed to the highest."


def training_section(material: Material) -> Section | None:
    """Accuracy, length, conversions and corruptions of every group that was trained."""
    blocks: list[Block] = []
    for group in material.groups:
        charts = [one for one in curves(group.begun) if one.series]
        if charts:
            if len(material.groups) > 1:
                blocks.append(Heading(group.label))
            blocks.append(Beside(tuple(charts)))
    return Section("Training", "training", tuple(blocks)) if blocks else None


def curves(records: Sequence[Record]) -> list[Chart]:
    """The curves of these runs; runs of one method are seeds of it."""
    panels = (
        ("Right in training", "% of rollouts", list(_streams(records, "correct", 100))),
        ("Length in training", "tokens of a completion", list(_streams(records, "length"))),
        ("Conversions and corruptions in training", "% of duels", list(_duels(records))),
    )
    return [
        Chart(title, "optimizer step", unit, tuple(lines), NOTE, from_zero=True)
        for title, unit, lines in panels
    ]


def moving_mean(values: Sequence[float], window: int = WINDOW) -> list[tuple[float, float]]:
    """The mean of the last `window` values, from the first step that has as many, steps counted from 1.

    >>> moving_mean([1, 3, 5, 7], window=2)
    [(2.0, 2.0), (3.0, 4.0), (4.0, 6.0)]
    """
    ends = range(window, len(values) + 1)
    return [(float(end), fmean(values[end - window : end])) for end in ends]


def _streams(records: Sequence[Record], metric: str, scale: float = 1) -> Iterator[Series]:
    """Solid lines for challenges, or for the drafts of a method without any; dashed ones for drafts that are read."""
    for method, runs in by_method(records).items():
        if challenges(method):
            yield from _line(runs, f"challenge/{metric}", scale, f"{method}, challenges")
            yield from _line(runs, f"draft/{metric}", scale, f"{method}, drafts", dashed=True)
        else:
            yield from _line(runs, f"draft/{metric}", scale, method)


def _duels(records: Sequence[Record]) -> Iterator[Series]:
    for method, runs in by_method(records).items():
        if challenges(method):
            yield from _line(runs, "duel/converted", 100, f"{method}, converted")
            yield from _line(runs, "duel/corrupted", 100, f"{method}, corrupted", dashed=True)


def _line(
    runs: Sequence[Record], metric: str, scale: float, label: str, dashed: bool = False
) -> Iterator[Series]:
    """The mean over seeds, up to the shortest of them, and how far they lie apart."""
    seeds = [[scale * step[metric] for step in run.steps if metric in step] for run in runs]
    window = min(WINDOW, *map(len, seeds))
    if not window:
        return
    smooth = [dict(moving_mean(values, window)) for values in seeds]
    points, band = _over_seeds(smooth)
    yield Series(label, colour_of(runs[0].method), points, dashed=dashed, band=band)


def _over_seeds(seeds: Sequence[dict[float, float]]) -> tuple[tuple[Point, ...], tuple[Span, ...]]:
    """The mean wherever all seeds have a value, and the lowest and the highest of several."""
    shared = sorted(set.intersection(*map(set, seeds)))
    points = tuple((at, fmean(one[at] for one in seeds)) for at in shared)
    band = tuple((at, min(one[at] for one in seeds), max(one[at] for one in seeds)) for at in shared)
    return points, band if len(seeds) > 1 else ()


def held_out_section(material: Material) -> Section:
    """Accuracy on held-out problems after so many training problems, the paper's beside it."""
    blocks: list[Block] = []
    drawn = False
    for group in material.groups:
        lines = tuple(_held_out(group))
        if lines:
            title = "Ours, on validation" + (f": {group.label}" if len(material.groups) > 1 else "")
            chart = Chart(
                title, "training problems", "% right", lines, "The better direction or policy at each."
            )
            blocks.append(Beside((chart, *([] if drawn else [paper_chart()]))))
            drawn = True
    if not drawn:
        blocks.append(
            Text(
                "No run was evaluated on held-out problems while it trained. `agon train --eval_strategy steps` does "
                "that, and `agon best RUN` for the checkpoints that were kept."
            )
        )
    return Section("Over training", "over-training", tuple(blocks))


def _held_out(group: Group) -> Iterator[Series]:
    for method, runs in by_method(group.begun).items():
        seeds = [dict(measured) for run in runs if (measured := held_out(run))]
        points, band = _over_seeds(seeds) if seeds else ((), ())
        if points:
            yield Series(method, colour_of(method), points, band=band)
            yield Series("", colour_of(method), points, "dot")


def held_out(record: Record) -> list[tuple[float, float]]:
    """Training problems processed and percent right, for every validation of a run and every checkpoint compared."""
    each = record.rollouts / max(1, len(record.steps)) / int(record.config["num_generations"])
    found = {
        int(line["step"]): float(line["eval_headline"])
        for line in record.run.read_metrics()
        if "eval_headline" in line
    }
    if not found:
        found = {
            int(row["step"]): float(row["headline"]) for row in record.run.read_best().get("checkpoints", [])
        }
    return [(step * each, 100 * rate) for step, rate in sorted(found.items())]


def paper_chart() -> Chart:
    lines = tuple(
        Series(name, colour_of(name), tuple(zip(map(float, PROBLEMS), values, strict=True)))
        for name, values in OVER_TRAINING.items()
    )
    note = (
        f"fig:results (b): {SETTING}, 300 problems, one run and one sample each, about 5.5 points either way."
    )
    return Chart("The paper's", "training problems", "% right", lines, note)


def by_method(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        if record.steps:
            found.setdefault(record.method, []).append(record)
    return found


def challenges(method: str) -> bool:
    """A method of one's own is not loaded: it is taken to have challenges, and lines that it lacks are left out."""
    return method not in METHODS or METHODS[method].challenges
