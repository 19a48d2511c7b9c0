"""Charts: lines are drawn to scale, and no text can break the picture."""

import doctest
from types import ModuleType
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.reports import charts, curves
from agon.reports.charts import LEFT, PANEL, RIGHT, TOP, WIDTH, Line, Panel, draw, ticks

SPACE = "{http://www.w3.org/2000/svg}"


def drawn(*lines: Line) -> ElementTree.Element:
    return ElementTree.fromstring(draw("title", "caption", "step", [Panel("panel", lines)]))


def points(picture: ElementTree.Element) -> list[list[tuple[float, ...]]]:
    found = [line.attrib["points"].split() for line in picture.iter(f"{SPACE}polyline")]
    return [[tuple(map(float, point.split(","))) for point in line] for line in found]


@pytest.mark.parametrize("module", [charts, curves])
def test_examples_in_docstrings_run(module: ModuleType) -> None:
    ended = doctest.testmod(module)
    assert ended.attempted
    assert ended.failed == 0


def test_a_line_goes_from_corner_to_corner_of_its_panel() -> None:
    (line,) = points(drawn(Line([(0, 0), (16, 25), (32, 50)], "#000000")))
    right, floor = WIDTH - RIGHT, TOP + PANEL
    assert line == [(LEFT, floor), ((LEFT + right) / 2, floor - PANEL / 2), (right, TOP)]


def test_single_seeds_are_drawn_below_their_mean_and_left_out_of_the_legend() -> None:
    mean = Line([(1, 1), (2, 1)], "#000001", "mean")
    seed = Line([(1, 1), (2, 2)], "#000002", thin=True, dashed=True)
    picture = drawn(mean, seed)
    below, above = picture.iter(f"{SPACE}polyline")
    assert (below.attrib["stroke"], above.attrib["stroke"]) == ("#000002", "#000001")
    assert "stroke-dasharray" in below.attrib
    assert "stroke-dasharray" not in above.attrib
    assert [path.attrib["stroke"] for path in picture.iter(f"{SPACE}path")] == ["#000001"]
    assert "mean" in [text.text for text in picture.iter(f"{SPACE}text")]


def test_no_text_breaks_the_picture() -> None:
    picture = draw(
        'a "title" & more', "<caption>", "a < b", [Panel("</svg>", [Line([(1, 1)], "#000000", "x&y")])]
    )
    words = [text.text for text in ElementTree.fromstring(picture).iter(f"{SPACE}text")]
    assert {'a "title" & more', "<caption>", "a < b", "</svg>", "x&y"} <= set(words)


def test_a_panel_without_lines_is_drawn_empty() -> None:
    assert points(drawn()) == []
    assert points(drawn(Line([], "#000000", "empty"))) == [[]]


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_ticks_are_round_few_and_reach_the_highest_value(highest: float) -> None:
    found = ticks(highest)
    assert found[0] == 0
    assert found[-1] >= highest * (1 - 1e-6)
    assert 2 <= len(found) <= 8
    step = found[1]
    assert found[-2] < highest
    assert found == pytest.approx([step * index for index in range(len(found))], rel=1e-4)
