"""The documentation site: it builds without a warning, no link of it is dead, and what it shows runs."""

import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from agon.cli import COMMANDS, main
from agon.planning.machine import check_sandbox

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(
    r"(?:<!-- needs: ([^>]+) -->\n)?^```(sh|bash|python)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE
)


def pages_of(nav: Any) -> list[str]:
    """The pages of the site in the order of its menu."""
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in pages_of(part)]


PAGES = pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])


class Links(HTMLParser):
    """Every link of a page, and every place in it that a link may lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places |= {str(given[name]) for name in ("id", "name") if given.get(name)}
        self.links += [str(given[name]) for name in ("href", "src") if given.get(name)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


def test_no_link_of_the_site_is_dead(site: Path) -> None:
    read: dict[Path, Links] = {}
    for page in site.rglob("*.html"):
        read[page] = Links()
        read[page].feed(page.read_text("utf-8"))
    dead = []
    for page, found in read.items():
        if page.name == "404.html":  # its links start at the root of a server
            continue
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (parts.fragment and target in read and unquote(parts.fragment) not in
                                       read[target].places | {"__skip"}):  # fmt: skip
                dead.append(f"{page.relative_to(site)}: {link}")
    assert dead == []
    assert len(read) > 25


def test_nothing_is_fetched_from_another_server(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetched = re.findall(
            r'<(?:script|img|link)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text("utf-8")
        )
        assert [link for link in fetched if "canonical" not in link] == [], page


def test_every_guide_is_in_the_menu() -> None:
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert there - set(PAGES) == set()


def lines_of(block: str) -> list[str]:
    """The commands of a block, those that go on in the next line put together."""
    return [
        line for line in block.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")
    ]


def marked(line: str) -> str | None:
    found = re.search(r"  # needs ([^;]+)", line)
    return found.group(1).strip() if found else None


HERE = {"bubblewrap": check_sandbox().state == "ok"}


def test_what_the_site_shows_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block, also those that need something: Python compiles, and commands have the options they are given."""
    for name in COMMANDS:
        monkeypatch.setattr(f"agon.commands.{name}.run", lambda _: 0)
    understood = 0
    for page in PAGES:
        for _, language, block in BLOCK.findall((DOCS / page).read_text("utf-8")):
            if language == "python":
                compile(block, page, "exec")
            for line in lines_of(block) if language != "python" else ():
                if line.startswith("agon ") and not re.search("[|;&$]|…|\\.\\.\\.", line):
                    assert main(shlex.split(line, comments=True)[1:]) == 0, f"{page}: {line}"
            understood += 1
    assert understood > 40


@pytest.mark.exhaustive  # a minute and a half; CI reads every command, and runs those of the README
def test_what_the_site_shows_runs_page_by_page_unless_it_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In one folder, as a reader would who goes through the pages in their order; torch is loaded once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    shell = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    ran = 0
    for page in PAGES:
        for needed, language, block in BLOCK.findall((DOCS / page).read_text("utf-8")):
            if needed:
                continue
            if language == "python":
                named = re.match(r"# (\w+\.py)\n", block)
                if named:  # a file for the commands that follow
                    (tmp_path / named[1]).write_text(block, "utf-8")
                exec(compile(block, page, "exec"), {"__name__": "__main__"})
                ran += 1
                continue
            for line in lines_of(block):
                need = marked(line)
                if need is not None and not HERE.get(need, False):
                    assert re.search("GPU|Hub|network|bubblewrap", need), f"{page}: {line}"
                    continue
                if line.startswith("agon "):
                    code = main(shlex.split(line, comments=True)[1:])
                else:
                    code = subprocess.run(["bash", "-c", line], env=shell, check=False).returncode
                assert code == 0, f"{page}: {line}\n{capfd.readouterr().err}"
                ran += 1
    assert ran > 20
