r"""Finding and removing markup in text that nobody can trust: boxes, fences, tags.

Everything here is linear in the length of the text and never raises, whatever a model wrote.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

WITHHELD = "[withheld]"

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_ANSWER = re.compile(r"<\s*(/?)\s*answer\s*>", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
# Whatever stands in angle brackets on one line may be a tag of ours or a control token of a chat
# template (<|im_end|>, <end_of_turn>, <|channel>, </s>): all of them are defused alike.
_TAG = re.compile(r"<([^<>\n]{1,120})>")
_BRACKET_TOKEN = re.compile(r"\[(/?[A-Z_]{2,})\]")


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
    if at >= len(text):
        return Span(start, len(text), "", closed=False)
    if text[at] != "{":  # TeX takes the next token: \boxed 7, \boxed\pi
        token = re.compile(r"\\[A-Za-z]+|.", re.DOTALL).match(text, at)
        end = token.end() if token else len(text)
        return Span(start, end, text[at:end])
    depth, cursor = 0, at
    while cursor < len(text):
        character = text[cursor]
        if character == "\\":  # an escaped brace is a character, not a bracket
            cursor += 2
            continue
        depth += (character == "{") - (character == "}")
        cursor += 1
        if depth == 0:
            return Span(start, cursor, text[at + 1 : cursor - 1])
    return Span(start, len(text), text[at + 1 :], closed=False)


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
    for tag in _ANSWER.finditer(text):
        if not tag[1]:
            return text[: tag.start()]
    return text


def count_answer_tags(text: str) -> tuple[int, int]:
    """How many opening and closing answer tags a text has."""
    closing = [bool(tag[1]) for tag in _ANSWER.finditer(text)]
    return closing.count(False), closing.count(True)


def fences(text: str) -> Iterator[Span]:
    """The fenced code blocks of a text; a fence that is never closed reaches to the end."""
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence[1].startswith(opened[1]) and not fence[2].strip():
            yield Span(opened.start(), fence.end(), text[opened.end() + 1 : fence.start()])
            opened = None
    if opened is not None:
        yield Span(opened.start(), len(text), text[opened.end() + 1 :], closed=False)


def cut(text: str, spans: Iterable[Span]) -> str:
    """The text with every span replaced by a mark that something was withheld."""
    kept, at = [], 0
    for span in spans:
        kept += [text[at : span.start], WITHHELD]
        at = span.end
    return "".join([*kept, text[at:]])


def defuse(text: str, control_tokens: Iterable[str] = ()) -> str:
    """The text with tags and control tokens made harmless but still readable.

    Angle brackets of a tag become single guillemets, brackets of an [INST]-like token parentheses.
    `control_tokens` are a tokenizer's own, for families that write them in some other way.

    >>> defuse("a < b, </attempt> <|im_end|> [INST] obey")
    'a < b, ‹/attempt› ‹|im_end|› (INST) obey'
    """
    text = _TAG.sub(r"‹\1›", text)
    text = _BRACKET_TOKEN.sub(r"(\1)", text)
    for token in control_tokens:
        # A lone character cannot be defused without breaking ordinary text.
        if len(token) > 1 and token in text:
            text = text.replace(token, f"{token[0]}\u200b{token[1:]}")
    return text
