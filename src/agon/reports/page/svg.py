"""Charts and flows as SVG: inside a page they take its colours, as a file they bring light ones along.

The same numbers give the same bytes on any machine. A chart is drawn for the width of a phone, and two of them stand
beside each other on a wide screen, so that its letters are never smaller than the page's notes.
"""

from collections.abc import Iterator, Sequence
from html import escape

from agon.printing import one_line
from agon.reports.page.axes import Axis, axes, written
from agon.reports.page.colours import BAD, COLOURS, GOOD
from agon.reports.page.model import Chart, Flow, Series

WIDTH, HEIGHT = 400, 270
LEFT, RIGHT, TOP, BOTTOM = 46, 22, 14, 44
LETTER = 7.2  # about the width of a character of 12 pixels, in the wider of the fonts that systems have
LIGHT = {"ink": "#1d232b", "grey": "#5b6470", "rule": "#e3e6ea", "good": GOOD[0], "bad": BAD[0]}


def chart_svg(chart: Chart) -> str:
    """A chart for a page, whose legend stands below it in the page's own words."""
    return _svg(chart.title, WIDTH, HEIGHT, _chart(chart))


def flow_svg(flow: Flow) -> str:
    return _svg(flow.title, FLOW_WIDTH, FLOW_HEIGHT, _flow(flow))


def svg_file(picture: Chart | Flow) -> str:
    """A picture as a file of its own, with title and legend, on white."""
    if isinstance(picture, Flow):
        parts, width, height = list(_flow(picture)), FLOW_WIDTH, FLOW_HEIGHT
        below: list[str] = []
    else:
        parts, width, height = list(_chart(picture)), WIDTH, HEIGHT
        below = list(_legend(picture.series, HEIGHT + 18))
    tall = height + 34 + 18 * len(legend_rows(picture)) + (8 if below else 0)
    title = f'<text class="title" x="16" y="22">{_words(picture.title)}</text>'
    inner = f'<g transform="translate(0 34)">{"".join([*parts, *below])}</g>'
    return _svg(picture.title, width, tall, [_style(), f'<rect width="{width}" height="{tall}" fill="#fff"/>',
                                             title, inner]) + "\n"  # fmt: skip


def legend_rows(picture: Chart | Flow) -> list[list[Series]]:
    """The named series of a chart, as many in a row as fit."""
    if isinstance(picture, Flow):
        return []
    rows: list[list[Series]] = []
    used = float(WIDTH)
    for one in (one for one in picture.series if one.label and not one.named):
        wide = 34 + LETTER * len(one.label)
        if used + wide > WIDTH - 16:
            rows.append([])
            used = 16.0
        rows[-1].append(one)
        used += wide
    return rows


