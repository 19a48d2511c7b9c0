"""Line charts as plain SVG: panels below each other, each with axes, ticks and a legend.

The same numbers give the same bytes on any machine, so a committed picture can be checked against its script. The
white background makes it readable on light and dark pages alike.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from agon.printing import one_line

WIDTH, PANEL, GAP = 960, 240, 62
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 64, 56
INK, GREY, RULE = "#1d232b", "#5b6470", "#e3e6ea"


@dataclass(frozen=True)
class Line:
    """A line through points. One without a label has no entry in the legend."""

    points: Sequence[tuple[float, float]]
    colour: str
    label: str = ""
    dashed: bool = False
    thin: bool = False


@dataclass(frozen=True)
class Panel:
    """Lines over one pair of axes; the vertical axis begins at zero."""

    title: str
    lines: Sequence[Line]


def draw(title: str, caption: str, x_label: str, panels: Sequence[Panel]) -> str:
    """The panels as SVG text; `x_label` names the horizontal axis, which they share."""
    height = TOP + len(panels) * (PANEL + GAP) - GAP + BOTTOM
    longest = max((x for panel in panels for line in panel.lines for x, _ in line.points), default=1.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{escape(one_line(title))}" font-family="Helvetica, Arial, sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" rx="14" fill="#ffffff"/>',
        _text(LEFT, 28, title, 17, INK, "start", "600"),
    ]
    for position, panel in enumerate(panels):
        parts += _panel(panel, TOP + position * (PANEL + GAP), longest)
    right = WIDTH - RIGHT
    parts += [
        _text((LEFT + right) / 2, height - BOTTOM + 36, x_label),
        _text(WIDTH - 20, height - 14, caption, 11, GREY, "end"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def ticks(highest: float, wanted: int = 5) -> list[float]:
    """Round numbers from zero up to the first that is not below `highest`, about `wanted` of them.

    >>> ticks(0.43), ticks(32)
    ([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], [0.0, 10.0, 20.0, 30.0, 40.0])
    """
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    count = math.ceil(highest / step - 1e-9)
    return [round(step * index, 10) for index in range(count + 1)]


def _panel(panel: Panel, top: float, longest: float) -> list[str]:
    right, floor = WIDTH - RIGHT, top + PANEL
    y_ticks = ticks(max((y for line in panel.lines for _, y in line.points), default=1.0))
    x_ticks = [tick for tick in ticks(longest) if tick <= longest]

    def x(value: float) -> float:
        return LEFT + (right - LEFT) * value / longest

    def y(value: float) -> float:
        return floor - PANEL * value / y_ticks[-1]

    parts = [_text(LEFT, top - 10, panel.title, 13, INK, "start", "600")]
    for tick in y_ticks:
        parts.append(_rule(LEFT, y(tick), right, y(tick), RULE))
        parts.append(_text(LEFT - 8, y(tick) + 4, f"{tick:g}", 12, GREY, "end"))
    for tick in x_ticks:
        parts.append(_rule(x(tick), floor, x(tick), floor + 5, GREY))
        parts.append(_text(x(tick), floor + 19, f"{tick:g}"))
    parts.append(_rule(LEFT, floor, right, floor, GREY))
    for line in sorted(panel.lines, key=lambda line: not line.thin):  # single seeds below their mean
        points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in line.points)
        parts.append(f'<polyline points="{points}" fill="none" {_stroke(line)}/>')
    named = [line for line in panel.lines if line.label]
    for position, line in enumerate(named):
        height = top + 10 + 20 * position
        parts.append(f'<path d="M{right + 14} {height} h26" {_stroke(line)}/>')
        parts.append(_text(right + 47, height + 4, line.label, anchor="start"))
    return parts


def _stroke(line: Line) -> str:
    dashes = ' stroke-dasharray="6 4"' if line.dashed else ""
    weight = '1" stroke-opacity="0.35' if line.thin else "2.2"
    return f'stroke="{line.colour}" stroke-width="{weight}" stroke-linejoin="round"{dashes}'


def _rule(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(
    x: float,
    y: float,
    words: str,
    size: int = 12,
    colour: str = GREY,
    anchor: str = "middle",
    weight: str = "400",
) -> str:
    words = escape(one_line(words))
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
        f' font-weight="{weight}">{words}</text>'
    )
