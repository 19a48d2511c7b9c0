r"""Finding and removing markup in text that nobody can trust: boxes, fences, tags.

Everything here is linear in the length of the text and never raises, whatever a model wrote.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

WITHHELD = "[withheld]"

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
# What a box without braces holds. TeX takes one token; a model that writes \boxed 42 means 42.
_UNBRACED = re.compile(r"\\[A-Za-z]+(?:\s+(?=\{))?|[-+]?[0-9A-Za-z]+(?:[.,/][0-9]+)*|\\[^\\]|.", re.DOTALL)
_SET_ENDS = re.compile(r"\\\}|(?=\\(?:boxed|fbox))")
_ANSWER = re.compile(r"<\s*(?:(/)\s*)?answer\s*>", re.IGNORECASE)
# An answer tag with attributes is no answer, but what it opens is withheld all the same. Bare words are
# attributes only where they cannot be a comparison: `while low < answer and high > 3` is none.
_ANSWER_OPENS = re.compile(
    r"<\s*answer(?:\s*/?>|\s+[\w:.-]+=[^<>]*>)|(?<![\w)\]}])<answer[\s:=][^<>\n]*>", re.IGNORECASE
)
# A fence stands on its own line, or opens after some prose if it names a language ("So: ```python").
_FENCE = re.compile(
    r"^(?:[ \t]*(`{3,}|~{3,})([^\n]*)|[^\n`]*?(`{3,})[ \t]*[A-Za-z][\w+#.-]*[ \t]*)$", re.MULTILINE
)
# Markdown takes a line that is indented by four columns for text, never for the end of a block.
_INNER_INDENT = 4


@dataclass(frozen=True)
class Span:
    """A stretch of text and what it encloses; `closed` is false if the text ended inside it."""

    start: int
    end: int
    content: str
    closed: bool = True


def boxes(text: str) -> Iterator[Span]:
    r"""The outermost `\boxed{…}` of a text, braces nested to any depth, in order.

    >>> [box.content for box in boxes(r"so \boxed{\frac{1}{2}} and \boxed 7")]
    ['\\frac{1}{2}', '7']
    """
    at = 0
    while found := _BOX.search(text, at):
        span = _box_at(text, found.start(), found.end())
        yield span
        at = span.end


def _box_at(text: str, start: int, at: int) -> Span:
    while repeated := _BOX.match(text, at):  # \boxed\boxed{7} is one box
        at = repeated.end()
    if at >= len(text):
        return Span(start, len(text), "", closed=False)
    if text[at] != "{":
        end, closed = _unbraced(text, at)
        return Span(start, end, text[at:end], closed)
    end, closed = _group(text, at)
    return Span(start, end, text[at + 1 : end - closed], closed)


def _unbraced(text: str, at: int) -> tuple[int, bool]:
    r"""Where a box without braces ends: \boxed 7, \boxed\pi, \boxed\frac{1}{2}, \boxed\{1,2\}."""
    if text.startswith("\\{", at):
        ends = _SET_ENDS.search(text, at)
        return (ends.end(), True) if ends else (len(text), False)
    token = _UNBRACED.match(text, at)
    end, closed = (token.end() if token else len(text)), True
    if text[at] == "\\":
        while closed and text.startswith("{", end):
            end, closed = _group(text, end)
    return end, closed


def _group(text: str, at: int) -> tuple[int, bool]:
    """Where the brace group that starts here ends, and whether it closes at all."""
    depth, cursor = 0, at
    while cursor < len(text):
        character = text[cursor]
        if character == "\\":  # an escaped brace is a character, not a bracket
            cursor += 2
            continue
        depth += (character == "{") - (character == "}")
        cursor += 1
        if depth == 0:
            return cursor, True
    return len(text), False


def answer_blocks(text: str) -> Iterator[Span]:
    """The `<answer>…</answer>` blocks of a text; an inner opening tag restarts the block."""
    opened: re.Match[str] | None = None
    for tag in _ANSWER.finditer(text):
        if not tag[1]:
            opened = tag
        elif opened is not None:
            yield Span(opened.start(), tag.end(), text[opened.end() : tag.start()])
            opened = None


def before_answer(text: str) -> str:
    """The text up to its first `<answer>` tag, closed or not."""
    opened = _ANSWER_OPENS.search(text)
    return text[: opened.start()] if opened else text


def count_answer_tags(text: str) -> tuple[int, int]:
    """How many opening and closing answer tags a text has."""
    closing = [bool(tag[1]) for tag in _ANSWER.finditer(text)]
    return closing.count(False), closing.count(True)


def fences(text: str) -> Iterator[Span]:
    """The fenced code blocks of a text; a fence that is never closed reaches to the end.

    Two fences in a row that are indented by four columns more than the block's own are an example in a
    docstring, not its end. A single one is its end, badly indented.
    """
    marks = list(_FENCE.finditer(text))
    opened: re.Match[str] | None = None
    deep, at = 0, 0
    while at < len(marks):
        fence, following = marks[at], marks[at + 1] if at + 1 < len(marks) else None
        if opened is None:
            opened, deep = fence, _indent(fence) + _INNER_INDENT
        elif following and min(_indent(fence), _indent(following)) >= deep and _closes(fence, following):
            at += 1
        elif _closes(opened, fence):
            yield Span(_mark(opened), fence.end(), text[opened.end() + 1 : fence.start()])
            opened = None
        at += 1
    if opened is not None:
        yield Span(_mark(opened), len(text), text[opened.end() + 1 :], closed=False)


def _closes(opened: re.Match[str], fence: re.Match[str]) -> bool:
    return bool(fence[1]) and fence[1].startswith(opened[1] or opened[3]) and not fence[2].strip()


def _indent(fence: re.Match[str]) -> int:
    line = fence[0].expandtabs(4)
    return len(line) - len(line.lstrip(" "))


def _mark(fence: re.Match[str]) -> int:
    return fence.start(1) if fence[1] else fence.start(3)


def cut(text: str, spans: Iterable[Span]) -> str:
    """The text with every span replaced by a mark that something was withheld; spans may overlap."""
    kept: list[str] = []
    at = 0
    for span in sorted(spans, key=lambda span: span.start):
        if span.start >= at:
            kept += [text[at : span.start], WITHHELD]
        at = max(at, span.end)
    return "".join([*kept, text[at:]])
