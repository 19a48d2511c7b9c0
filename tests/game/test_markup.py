r"""Boxes, answer blocks, fences and tags in text that nobody can trust."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.game.markup import (
    WITHHELD,
    answer_blocks,
    before_answer,
    boxes,
    count_answer_tags,
    cut,
    fences,
)
from tests.game.hostile import messy

braced = st.recursive(
    st.text("ab 1", max_size=4),
    lambda inner: st.lists(inner, max_size=3).map(lambda x: "{" + "".join(x) + "}"),
)


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (r"\boxed{7}", ["7"]),
        (r"\boxed {7} \fbox{8}", ["7", "8"]),
        (r"\boxed{\frac{1}{\sqrt{2}}}", [r"\frac{1}{\sqrt{2}}"]),
        (r"\boxed{\{1, 2\}}", [r"\{1, 2\}"]),
        (r"\boxed{a\}b} and {", [r"a\}b"]),
        (r"\boxed{\{a} }", [r"\{a"]),
        (r"\boxed{\boxed{3}}", [r"\boxed{3}"]),
        (r"\boxed\boxed{3}", ["3"]),
        (r"\boxed 42 apples", ["42"]),
        (r"\boxed -1.5.", ["-1.5"]),
        (r"\boxed\pi r", [r"\pi"]),
        (r"\boxed\frac{1}{2}.", [r"\frac{1}{2}"]),
        (r"\boxed\text {yes}", [r"\text {yes}"]),
        (r"\boxed\{1,2\}!", [r"\{1,2\}"]),
        (r"\boxed\\boxed{3}", ["\\", "3"]),
        (r"\boxed\{1,\boxed{2}\}", [r"\{1,", "2"]),
        (r"\boxed{}", [""]),
        (r"\boxedx{7}", []),
        ("boxed{7}", []),
        ("", []),
    ],
)
def test_a_box_holds_what_a_reader_sees_in_it(text: str, contents: list[str]) -> None:
    found = list(boxes(text))
    assert [box.content for box in found] == contents
    assert all(box.closed for box in found)


@pytest.mark.parametrize(
    "text", [r"so \boxed{7", r"so \boxed{{7}", r"so \boxed", r"so \boxed\frac{1", r"so \boxed\{1"]
)
def test_a_box_that_never_closes_reaches_to_the_end(text: str) -> None:
    (box,) = boxes(text)
    assert not box.closed
    assert (box.start, box.end) == (3, len(text))


@given(braced)
def test_braces_nest_to_any_depth(content: str) -> None:
    (box,) = boxes(rf"a \boxed{{{content}}} b")
    assert box.content == content
    assert box.closed


@given(messy)
def test_no_box_is_left_once_boxes_are_cut(text: str) -> None:
    assert list(boxes(cut(text, boxes(text)))) == []


@given(messy)
def test_spans_are_in_order_and_inside_the_text(text: str) -> None:
    for find in (boxes, answer_blocks, fences):
        at = 0
        for span in find(text):
            assert at <= span.start <= span.end <= len(text)
            assert span.content in text[span.start : span.end]
            at = span.end


def test_an_inner_answer_tag_restarts_the_block() -> None:
    assert [block.content for block in answer_blocks("<answer>1<answer>2</answer>3</answer>")] == ["2"]


def test_two_answer_blocks_are_both_found() -> None:
    found = [block.content for block in answer_blocks("<answer>1</answer> or < Answer >2</ answer >")]
    assert found == ["1", "2"]


@given(messy)
def test_no_answer_block_begins_before_the_first_answer_tag(text: str) -> None:
    kept = before_answer(text)
    assert text.startswith(kept)
    assert list(answer_blocks(kept)) == []
    assert count_answer_tags(kept)[0] == 0


def test_an_answer_tag_with_attributes_is_no_answer_but_ends_what_may_be_shown() -> None:
    text = "so <answer kind='int'>7</answer>"
    assert list(answer_blocks(text)) == []
    assert before_answer(text) == "so "


@pytest.mark.parametrize("tag", ["<answer final>", "<answer: 7>", "< answer n=1>", "<ANSWER/>", "<answer\n>"])
def test_other_spellings_of_the_answer_tag_end_what_may_be_shown(tag: str) -> None:
    assert before_answer(f"so {tag} 7") == "so "


@pytest.mark.parametrize(
    "text",
    [
        "while low < answer and high > 3:\n    low += 1",
        "if low<answer and answer>high: stop",
        "if guess < answer:\n    x = 1\nif guess > answer:\n    x = 2",
        "for (i = 0; i <answer; i++) if (a > b) c();",
    ],
)
def test_a_comparison_with_an_answer_is_no_answer_tag(text: str) -> None:
    assert before_answer(text) == text


@pytest.mark.parametrize(
    ("text", "contents", "closed"),
    [
        ("```python\nprint(1)\n```", ["print(1)\n"], [True]),
        ("So: ```python\nprint(1)\n```", ["print(1)\n"], [True]),
        ("```\na\n```\n~~~\nb\n~~~", ["a\n", "b\n"], [True, True]),
        ("````\n```\nx\n```\n````", ["```\nx\n```\n"], [True]),
        ("```python\nprint(1)", ["print(1)"], [False]),
        ("```", [""], [False]),
        ("inline ```x``` only", [], []),
        ("", [], []),
    ],
)
def test_a_fence_holds_its_code(text: str, contents: list[str], closed: list[bool]) -> None:
    found = list(fences(text))
    assert [block.content for block in found] == contents
    assert [block.closed for block in found] == closed


def test_cutting_overlapping_spans_keeps_nothing_of_either() -> None:
    text = "a \\boxed{x} b"
    (box,) = boxes(text)
    assert cut(text, [box, box]) == f"a {WITHHELD} b"
    assert cut(text, []) == text


@pytest.mark.parametrize(
    "piece",
    ["<", " ", "< ", "\\", "\\boxed", "\\boxed{", "\\boxed\\{", "\\boxed\\a{", "`", "```\n", "```a\nx\n```\n",
     "<answer", "<answer ", "</", "<a", "<<a>", "<a>>", "~~~\n", "[A", "<think>", "</think>", "{", "}"],
)  # fmt: skip
def test_reading_markup_takes_time_linear_in_the_text(piece: str) -> None:
    """A quadratic scan of these 100,000 characters takes most of a minute; a linear one, milliseconds."""
    text = "<" + piece * (100_000 // len(piece))
    began = time.process_time()
    for find in (boxes, answer_blocks, fences):
        list(find(text))
    before_answer(text)
    assert time.process_time() - began < 5
