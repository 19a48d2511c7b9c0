"""What was withheld is marked, nothing of a text is lost, and no text commands a terminal."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.cli import main
from agon.game.transcript import leaks, split
from agon.printing import plain
from agon.view.marking import difference, stretches
from agon.view.rows import answer_in
from agon.view.sources import leaked
from tests.view import make

PIECES = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        r"\boxed{4}",
        "x = 4",
        "words",
        "\n",
        " ",
        "```python\n",
        "```\n",
        "é",
    ]
)
TEXTS = st.lists(PIECES, max_size=14).map("".join)


@given(text=TEXTS, dialect=st.sampled_from(["think", "boxed", "gemma", None]), own=st.booleans(), other=TEXTS)
def test_stretches_join_to_the_text(text: str, dialect: str | None, own: bool, other: str) -> None:
    shown = split(text, dialect or "think").shown() if own else other
    for given_ in (shown, None):
        assert "".join(part for _, part in stretches(text, dialect, given_)) == text


@given(text=TEXTS, dialect=st.sampled_from(["think", "boxed"]))
def test_what_is_marked_as_shown_is_in_what_was_shown(text: str, dialect: str) -> None:
    shown = split(text, dialect).shown()
    marked = [part for kind, part in stretches(text, dialect, shown) if kind == "shown"]
    lines = [line.strip() for part in marked for line in part.split("\n")]
    assert [line for line in lines if line not in shown] == []


@given(
    text=TEXTS, dialect=st.sampled_from(["think", "boxed", "gemma"]), domain=st.sampled_from(["math", "code"])
)
def test_an_answer_is_the_one_of_the_game(text: str, dialect: str, domain: Literal["math", "code"]) -> None:
    assert answer_in(text, dialect, domain) == split(text, dialect, domain).answer


GOLDS = st.sampled_from(["4", "42", "1024", "pi", "X", "1/2", "-4", "", "4 2", "é"])
AROUND = st.lists(
    st.sampled_from(
        ["4", "42", "1,024", "1{,}024", "\\text{10}24", "$4$", "Pi", "x", " ", "\n", ".", "1/2", "é", "É"]
    ),
    max_size=8,
).map("".join)


@given(shown=AROUND, gold=GOLDS)
def test_a_leak_is_the_one_of_the_game(shown: str, gold: str) -> None:
    assert leaked(shown, gold) == leaks(shown, gold)


def test_a_box_and_the_lines_without_a_computation_are_withheld() -> None:
    text = "We add.\nx = 3 + 4\nso \\boxed{7} = x"
    found = stretches(text, "boxed", split(text, "boxed").shown())
    assert [part for kind, part in found if kind == "shown"] == ["x = 3 + 4\nso", "= x"]
    assert [part for kind, part in found if kind == "withheld"] == ["We add.\n", " \\boxed{7} "]


@given(first=TEXTS, second=TEXTS)
def test_a_difference_holds_both_answers(first: str, second: str) -> None:
    found = difference(first, second)
    before, after = ("".join(text for kind, text in found if kind != left) for left in ("new", "gone"))
    lines = "\n" in first.strip() or "\n" in second.strip()
    assert (before, after) == ((first, second) if lines else (first.strip(), second.strip()))


@given(
    st.text(
        st.sampled_from(
            [*map(chr, range(0x110)), *map(chr, range(0x2000, 0x2070)), "\ufeff", "\ud800", "é", "漢"]
        )
    )
)
def test_no_text_commands_a_terminal(text: str) -> None:
    clean = plain(text)
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in clean)
    assert not any(letter in clean for letter in "\x7f\x9b\x9d\u202e\u2066\u200f\u2028")


HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e[bold red]not markup[/bold red] :smile: <script>"


def test_show_prints_hostile_duels_as_text(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make.run(place, range(1))
    duel = make.duels([1])[0]
    evil = make.entry(
        HOSTILE,
        HOSTILE,
        "1",
        text=f"<think>{HOSTILE}</think>{HOSTILE}<answer>{HOSTILE}</answer>",
        detail=HOSTILE,
    )
    problem = replace(duel.problem, prompt=HOSTILE, id=HOSTILE)
    run.duels().write([replace(duel, problem=problem, draft=evil, challenge=evil, shown=HOSTILE)])
    assert main(["show", str(place)]) == 0
    assert main(["show", str(place), "--duel", "1.0", "--private"]) == 0
    said = capsys.readouterr().out
    assert r"\u001b[2J" in said
    assert "[bold red]not markup[/bold red] :smile:" in " ".join(said.split())
    assert not any(letter in said for letter in "\x1b\x07\x9b\u202e")


def test_show_lists_filters_and_opens(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make.run(place)
    assert main(["show", str(place), "--converted", "--step", "1..2", "--limit", "3"]) == 0
    said = capsys.readouterr().out
    assert "3 of 4 duels (of 24)" in said
    assert said.count("converted") == 3
    assert main(["show", str(place), "--duel", "1.1"]) == 0
    said = capsys.readouterr().out
    assert "Draft by B: wrong" in said
    assert "private reasoning" in said
    assert "let me see" not in said
    assert main(["show", str(place), "--duel", "1.1", "--group", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["show", "nowhere"], "There is no run 'nowhere'"),
        (["show", "{}", "--duel", "x"], "A duel is named STEP.NUMBER"),
        (["show", "{}", "--duel", "99.1"], "There is no duel 99.1 here"),
        (["show", "{}", "--group"], "--group and --private need a --duel"),
        (["show", "{}", "--source", "trainin"], "Unknown source 'trainin': did you mean 'training'?"),
        (["show", "{}", "--step", "a"], "step must be a number or a range"),
        (["view", "nowhere"], "There is no run 'nowhere'"),
        (["view", "{}", "--port", "70000"], "--port must be a whole number"),
        (["view", "{}", "{}", "--export", "x.html"], "One run at a time"),
        (["view", "{}", "--eval-log", "x.eval"], "--eval-log needs inspect_ai"),
        (["view", "{}", "--host", "1.2.3.4.5"], "cannot be used"),
    ],
)
def test_wrong_words_end_in_one_sentence(
    words: list[str], sentence: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "inspect_ai" in sentence:
        try:
            import inspect_ai  # noqa: F401

            pytest.skip("inspect_ai is installed here")
        except ImportError:
            pass
    make.run(place, range(1))
    assert main([word.format(place) for word in words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_a_log_of_inspect_holds_the_duels(place: Path, tmp_path: Path) -> None:
    log = pytest.importorskip("inspect_ai.log", reason="needs inspect_ai, which Agon does not depend on")
    make.run(place)
    target = tmp_path / "duels.eval"
    assert main(["view", str(place), "--eval-log", str(target), "--converted"]) == 0
    samples = log.read_eval_log(str(target)).samples
    assert len(samples) == 6
    assert {(one.scores["draft"].value, one.scores["challenge"].value) for one in samples} == {("I", "C")}
    assert [message.role for message in samples[0].messages] == ["user", "assistant", "user", "assistant"]
