"""Text is data everywhere: nothing that is printed, written into a card or drawn obeys what a problem says."""

import ast
import io
import json
import re
import sys
import unicodedata
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.live import Live
from rich.panel import Panel
from rich.table import Table as RichTable
from rich.text import Text

from agon.cli import main
from agon.game.methods import METHODS
from agon.printing import GuardedStream, console, guarded_streams, one_line, plain, say
from agon.reports.page.model import Chart, Flow, Series
from agon.reports.page.svg import svg_file
from agon.reports.tables import Table, latex, markdown, print_rich
from agon.train.model_card import model_card
from tests.train.build import trainer

SOURCE = Path(__file__).parents[1] / "src" / "agon"
ATTACKS = (
    "\x1b]52;c;cm0gLXJmIH4=\x07",  # writes the clipboard
    "\x1b]0;title\x07\x1b[2J\x1b[H",  # a new title, an empty screen
    "\x1b]8;;http://sender.example\x1b\\click\x1b]8;;\x1b\\",  # a link
    "\x9b2J\x90q\x9c",  # the same in one byte
    "safe\rFORGED\b\b",
    "\u202egnp.exe\u202c \u2066x\u2069 \u200f",
    "[/red][link=http://sender.example]x[/link]",
    "half \ud800 a character",
    "\x00\x07\x7f\u2028\ufeff",
)
ODD = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b\x9b\x07\r\b\x00\u202e\u2066\ud800\t[]|<>`*\\"))
)
STYLES = re.compile(r"\x1b\[[\d;]*m")


def obeyed(printed: str) -> list[str]:
    """The characters that a terminal would obey, rich's own colours and line feeds apart."""
    left = STYLES.sub("", printed)
    joiners = "\u200c\u200d\u00ad"
    ordering = {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"}
    return [
        character
        for character in left
        if (unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") and character != "\n")
        or (unicodedata.bidirectional(character) in ordering and character not in joiners)
    ]


@pytest.mark.parametrize("text", ATTACKS)
def test_attacks_are_seen_and_not_obeyed(text: str) -> None:
    assert obeyed(plain(text)) == []
    assert "\n" not in one_line(text)


@given(ODD)
def test_whatever_is_said_has_no_control_characters_but_line_feeds(text: str) -> None:
    out = io.StringIO()
    say(text, file=out)
    assert obeyed(out.getvalue()) == []
    assert plain(plain(text)) == plain(text)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


@given(ODD)
def test_a_json_text_stays_the_same_json(text: str) -> None:
    written = json.dumps({"a": text}, ensure_ascii=False)
    assert json.loads(plain(written)) == {"a": text}


@given(ODD)
def test_a_console_sends_no_control_characters_but_its_own(text: str) -> None:
    for terminal in (False, True):
        out = io.StringIO()
        shown = console(file=out)
        shown._force_terminal = terminal
        table = RichTable(title=text)
        table.add_column(text)
        table.add_row(text)
        shown.print(table)
        shown.print(text)
        shown.print(Panel(Text.assemble((text, "bold red"), text)))
        assert obeyed(out.getvalue()) == []


def test_a_live_view_still_moves_its_cursor() -> None:
    out = io.StringIO()
    shown = console(file=out)
    shown._force_terminal = True
    with Live(Text("one\x1b[2J"), console=shown, refresh_per_second=1) as live:
        live.update(Text("two"), refresh=True)
    assert "\x1b[?25l" in out.getvalue()  # rich hides the cursor itself
    assert "\x1b[2J" not in out.getvalue()


@given(ODD)
def test_tables_are_text_in_every_form(text: str) -> None:
    table = Table(text, ("a", text), (("x", text),), (text,))
    for written in (markdown(table), latex(table)):
        assert obeyed(written) == []
    assert not re.search(r"<[A-Za-z/!?]", markdown(table))
    assert "](" not in markdown(table)
    rows = [line for line in markdown(table).splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows)


def test_a_table_with_markup_in_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_rich(Table("[/x]", ("[bold]", "b"), (("[/red]", "[link=x]y[/link]"),), ("[/]",)))
    shown = capsys.readouterr().out
    for text in ("[/red]", "[/x]", "[link=x]y[/link]"):
        assert text in shown


def test_a_long_name_is_folded_before_a_figure_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "grpo - models/qwen2.5-coder-0.5b-think zero-shot"
    figures = ("+4.3", "[2.2, 6.4]", "720/690", "0.0006", "0.0132", "0.1358")
    head = ("contrast", "points", "95% interval", "only 1st/2nd", "p", "p Holm", "p seeds")
    print_rich(Table("Contrasts", head, ((name, *figures),)))
    shown = capsys.readouterr().out
    assert [figure for figure in (*head, *figures) if figure not in shown] == []
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    monkeypatch.setenv("COLUMNS", "50")
    print_rich(Table("Contrasts", head, ((name, *figures),)))
    shown = capsys.readouterr().out
    assert "contrast" in shown
    assert "…" in shown  # a figure that is cut says so


@given(ODD.filter(str.strip))
def test_a_model_card_quotes_what_it_was_given(text: str) -> None:
    card = model_card("A", ("A", "B"), METHODS["agon"], {"model": text, "task": text}, 3)
    assert obeyed(card) == []
    _, head, body = card.split("---\n", 2)
    assert set(yaml.safe_load(head)) == {"base_model", "library_name", "tags"}
    fences = [line for line in body.splitlines() if line.startswith("```")]
    assert fences == ["```python", "```", "```bash", "```"]
    python = body.split("```python\n")[1].split("```")[0] if "```" not in one_line(text) else "pass"
    ast.parse(python)


