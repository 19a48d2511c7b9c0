"""Axes of a chart: where numbers lie on the paper, and round numbers to mark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agon.reports.page.model import Chart


@dataclass(frozen=True)
class Axis:
    """Numbers from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)


def axes(chart: Chart, left: float, right: float, top: float, floor: float) -> tuple[Axis, Axis]:
    """The horizontal and the vertical axis of a chart."""
    xs = [x for one in chart.series for x, _ in one.points]
    ys = [y for one in chart.series for _, y in one.points]
    ys += [end for one in chart.series for _, low, high in (*one.band, *one.spans) for end in (low, high)]
    lines = all(one.mark == "line" for one in chart.series)
    return _axis(xs, left, right, from_zero=False, tight=lines), _axis(ys, floor, top, chart.from_zero)


def _axis(values: Sequence[float], start: float, end: float, from_zero: bool, tight: bool = False) -> Axis:
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if from_zero:
        low = min(0.0, low)
    if high == low:
        low, high = low - 1, high + 1
    marks = round_numbers(low, high)
    if tight:
        return Axis(low, high, start, end, tuple(mark for mark in marks if low <= mark <= high))
    return Axis(marks[0], marks[-1], start, end, marks)


def round_numbers(low: float, high: float, wanted: int = 5) -> tuple[float, ...]:
    """About so many round numbers, the first not above `low`, the last not below `high`.

    >>> round_numbers(23, 61), round_numbers(0, 0.43)
    ((20.0, 30.0, 40.0, 50.0, 60.0, 70.0), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5))
    """
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(round(step * place, 10) for place in range(first, last + 1))


def written(value: float) -> str:
    """A number at a tick: 1500 as 1,500.

    >>> written(1500), written(0.25)
    ('1,500', '0.25')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
