"""Pictures of the report: drawn to scale, readable, and no text can break them."""

import doctest
from types import ModuleType
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.game.methods import METHODS
from agon.reports.page import axes, model
from agon.reports.page.axes import round_numbers
from agon.reports.page.colours import COLOURS, colour_of
from agon.reports.page.model import Chart, Flow, Series
from agon.reports.page.sections import training
from agon.reports.page.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    LETTER,
    RIGHT,
    TOP,
    WIDTH,
    chart_svg,
    flow_svg,
    svg_file,
)

SPACE = "{http://www.w3.org/2000/svg}"


def drawn(*series: Series, from_zero: bool = False) -> ElementTree.Element:
    return ElementTree.fromstring(svg_file(Chart("title", "step", "% right", series, from_zero=from_zero)))


def points(picture: ElementTree.Element, kind: str = "polyline") -> list[list[tuple[float, ...]]]:
    found = [line.attrib["points"].split() for line in picture.iter(f"{SPACE}{kind}")]
    return [[tuple(map(float, point.split(","))) for point in line] for line in found]


@pytest.mark.parametrize("module", [axes, model, training])
def test_examples_in_docstrings_run(module: ModuleType) -> None:
    ended = doctest.testmod(module)
    assert ended.attempted
    assert ended.failed == 0


def test_a_line_goes_from_corner_to_corner_of_its_chart() -> None:
    (line,) = points(drawn(Series("a", "agon", ((0, 0), (16, 25), (32, 50))), from_zero=True))
    right, floor, top = WIDTH - RIGHT, HEIGHT - BOTTOM, TOP + 16
    assert line == [(LEFT, floor), ((LEFT + right) / 2, (floor + top) / 2), (right, top)]


def test_a_band_lies_below_the_lines_and_reaches_from_the_lowest_seed_to_the_highest() -> None:
    band = ((0.0, 0.0, 10.0), (1.0, 5.0, 10.0))
    picture = drawn(Series("a", "agon", ((0, 5), (1, 8)), band=band), from_zero=True)
    (polygon,) = points(picture, "polygon")
    floor, top = float(HEIGHT - BOTTOM), float(TOP + 16)
    assert [y for _, y in polygon] == [top, top, (floor + top) / 2, floor]
    order = [element.tag.removeprefix(SPACE) for element in picture.iter()]
    assert order.index("polygon") < order.index("polyline")


def test_names_beside_marks_do_not_cover_each_other() -> None:
    marks = [Series(f"method {n}", "agon", ((n % 3 * 4.0, n / 10),), "dot", named=True) for n in range(9)]
    picture = drawn(*marks, Series("far", "coop", ((10.0, 1.0),), "dot", named=True))
    boxes = []
    for text in picture.iter(f"{SPACE}text"):
        if (text.text or "").startswith("method"):
            x, y, wide = float(text.attrib["x"]), float(text.attrib["y"]), LETTER * len(text.text or "")
            left = {"start": x, "middle": x - wide / 2, "end": x - wide}[text.attrib["text-anchor"]]
            boxes.append((left, y - 10, left + wide, y + 3))
    assert len(boxes) == 9
    overlaps = [
        (one, other)
        for place, one in enumerate(boxes)
        for other in boxes[:place]
        if one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
    ]
    assert overlaps == []


def test_no_text_breaks_a_picture() -> None:
    odd = 'a "title" & more </svg>'
    chart = Chart(odd, "a < b", odd, (Series("x&y", "agon", ((1, 1), (2, 2))),))
    for picture in (svg_file(chart), chart_svg(chart)):
        words = [text.text for text in ElementTree.fromstring(picture).iter(f"{SPACE}text")]
        assert {odd, "a < b"} <= set(words)
    assert "x&y" in [text.text for text in ElementTree.fromstring(svg_file(chart)).iter(f"{SPACE}text")]


def test_a_chart_without_points_is_drawn_empty() -> None:
    assert points(drawn(Series("empty", "agon", ()))) == [[]]
    assert points(drawn()) == []


def test_a_flow_shows_every_share_and_its_bands_are_as_wide() -> None:
    picture = ElementTree.fromstring(flow_svg(Flow("agon", 0.5, 0.1, 0.25, 0.15)))
    words = " ".join(text.text or "" for text in picture.iter(f"{SPACE}text"))
    for said in ("right 60.0", "wrong 40.0", "right 75.0", "wrong 25.0", "converted 25.0", "corrupted 10.0"):
        assert said in words
    heights = sorted(float(one.attrib["height"]) for one in picture.iter(f"{SPACE}rect"))
    assert heights == pytest.approx([30, 48, 72, 90])


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", COLOURS)
def test_a_method_s_colour_can_be_read_on_light_and_on_dark_paper(name: str) -> None:
    light, dark = map(luminance, COLOURS[name])
    assert (1.05 / (light + 0.05)) >= 3.9
    assert ((dark + 0.05) / (luminance("#14181d") + 0.05)) >= 4.5


def test_every_method_has_a_colour_of_its_own_and_those_of_users_share_one() -> None:
    assert len({colour_of(name) for name in METHODS}) == len(METHODS)
    assert colour_of("parts:mine") == colour_of("parts:yours") == "other"


@given(st.floats(min_value=-1e6, max_value=1e6), st.floats(min_value=1e-3, max_value=1e6))
def test_ticks_are_round_few_and_hold_the_values_between_them(low: float, width: float) -> None:
    found = round_numbers(low, low + width)
    step = found[1] - found[0]
    assert 2 <= len(found) <= 9
    assert found[0] <= low + 1e-6 * step
    assert found[-1] >= low + width - 1e-6 * step
    assert found == pytest.approx([found[0] + step * index for index in range(len(found))])