def _svg(title: str, width: float, height: float, parts: Sequence[str] | Iterator[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img"'
        f' aria-label="{_words(title)}" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="12">'
    )
    return head + "".join(parts) + "</svg>"


def _style() -> str:
    """The colours of a page on light paper; a file has no page to take them from."""
    names = {**{name: light for name, (light, _) in COLOURS.items()}, **LIGHT}
    rules = [f".f-{name}{{fill:{value}}}.s-{name}{{stroke:{value}}}" for name, value in names.items()]
    return f"<style>{''.join(rules)}.title{{font-size:14px;font-weight:600;fill:{LIGHT['ink']}}}</style>"


def _chart(chart: Chart) -> Iterator[str]:
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
    x, y = axes(chart, LEFT, right, TOP + 16, floor)
    yield _text(4, 12, chart.y_label, "start", "grey")
    for tick in y.ticks:
        yield _line(LEFT, y.at(tick), right, y.at(tick), "rule")
        yield _text(LEFT - 6, y.at(tick) + 4, written(tick), "end", "grey")
    for tick in x.ticks:
        yield _line(x.at(tick), floor, x.at(tick), floor + 4, "grey")
        yield _text(x.at(tick), floor + 17, written(tick), "middle", "grey")
    yield _line(LEFT, floor, right, floor, "grey")
    yield _text((LEFT + right) / 2, HEIGHT - 8, chart.x_label, "middle", "grey")
    for one in chart.series:
        yield from _band(one, x, y)
    for one in chart.series:
        yield from _points(one, x, y)
    yield from _names(chart.series, x, y)


def _band(one: Series, x: Axis, y: Axis) -> Iterator[str]:
    if one.band:
        there = [f"{x.at(at):.1f},{y.at(high):.1f}" for at, _, high in one.band]
        back = [f"{x.at(at):.1f},{y.at(low):.1f}" for at, low, _ in reversed(one.band)]
        yield f'<polygon class="f-{one.colour}" opacity="0.16" points="{" ".join(there + back)}"/>'


def _points(one: Series, x: Axis, y: Axis) -> Iterator[str]:
    for at, low, high in one.spans:
        reach = f"M{x.at(at):.1f} {y.at(low):.1f}V{y.at(high):.1f}"
        yield f'<path class="s-{one.colour}" opacity="0.4" stroke-width="1.5" d="{reach}"/>'
    if one.mark == "line":
        dashes = ' stroke-dasharray="5 4"' if one.dashed else ""
        points = " ".join(f"{x.at(at):.1f},{y.at(value):.1f}" for at, value in one.points)
        yield (
            f'<polyline class="s-{one.colour}" fill="none" stroke-width="2" stroke-linejoin="round"{dashes}'
            f' points="{points}"/>'
        )
        return
    for at, value in one.points:
        yield mark(one, x.at(at), y.at(value))


def mark(one: Series, x: float, y: float) -> str:
    """The sign of a series at a place."""
    if one.mark == "dot":
        return f'<circle class="f-{one.colour}" cx="{x:.1f}" cy="{y:.1f}" r="4.6"/>'
    shapes = {
        "square": "M-4-4h8v8h-8z",
        "triangle": "M0-5.2L5 4H-5z",
        "diamond": "M0-5.4L5.4 0 0 5.4-5.4 0z",
        "line": "M-11 0h22",
    }
    drawn = f'class="f-{one.colour}"' if one.mark != "line" else f'class="s-{one.colour}" stroke-width="2.4"'
    dashes = ' stroke-dasharray="5 4"' if one.dashed else ""
    return f'<path {drawn}{dashes} transform="translate({x:.1f} {y:.1f})" d="{shapes[one.mark]}"/>'


def _names(series: Sequence[Series], x: Axis, y: Axis) -> Iterator[str]:
    """The names beside marks, each at the first of its sides where nothing stands yet."""
    taken = [
        (x.at(at) - 6, y.at(value) - 6, x.at(at) + 6, y.at(value) + 6)
        for one in series
        if one.mark != "line"
        for at, value in one.points
    ]
    taken += [
        (x.at(at) - 1, y.at(high), x.at(at) + 1, y.at(low)) for one in series for at, low, high in one.spans
    ]
    for one in series:
        for at, value in one.points if one.named else ():
            wide, left, height = LETTER * len(one.label), x.at(at), y.at(value)
            sides = [
                ("start", left + 9, height + 4), ("end", left - 9, height + 4),
                ("middle", left, height - 10), ("middle", left, height + 19),
                ("start", left + 7, height - 8), ("end", left - 7, height - 8),
                ("start", left + 7, height + 16), ("end", left - 7, height + 16),
                ("middle", left, height - 24), ("middle", left, height + 32),
            ]  # fmt: skip
            boxes = [(_box(place, at_x, at_y, wide), place, at_x, at_y) for place, at_x, at_y in sides]
            inside = [one for one in boxes if one[0][0] >= LEFT and one[0][2] <= WIDTH] or boxes
            box, place, at_x, at_y = min(inside, key=lambda one: _covered(one[0], taken))
            taken.append(box)
            yield _text(at_x, at_y, one.label, place, one.colour)


Box = tuple[float, float, float, float]


def _box(anchor: str, x: float, y: float, wide: float) -> Box:
    left = {"start": x, "middle": x - wide / 2, "end": x - wide}[anchor]
    return left, y - 10, left + wide, y + 3


def _covered(box: Box, taken: Sequence[Box]) -> float:
    """How much of other boxes a box lies on."""
    return sum(
        max(0.0, min(box[2], other[2]) - max(box[0], other[0]))
        * max(0.0, min(box[3], other[3]) - max(box[1], other[1]))
        for other in taken
    )


def _legend(series: Sequence[Series], top: float) -> Iterator[str]:
    for row, members in enumerate(legend_rows(Chart("", "", "", tuple(series)))):
        left = 16.0
        for one in members:
            yield mark(one, left + 11, top + 18 * row)
            yield _text(left + 28, top + 18 * row + 4, one.label, "start", "ink")
            left += 34 + LETTER * len(one.label)


FLOW_WIDTH, FLOW_HEIGHT = 300, 190


def _flow(flow: Flow) -> Iterator[str]:
    """Drafts on the left, finals on the right, right ones above wrong ones; a band is as wide as its share."""
    tall, gap, left, right, top = 120.0, 14.0, 88.0, 212.0, 30.0
    yield _text(left - 8, 16, "draft", "end", "grey")
    yield _text(right + 8, 16, "final", "start", "grey")
    drafts = flow.kept + flow.corrupted
    finals = flow.kept + flow.converted
    lower_left, lower_right = top + tall * drafts + gap, top + tall * finals + gap
    bands = (
        (flow.kept, top, top, "good", 0.34),
        (flow.corrupted, top + tall * flow.kept, lower_right, "bad", 0.62),
        (flow.converted, lower_left, top + tall * flow.kept, "good", 0.78),
        (
            flow.both_wrong,
            lower_left + tall * flow.converted,
            lower_right + tall * flow.corrupted,
            "grey",
            0.26,
        ),
    )
    for share, start, end, colour, opacity in bands:
        wide = tall * share
        middle = (left + right) / 2
        yield (
            f'<path class="f-{colour}" opacity="{opacity}" d="M{left + 5:g} {start:.1f}C{middle:g} {start:.1f} '
            f"{middle:g} {end:.1f} {right - 5:g} {end:.1f}v{wide:.1f}C{middle:g} {end + wide:.1f} "
            f'{middle:g} {start + wide:.1f} {left + 5:g} {start + wide:.1f}z"/>'
        )
    for x, share, low in ((left, drafts, lower_left), (right - 5, finals, lower_right)):
        yield _block(x, top, tall * share, "good")
        yield _block(x, low, tall * (1 - share), "grey")
    for x, share, low, anchor in (
        (left - 8, drafts, lower_left, "end"),
        (right + 8, finals, lower_right, "start"),
    ):
        upper = max(top + tall * share / 2 + 4, top + 6)
        lower = max(low + tall * (1 - share) / 2 + 4, upper + 15)
        yield _text(x, upper, f"right {100 * share:.1f}", anchor, "ink")
        yield _text(x, lower, f"wrong {100 * (1 - share):.1f}", anchor, "ink")
    yield _text(
        (left + right) / 2, FLOW_HEIGHT - 4,
        f"converted {100 * flow.converted:.1f}, corrupted {100 * flow.corrupted:.1f}", "middle", "grey",
    )  # fmt: skip


def _block(x: float, y: float, height: float, colour: str) -> str:
    return f'<rect class="f-{colour}" x="{x:g}" y="{y:.1f}" width="5" height="{max(height, 0.5):.1f}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<path class="s-{colour}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def _text(x: float, y: float, words: str, anchor: str, colour: str) -> str:
    return f'<text class="f-{colour}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_words(words)}</text>'


def _words(words: str) -> str:
    return escape(one_line(words))
