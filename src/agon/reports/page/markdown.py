"""The page as Markdown, its pictures as SVG files in a folder beside it."""

import re
from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from agon.printing import one_line, plain
from agon.reports.page.model import (
    Beside,
    Chart,
    Code,
    Finding,
    Flow,
    Heading,
    Listing,
    Page,
    Quote,
    Section,
    Text,
    spans,
)
from agon.reports.page.svg import svg_file
from agon.reports.tables import Table
from agon.reports.tables import markdown as table_markdown


def markdown(page: Page, folder: str) -> tuple[str, dict[str, str]]:
    """The text, and the pictures by their names; `folder` is where the text looks for them."""
    pictures: dict[str, str] = {}
    parts = [f"# {_sentence(page.title)}", _sentence(page.lead)]
    for section in page.sections:
        parts.append(f"## {_sentence(section.title)}")
        for block in section.blocks:
            if isinstance(block, Beside):
                parts += _pictures(block, section, folder, pictures)
            else:
                parts += _block(block)
    return "\n\n".join(part.strip() for part in parts) + "\n", pictures


@singledispatch
def _block(block: Any) -> Iterator[str]:
    raise TypeError(f"no way to write {type(block).__name__}")


@_block.register
def _(block: Text) -> Iterator[str]:
    yield _sentence(block.words)


@_block.register
def _(block: Listing) -> Iterator[str]:
    yield "\n".join(f"- {_sentence(item)}" for item in block.items)


@_block.register
def _(block: Heading) -> Iterator[str]:
    yield f"### {_sentence(block.words)}"


@_block.register
def _(block: Finding) -> Iterator[str]:
    yield f"**{_sentence(block.question)} {_sentence(block.answer)}.**"
    yield "\n".join(f"- {_sentence(sentence)}" for sentence in block.sentences)


@_block.register
def _(block: Table) -> Iterator[str]:
    yield table_markdown(block)


@_block.register
def _(block: Code) -> Iterator[str]:
    yield fenced("\n".join(map(one_line, block.lines)), "text")


@_block.register
def _(block: Quote) -> Iterator[str]:
    yield f"#### {_sentence(block.title)}"
    for label, text in block.parts:
        yield f"*{_sentence(label)}*"
        yield fenced(plain(text).strip(), "text")


def _pictures(block: Beside, section: Section, folder: str, pictures: dict[str, str]) -> Iterator[str]:
    for one in block.pictures:
        name = _file_name(f"{section.name} {one.title}", pictures)
        pictures[name] = svg_file(one)
        yield f"![{_alt(one)}]({folder}/{name})"
        if one.note:
            yield _sentence(one.note)


def _file_name(words: str, taken: dict[str, str]) -> str:
    stem = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:48].strip("-")
    names = (f"{stem}{f'-{number}' if number else ''}.svg" for number in range(len(taken) + 1))
    return next(name for name in names if name not in taken)


def _alt(one: Chart | Flow) -> str:
    return _escaped(one_line(one.title))


def fenced(text: str, language: str) -> str:
    """A block of code that the text cannot end."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _sentence(words: str) -> str:
    return "".join(_code(piece) if name else _escaped(piece) for name, piece in spans(one_line(words)))


def _code(text: str) -> str:
    return f"`{text}`" if text.strip() else _escaped(text)


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no link."""
    escaped = re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", text)
    return re.sub(r"<", "&lt;", escaped.replace("&", "&amp;") if re.search(r"&#?\w+;", text) else escaped)
