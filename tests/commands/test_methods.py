"""`agon methods` shows the table in three forms, and the documentation shows the same."""

import json
from pathlib import Path

import pytest

from agon.cli import main
from agon.commands.methods import COLUMNS, markdown
from agon.game import METHODS

ROOT = Path(__file__).parents[2]


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["methods", *words]) == 0
    return capsys.readouterr().out


def test_json_lists_the_methods_with_their_columns(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(said(capsys, "--json"))
    assert [row["method"] for row in rows] == list(METHODS)
    assert len(rows) == 13
    assert all(list(row) == list(COLUMNS) for row in rows)
    assert rows[3] == {
        "method": "agon",
        "policies": 2,
        "challenger reads": "rival draft",
        "paid against": "own pair",
        "challenge reward": "2c(b) + c(b)(1-c(a))",
        "roles": "rotate",
        "evaluated as": "cascade",
        "learns from": "own",
        "advantage": "group",
        "note": "",
    }


def test_one_method_can_be_shown_alone(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(said(capsys, "margin", "--json"))
    assert [row["method"] for row in rows] == ["margin"]


def test_the_terminal_table_fits_80_columns_and_names_every_method(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    table = said(capsys)
    assert max(map(len, table.splitlines())) <= 80
    assert all(f"\n{name} " in table for name in METHODS)
    assert "…" not in table


def test_markdown_has_a_line_per_method(capsys: pytest.CaptureFixture[str]) -> None:
    heading, rule, *rows = said(capsys, "--markdown").splitlines()
    assert heading.startswith("| method |")
    assert rule == "| " + " | ".join(["---"] * len(COLUMNS)) + " |"
    assert [row.split("`")[1] for row in rows] == list(METHODS)


def test_the_documentation_shows_the_table_as_it_is() -> None:
    assert markdown(list(METHODS.values())) in (ROOT / "docs" / "method.md").read_text("utf-8")
