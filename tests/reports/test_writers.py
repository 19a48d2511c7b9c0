"""One page, three languages: all say the same, and nothing of a run is obeyed by any of them."""

import re
from html.parser import HTMLParser

import pytest

from agon.reports.page.html import html
from agon.reports.page.latex import latex
from agon.reports.page.markdown import markdown
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
    Series,
    Text,
    spans,
)
from agon.reports.tables import TEX, Table, tex

HOSTILE = (
    "<script>owned()</script><img src=x onerror=owned()> ](javascript:owned) ![x](http://x.example/p.png) | cell "
    "`code` ``` **bold** _em_ # head & &lt; \\input{/etc/passwd} \\write18{rm} $x^2$ % comment {brace ~ ^ \u202egnp.exe"
    " \x1b[31m \x00 </svg></pre></code> -- -> \u4e2d\n\n# heading"
)


def page(words: str) -> Page:
    chart = Chart(words, words, words, (Series(words, "agon", ((0, 1), (1, 2))),), words)
    marks = Chart(words, words, words, (Series(words, "coop", ((1, 1),), "dot", named=True),))
    return Page(
        words,
        words,
        (
            Section(
                words,
                "all",
                (
                    Text(words),
                    Listing((words,)),
                    Heading(words),
                    Finding(words, words, "good", (words,)),
                    Table(words, (words, words), ((words, f"**{words}**"),), (words,)),
                    Beside((chart, marks)),
                    Beside((Flow(words, 0.4, 0.1, 0.2, 0.3, words),)),
                    Code((words,)),
                    Quote(words, ((words, words), (words, ""))),
                ),
            ),
        ),
    )


class Tags(HTMLParser):
    """Every tag of a page with its attributes, and its visible text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(text: str) -> Tags:
    found = Tags()
    found.feed(text)
    return found


def test_hostile_text_adds_no_tag_and_no_attribute_to_the_page() -> None:
    hostile, plain = read(html(page(HOSTILE))), read(html(page("plain `name`")))
    assert hostile.tags == plain.tags
    assert hostile.attributes == plain.attributes
    assert "script" not in hostile.tags
    assert "owned()" in "".join(hostile.words)  # shown, not run


def test_the_page_forbids_itself_scripts_and_requests() -> None:
    text = html(page("x"))
    policy = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)[0]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert not re.findall(r"(?:src|href)=\"(?!#)", text)
    assert "style=" not in text  # the policy would drop it


def test_hostile_text_stays_text_in_markdown() -> None:
    text, pictures = markdown(page(HOSTILE), "figures")
    outside = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    outside = re.sub(r"`[^`\n]*`", "", outside)
    assert not re.findall(r"<(?=[A-Za-z/!?])", outside)
    links = re.findall(r"(?<!\\)\]\(([^)]*)\)", outside)
    assert sorted(links) == sorted(f"figures/{name}" for name in pictures)
    assert not any(character in text for character in "\x00\x1b\u202e")
    assert len(re.findall(r"^#{1,4} ", outside, re.MULTILINE)) == 4  # title, section, heading, quote
    assert all("<script" not in picture for picture in pictures.values())


def test_hostile_text_is_no_command_in_latex() -> None:
    text = latex(page(HOSTILE))
    assert r"\input" not in text
    assert r"\write" not in text
    assert not re.search(r"(?<!\\)%", text)
    known = set(re.findall(r"\\([A-Za-z]+)", latex(page("plain `name`")) + "".join(TEX.values())))
    assert set(re.findall(r"\\([A-Za-z]+)", text)) <= known
    depth = 0
    for mark in re.findall(r"\\[{}\\]|[{}]", text):
        depth += {"{": 1, "}": -1}.get(mark, 0)
        assert depth >= 0
    assert depth == 0
    for name in set(re.findall(r"\\begin\{(\w+)\}", text)):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}")
    assert text.isascii()


@pytest.mark.parametrize(
    ("given", "escaped"),
    [
        ("a_b & 5% of $3 #1", r"a\_b \& 5\% of \$3 \#1"),
        ("{x}\\y", r"\{x\}\textbackslash{}y"),
        ("A->B -- ~^", r"A$\to$B -{}- \textasciitilde{}\textasciicircum{}"),
        ("\u4e2d é", "[U+4E2D] é"),
    ],
)
def test_text_in_latex_is_shown_as_it_is(given: str, escaped: str) -> None:
    assert tex(given) == escaped


def test_the_three_say_the_same() -> None:
    """Every sentence and every figure of the page stands in each of them."""
    said = [
        "One sentence of 12.5%.",
        "A question?",
        "An answer",
        "first cell",
        "61.0",
        "agon train x",
        "quoted",
    ]
    made = Page(
        "Title",
        "Lead",
        (
            Section(
                "Part",
                "part",
                (
                    Text(said[0]),
                    Finding(said[1], said[2], "open", ("why",)),
                    Table("Numbers", ("a", "b"), ((said[3], said[4]),)),
                    Code((said[5],)),
                    Quote("duel", (("draft", said[6]),)),
                    Beside((Flow("agon", 0.5, 0.125, 0.25, 0.125),)),
                ),
            ),
        ),
    )
    text, pictures = markdown(made, "figures")
    texts = [
        "".join(read(html(made)).words),
        text + "".join(pictures.values()),
        latex(made).replace("\\%", "%"),
    ]
    for written in texts:
        assert [
            words for words in (*said, "Title", "Lead", "Part", "25.0", "12.5") if words not in written
        ] == []


def test_a_lone_backtick_is_a_character() -> None:
    assert spans("a ` b") == [(False, "a ` b")]
    assert spans("`x` and ` y") == [(True, "x"), (False, " and ` y")]
