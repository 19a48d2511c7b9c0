"""The page as one HTML file: nothing in it runs, nothing is fetched, and every word of a run is text.

Its policy forbids scripts and every request; the one stylesheet is named by its sum.
"""

import base64
import hashlib
from collections.abc import Iterator
from functools import singledispatch
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from agon.printing import one_line, plain
from agon.reports.page.colours import BAD, COLOURS, GOOD
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
    emphasis,
    spans,
)
from agon.reports.page.svg import chart_svg, flow_svg, mark
from agon.reports.tables import Table

STYLE = Path(__file__).with_name("style.css")


def html(page: Page) -> str:
    """The whole file."""
    style = stylesheet()
    total = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{total}'; base-uri 'none'; form-action 'none'"
    contents = "".join(
        f'<li><a href="#{escape(one.name)}">{_sentence(one.title)}</a></li>' for one in page.sections
    )
    sections = "\n".join(map(_section, page.sections))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(one_line(page.title))}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<header><p class="made">agon report</p><h1>{_sentence(page.title)}</h1>'
        f"<p>{_sentence(page.lead)}</p></header>\n"
        f'<nav aria-label="Contents"><ul>{contents}</ul></nav>\n<main>\n{sections}\n</main>\n</body>\n</html>\n'
    )


def stylesheet() -> str:
    """The style with the colours of the methods, for light and for dark paper."""
    light, dark = (
        "".join(f"--{name}:{pair[place]};" for name, pair in {**COLOURS, "good": GOOD, "bad": BAD}.items())
        for place in (0, 1)
    )
    names = (*COLOURS, "good", "bad", "ink", "grey", "rule")
    rules = "".join(f".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name})}}" for name in names)
    text = STYLE.read_text("utf-8")
    return text.replace("/* light */", light).replace("/* dark */", dark) + rules + "\n"


def _section(section: Section) -> str:
    parts: list[str] = []
    for cards, blocks in groupby(section.blocks, key=lambda block: isinstance(block, Finding)):
        inner = "\n".join(part for block in blocks for part in _block(block))
        parts.append(f'<div class="findings">{inner}</div>' if cards else inner)
    inner = "\n".join(parts)
    return f'<section id="{escape(section.name)}">\n<h2>{_sentence(section.title)}</h2>\n{inner}\n</section>'


@singledispatch
def _block(block: Any) -> Iterator[str]:
    raise TypeError(f"no way to write {type(block).__name__}")


@_block.register
def _(block: Text) -> Iterator[str]:
    yield f"<p>{_sentence(block.words)}</p>"


@_block.register
def _(block: Listing) -> Iterator[str]:
    yield f"<ul>{''.join(f'<li>{_sentence(item)}</li>' for item in block.items)}</ul>"


@_block.register
def _(block: Heading) -> Iterator[str]:
    yield f"<h3>{_sentence(block.words)}</h3>"


@_block.register
def _(block: Finding) -> Iterator[str]:
    said = "".join(f"<p>{_sentence(sentence)}</p>" for sentence in block.sentences)
    yield (
        f'<div class="finding {block.tone}"><p class="question">{_sentence(block.question)}</p>'
        f'<p class="answer">{_sentence(block.answer)}</p>{said}</div>'
    )


@_block.register
def _(block: Table) -> Iterator[str]:
    head = "".join(f'<th scope="col">{_sentence(cell)}</th>' for cell in block.head)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in block.rows)
    notes = "".join(f"<p>{_sentence(note)}</p>" for note in block.notes)
    wide = " wide" if len(block.head) > 7 else ""
    yield (
        f'<figure class="table{wide}"><figcaption>{_sentence(block.title)}</figcaption>'
        f'<div class="scroll" tabindex="0">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f'<div class="notes">{notes}</div></figure>'
    )


@_block.register
def _(block: Beside) -> Iterator[str]:
    small = " small" if all(isinstance(one, Flow) for one in block.pictures) else ""
    yield f'<div class="beside{small}">{"".join(map(_picture, block.pictures))}</div>'


@_block.register
def _(block: Code) -> Iterator[str]:
    lines = escape("\n".join(map(one_line, block.lines)))
    yield f'<pre class="code" tabindex="0"><code>{lines}</code></pre>'


@_block.register
def _(block: Quote) -> Iterator[str]:
    parts = "".join(
        f"<dt>{_sentence(label)}</dt><dd><pre>{escape(plain(text).strip())}</pre></dd>"
        for label, text in block.parts
    )
    yield f'<div class="quote"><h4>{_sentence(block.title)}</h4><dl>{parts}</dl></div>'


def _picture(picture: Chart | Flow) -> str:
    drawn = chart_svg(picture) if isinstance(picture, Chart) else flow_svg(picture)
    legend = "".join(
        f'<li><svg viewBox="0 0 24 12" aria-hidden="true">{mark(one, 12, 6)}</svg>{_sentence(one.label)}</li>'
        for one in (picture.series if isinstance(picture, Chart) else ())
        if one.label and not one.named
    )
    below = f'<ul class="legend">{legend}</ul>' if legend else ""
    note = f'<p class="notes">{_sentence(picture.note)}</p>' if picture.note else ""
    return f"<figure><figcaption>{_sentence(picture.title)}</figcaption>{drawn}{below}{note}</figure>"


def _cell(cell: str) -> str:
    words, bold = emphasis(cell)
    inner = _sentence(words)
    return f"<td>{f'<strong>{inner}</strong>' if bold else inner}</td>"


def _sentence(words: str) -> str:
    return "".join(
        f"<code>{escape(piece)}</code>" if name else escape(piece) for name, piece in spans(one_line(words))
    )
