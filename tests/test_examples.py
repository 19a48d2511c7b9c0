"""The examples run as they stand, on the embedded base."""

import re
import runpy
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SCRIPTS = {
    "quick_start.py": "the answer is",
    "from_trl.py": "eval_A->B/correct",
    "own_judge.py": "score",
    "own_method.py": "recorded by name",
    "compare_methods.py": "agon",
}


def test_the_page_of_the_examples_names_every_one() -> None:
    page = (ROOT / "docs" / "examples.md").read_text("utf-8")
    there = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert set(re.findall(r"^\| `([^`]+)`", page, re.MULTILINE)) == there
    assert there == {*SCRIPTS, "notebook.ipynb"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, where torch is loaded once; as `__main__`, as a person runs it."""
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(name, run_name="__main__")
    assert SCRIPTS[name] in capsys.readouterr().out


def test_the_notebook_runs_with_the_judge_of_its_cell(tmp_path: Path) -> None:
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any("def is_the_sum" in cell.source for cell in cells)
    assert all(not cell.outputs for cell in cells)  # it is kept without what it printed
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(output.get("text", "") for output in cells[-1].outputs)
    assert re.search("both right|both wrong|converted|corrupted", printed)