def test_a_model_card_cannot_be_made_to_run_or_show_something_else() -> None:
    text = 'x"); import os; os.system("id") #\n---\n<script>alert(1)</script> `$(id)` ```\n# forged'
    card = model_card("A", ("A",), METHODS["grpo"], {"model": text, "task": text}, 3)
    assert "\n# forged" not in card
    assert "\n---\n<script>" not in card
    python = card.split("```python\n")[1].split("\n```\n")[0]
    assert [type(line) for line in ast.parse(python).body] == [
        ast.ImportFrom,
        ast.ImportFrom,
        ast.Assign,
        ast.Assign,
    ]


@given(ODD)
def test_a_drawing_is_well_formed_whatever_its_labels_say(text: str) -> None:
    import xml.dom.minidom

    chart = Chart(text, text, text, (Series(text, "agon", ((0, 0), (1, 1))),), text)
    for drawn in (svg_file(chart), svg_file(Flow(text, 0.25, 0.25, 0.25, 0.25))):
        assert obeyed(drawn) == []
        xml.dom.minidom.parseString(drawn)


def test_other_libraries_keep_their_bars_and_colours_and_nothing_else() -> None:
    out = io.StringIO()
    stream = GuardedStream(out)
    stream.write("\r 50%|#####     | \x1b[A\x1b[32mgreen\x1b[0m\t\x1b]52;c;x\x07\x1b[2J")
    assert out.getvalue() == "\r 50%|#####     | \x1b[A\x1b[32mgreen\x1b[0m\t\\u001b]52;c;x\\u0007\\u001b[2J"


def test_streams_are_given_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with guarded_streams():
        sys.stderr.write("\x1b]0;x\x07")
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr().err == "\\u001b]0;x\\u0007"


HALF = [text for text in ATTACKS if "\ud800" in text]


@pytest.mark.parametrize(
    ("texts", "code"),
    [([text for text in ATTACKS if text not in HALF], 0), (HALF, 2)],
    ids=["listed", "refused"],
)
@pytest.mark.parametrize("words", [["--json"], []])
def test_a_task_of_attacks_is_listed(
    texts: list[str], code: int, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"id": text, "problem": f"{text} {n}", "answer": text.strip() + "1"}
        for text in texts
        for n in range(4)
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["tasks", str(path), "--show", "99", *words]) == code
    shown = capsys.readouterr()
    assert obeyed(shown.out + shown.err) == []
    if not words and code == 0:
        assert [text for text in texts if plain(text) not in shown.out] == []


@pytest.mark.parametrize(
    "text", [attack for attack in ATTACKS if "\x00" not in attack and "\ud800" not in attack]
)
def test_errors_quote_attacks_as_text(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["methods", text], ["train", "--task", text], [text], ["eval", str(tmp_path / text[:100])]):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert obeyed(said) == []
        assert said.count("\n") == 1


def test_completions_that_trl_prints_are_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = trainer(tmp_path / "run", log_completions=True)
    try:
        for name in ("prompt", "completion"):
            made._logs[name].append(ATTACKS[0])
        made._logs["advantages"].append(0.0)
        made._logs["rewards"]["paid"].append(0.0)
        made.log({"loss": 0.0})
    finally:
        made.close()
    shown = capfd.readouterr().out
    assert "u001b]52" in shown
    assert "\x1b]52" not in shown


PRINTS = {"print", "Console"}


def test_there_is_no_other_way_out() -> None:
    """Whoever prints uses `say` or `console()`; a sentence of ours alone may be printed as it is."""
    found = []
    for path in SOURCE.rglob("*.py"):
        if path.name == "printing.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PRINTS
            ):
                continue
            ours = node.func.id == "print" and all(isinstance(each, ast.Constant) for each in node.args)
            if not ours:
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert found == []
