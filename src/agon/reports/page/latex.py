"""The page as a LaTeX document: tables by booktabs, charts by pgfplots, one file that `pdflatex` sets."""

from collections.abc import Iterator, Sequence
from functools import singledispatch
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
    Series,
    Text,
    emphasis,
    spans,
)
from agon.reports.tables import Table, tex, tex_characters

MARKS = {"dot": "*", "square": "square*", "triangle": "triangle*", "diamond": "diamond*"}
PREAMBLE = r"""\documentclass[10pt]{article}
\usepackage[T1]{fontenc}
\usepackage{textcomp}
\usepackage[margin=22mm]{geometry}
\usepackage{booktabs,adjustbox,xcolor,pgfplots}
\pgfplotsset{compat=1.16,agon/.style={width=0.48\linewidth,height=5.2cm,grid=major,grid style={gray!15},
  axis line style={gray!50},tick style={gray!50},tick label style={font=\footnotesize},
  label style={font=\footnotesize},title style={font=\small\bfseries},
  legend style={font=\scriptsize,draw=none,fill=none,at={(0.5,-0.32)},anchor=north,legend columns=2}}}
\setlength{\parindent}{0pt}\setlength{\parskip}{4pt}"""


def latex(page: Page) -> str:
    """The whole document."""
    colours = {**COLOURS, "good": GOOD, "bad": BAD, "grey": ("#5b6470", "")}
    defined = [rf"\definecolor{{m-{name}}}{{HTML}}{{{one[0][1:].upper()}}}" for name, one in colours.items()]
    lines = [PREAMBLE, *defined, rf"\title{{{_sentence(page.title)}}}", r"\author{agon report}\date{}"]
    lines += [r"\begin{document}", r"\maketitle", _sentence(page.lead)]
    for section in page.sections:
        lines.append(rf"\section{{{_sentence(section.title)}}}")
        for block in section.blocks:
            lines += _block(block)
    return "\n".join([*lines, r"\end{document}"]) + "\n"


@singledispatch
def _block(block: Any) -> Iterator[str]:
    raise TypeError(f"no way to write {type(block).__name__}")


@_block.register
def _(block: Text) -> Iterator[str]:
    yield f"{_sentence(block.words)}\n"


@_block.register
def _(block: Listing) -> Iterator[str]:
    yield from _items(block.items)


@_block.register
def _(block: Heading) -> Iterator[str]:
    yield rf"\subsection*{{{_sentence(block.words)}}}"


@_block.register
def _(block: Finding) -> Iterator[str]:
    yield rf"\textbf{{{_sentence(block.question)} {_sentence(block.answer)}.}}"
    yield from _items(block.sentences)


@_block.register
def _(block: Table) -> Iterator[str]:
    """Not a float: a report's tables stand where they are spoken of."""
    head, *rows = [" & ".join(map(_cell, row)) + r" \\" for row in (block.head, *block.rows)]
    yield rf"\medskip\textbf{{{_sentence(block.title)}}}\par\nopagebreak\smallskip"
    # A table wider or taller than the page is made smaller.
    yield r"\begin{adjustbox}{max width=\linewidth,max totalheight=0.92\textheight}\small"
    yield rf"\begin{{tabular}}{{l{'r' * (len(block.head) - 1)}}}"
    yield "\n".join(
        [r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", r"\end{adjustbox}"]
    )
    yield "".join(rf"\par{{\footnotesize {_sentence(note)}}}" for note in block.notes) + "\\par\n"


@_block.register
def _(block: Code) -> Iterator[str]:
    lines = r"\\ ".join(rf"\texttt{{{tex(line)}}}" for line in block.lines)
    yield rf"{{\footnotesize\raggedright {lines}\par}}"


@_block.register
def _(block: Quote) -> Iterator[str]:
    yield rf"\paragraph{{{_sentence(block.title)}}}"
    for label, text in block.parts:
        lines = [tex(line) or r"\strut" for line in plain(text).strip().splitlines()] or [r"\strut"]
        quoted = r"\\ ".join(lines)
        yield rf"\textit{{{_sentence(label)}}}\begin{{quote}}\footnotesize {quoted}\end{{quote}}"


@_block.register
def _(block: Beside) -> Iterator[str]:
    yield r"\begin{center}"
    for one in block.pictures:
        yield from _chart(one) if isinstance(one, Chart) else _flow(one)
    yield r"\end{center}"
    yield "".join(rf"{{\footnotesize {_sentence(one.note)}\par}}" for one in block.pictures if one.note)


def _chart(chart: Chart) -> Iterator[str]:
    lowest = ",ymin=0" if chart.from_zero else ""
    titles = f"title={{{tex(chart.title)}}},xlabel={{{tex(chart.x_label)}}},ylabel={{{tex(chart.y_label)}}}"
    yield rf"\begin{{tikzpicture}}\begin{{axis}}[agon,{titles}{lowest}]"
    for one in chart.series:
        yield from _series(one)
    yield r"\end{axis}\end{tikzpicture}"


def _series(one: Series) -> Iterator[str]:
    colour = f"m-{one.colour}"
    if one.band:
        around = [(x, high) for x, _, high in one.band] + [(x, low) for x, low, _ in reversed(one.band)]
        yield (
            rf"\addplot[draw=none,fill={colour},fill opacity=0.16,forget plot] coordinates {{{_at(around)}}} "
            r"-- cycle;"
        )
    for x, low, high in one.spans:
        yield rf"\addplot[{colour},opacity=0.55,forget plot] coordinates {{{_at([(x, low), (x, high)])}}};"
    drawn = f"only marks,mark={MARKS[one.mark]}" if one.mark != "line" else "line width=1pt,mark=none"
    drawn += ",dashed" if one.dashed else ""
    hidden = "" if one.label else ",forget plot"
    yield rf"\addplot[{colour},{drawn}{hidden}] coordinates {{{_at(one.points)}}};"
    if one.label:
        yield rf"\addlegendentry{{{tex(one.label)}}}"


def _flow(flow: Flow) -> Iterator[str]:
    """One bar of four parts, in the order in which the flow stands on the other pages."""
    parts = (
        ("kept", flow.kept, "m-good!45"),
        ("converted", flow.converted, "m-good"),
        ("corrupted", flow.corrupted, "m-bad"),
        ("both wrong", flow.both_wrong, "m-grey!45"),
    )
    yield (
        r"\begin{tikzpicture}\begin{axis}[agon,height=3cm,xbar stacked,xmin=0,xmax=100,ytick=\empty,"
        rf"xlabel={{\% of drafts}},title={{{tex(flow.title)}}},bar width=12pt]"
    )
    for name, share, colour in parts:
        yield rf"\addplot[draw=none,fill={colour}] coordinates {{({100 * share:.2f},0)}};"
        yield rf"\addlegendentry{{{name} {100 * share:.1f}}}"
    yield r"\end{axis}\end{tikzpicture}"


def _at(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"({x:.6g},{y:.6g})" for x, y in points)


def _items(items: Sequence[str]) -> Iterator[str]:
    if items:
        yield "\n".join(
            [r"\begin{itemize}", *(rf"\item {_sentence(item)}" for item in items), r"\end{itemize}"]
        )


def _cell(cell: str) -> str:
    words, bold = emphasis(cell)
    return rf"\textbf{{{_sentence(words)}}}" if bold else _sentence(words)


def _sentence(words: str) -> str:
    return "".join(
        rf"\texttt{{{tex_characters(piece)}}}" if name else tex_characters(piece)
        for name, piece in spans(one_line(words))
    )
