"""What the documentation shows is what the repository makes, and what it links to is there."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from agon import __version__
from agon.cli import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])


def test_the_picture_of_one_step_is_the_one_its_script_draws() -> None:
    draw = runpy.run_path(str(ROOT / "scripts" / "figures" / "one_step.py"))["draw"]
    assert (ROOT / "docs" / "figures" / "one_step.svg").read_text("utf-8") == draw()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))
    gone = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert gone == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_shows_exists(page: Path) -> None:
    shown = set(re.findall(r"(?:^|`|\| )agon ([a-z]+)\b", page.read_text("utf-8"), re.MULTILINE))
    assert shown <= set(COMMANDS)


def test_the_page_of_the_engines_shows_what_its_benchmark_measured() -> None:
    """Row by row; what a row stands for and how it reads is the benchmark's own."""
    bench = runpy.run_path(str(ROOT / "benchmarks" / "engines.py"))
    parts = json.loads((ROOT / "docs" / "results" / "engines-h200.json").read_text("utf-8"))
    table = bench["markdown"](parts.pop("facts"), parts).splitlines()
    shown = (ROOT / "docs" / "engines.md").read_text("utf-8")
    aside = ("| ---", "| ms an engine step", "| as it is")
    rows = [line for line in table if line.startswith("| ") and not line.startswith(aside)]
    assert len(rows) > 12
    assert [row for row in rows if row not in shown] == []
    said = [line for line in table if line.startswith(("Streaming against", "A fixed piece"))]
    figures = [re.findall(r"[\d.]+, .*\d|[\d.]+ to [\d.]+ ms", line)[-1] for line in said]
    assert len(figures) == 2
    assert [figure for figure in figures if figure not in shown] == []


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)


SHOWN = [line for block in blocks("sh") for line in block.splitlines() if "agon " in line]
# Runs have tests of their own, and `agon judge code` refuses to run without a sandbox.
QUICK = [line for line in SHOWN if not re.search(r"agon (train|eval|compare|judge code)", line)]


def test_the_readme_shows_commands() -> None:
    assert len(QUICK) >= 5


@pytest.mark.parametrize("command", QUICK)
def test_every_quick_command_of_the_readme_works(command: str, tmp_path: Path) -> None:
    here = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run(
        ["bash", "-c", command], env=here, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout


def test_the_python_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {})
    shown, numbers = capsys.readouterr().out.splitlines()
    assert shown == "Adding both gives it."
    assert numbers.startswith("[3.5, 2.5, 0.5, 0.5] ")


def test_the_citation_and_the_changelog_name_the_present_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
