"""What the documentation shows is what the repository makes, and what it links to is there."""

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agon import __version__
from agon.cli import COMMANDS, main
from agon.lab.sweep.asked import read_sweep
from agon.lab.sweep.cells import options_of
from agon.lab.sweep.launch import plan
from agon.planning.machine import check_sandbox
from agon.reports.exchange import cascades, exchange_table
from agon.reports.page.material import read_material
from agon.reports.tables import markdown
from agon.reports.training_tables import signal_table

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


def test_the_page_of_several_gpus_shows_what_its_script_prints(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "scripts" / "scaling.py"))["main"]()
    shown = (ROOT / "docs" / "scaling.md").read_text("utf-8")
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(rows) > 20
    assert [row for row in rows if row not in shown] == []


def test_the_page_of_the_viewer_shows_what_its_benchmark_measured() -> None:
    bench = runpy.run_path(str(ROOT / "benchmarks" / "viewer.py"))
    measured = json.loads((ROOT / "docs" / "results" / "viewer.json").read_text("utf-8"))
    assert [told["duels"] for told in measured] == [10_000, 100_000, 1_000_000]
    assert bench["table"](measured) in (ROOT / "docs" / "viewer.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)


SHOWN = [line for block in blocks("sh") for line in block.splitlines() if re.search(r"(^|\| )agon ", line)]
HERE = {"a GPU and the Hub": False, "bubblewrap": check_sandbox().state == "ok"}


def needs(line: str) -> str | None:
    """What a command of the README needs besides this machine, as the README itself marks it."""
    marked = re.search(r"  # needs (.+)$", line)
    return marked.group(1) if marked else None


def test_the_readme_marks_what_a_command_needs() -> None:
    assert {need for line in SHOWN if (need := needs(line))} == set(HERE)
    assert len([line for line in SHOWN if not needs(line)]) >= 10
    assert "Qwen/Qwen3-0.6B" not in "".join(line for line in SHOWN if not needs(line))


def test_the_commands_of_the_readme_run_one_after_another_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In a clean folder. In this process, where torch is loaded once: five seconds a command, otherwise."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shell = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for line in SHOWN:
        if not HERE.get(needs(line) or "", True):
            continue
        if line.startswith("agon "):
            code = main(shlex.split(line, comments=True)[1:])
        else:
            code = subprocess.run(["bash", "-c", line], env=shell, check=False).returncode
        said = capfd.readouterr()
        assert code == 0, f"{line}\n{said.err}"
        assert said.out + said.err
        assert "Loading weights" not in said.err
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"agon", "coop"}


def test_the_command_that_the_readme_shows_is_installed_under_that_name() -> None:
    (script,) = entry_points(group="console_scripts", name="agon")
    assert script.load() is main


def test_the_sentence_that_the_guide_shows_is_the_one_that_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (ROOT / "docs" / "training.md").read_text("utf-8")
    ((words, sentence),) = re.findall(r"^\$ agon (.+)\n(agon: .+\n)", page, re.MULTILINE)
    assert main(words.split()) == 2
    assert capsys.readouterr().err == sentence


def test_the_python_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {})
    shown, numbers = capsys.readouterr().out.splitlines()
    assert shown == "Adding both gives it."
    assert numbers.startswith("[3.5, 2.5, 0.5, 0.5] ")


def test_the_citation_and_the_changelog_name_the_present_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_plan_of_the_second_model_shows_the_power_that_its_script_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = ROOT / "docs" / "results"
    folders = [str(results / "qwen2.5-coder-0.5b" / "runs")]
    monkeypatch.setattr(sys, "argv", ["second_model_power.py", *folders])
    runpy.run_path(str(ROOT / "scripts" / "second_model_power.py"))["main"]()
    shown = (results / "second-model" / "plan.md").read_text("utf-8")
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith(("| ", "by problems"))]
    assert len(rows) == 9
    assert [row for row in rows if row not in shown] == []


@pytest.mark.exhaustive  # as the next one
def test_what_setting_d_could_show_is_what_the_script_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "results" / "second-model" / "README.md").read_text("utf-8")
    commands = re.findall(
        r"`python scripts/(copying_calibrated.py [^`]+)`, with\s`([^`]+)` for (RUNS?)\b", page
    )
    monkeypatch.chdir(ROOT)
    script = runpy.run_path(str(ROOT / "scripts" / "copying_calibrated.py"))
    whole = []
    for command, runs, name in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(re.sub(rf"\b{name}\b", runs, command)))
        assert script["main"]() == 0
        printed = capsys.readouterr().out.strip()
        assert printed.count("\n| 4 | ") == 5
        assert printed.partition("\n\n**`coop` after")[0] in page
        whole.append(printed in page)
    assert whole == [True, True, False]  # of the last, only what was measured


@pytest.mark.exhaustive  # a minute: bootstraps over eighteen runs
def test_the_comparisons_of_a_second_model_are_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "results" / "second-model" / "README.md").read_text("utf-8")
    monkeypatch.chdir(ROOT)
    commands = re.findall(r"`agon compare ([^`]+) --markdown`\sprints", page)
    for words in commands:
        places = [str(place) for word in words.split() for place in sorted(Path().glob(word))]
        assert main(["compare", *places, "--markdown"]) == 0
        runs, contrasts = capsys.readouterr().out.strip().split("\n\n**Contrasts")
        assert runs in page
        assert len(places) == 18 or contrasts in page  # of all of a, the plan's contrasts alone are shown
    assert len(commands) == 3


@pytest.mark.exhaustive  # as the one before
def test_what_reading_costs_is_what_a_report_says() -> None:
    results = ROOT / "docs" / "results" / "second-model"
    (group,) = read_material([str(results / "a")]).groups
    said = (results / "README.md").read_text("utf-8")
    found = [one for each in (*group.plain, *group.runs) for one in cascades(each, group.arms(each, "gsm8k"))]
    table = exchange_table("gsm8k", found)
    rows = [
        [run.strip("*"), *cells[:4]]
        for run, direction, *cells in table.rows
        if direction == "all" or run == "controls"
    ]
    assert len(rows) == 8
    assert [
        row for row in rows if f"| {' | '.join(row)} |".replace("controls", "untrained") not in said
    ] == []


@pytest.mark.exhaustive  # half a minute: wrong answers are compared by the math judge
def test_the_map_of_the_second_model_shows_what_its_script_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["second_model_map.py"])
    runpy.run_path(str(ROOT / "scripts" / "second_model_map.py"))["main"]()
    printed = capsys.readouterr().out
    assert printed.count("| grpo |") == 4
    assert printed.strip() in (ROOT / "docs" / "second-model.md").read_text("utf-8")


@pytest.mark.exhaustive  # as above
def test_how_much_the_warmed_model_copies_is_what_the_script_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "results" / "second-model" / "README.md").read_text("utf-8")
    (setting,) = re.findall(r'second_model_map.py "([^"]+)"', page)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["second_model_map.py", setting, "--split", "validation"])
    runpy.run_path(str(ROOT / "scripts" / "second_model_map.py"))["main"]()
    _, title, table = capsys.readouterr().out.strip().rpartition("**Warmed")
    assert table.count("\n| ") == 8
    assert title + table in page


def test_the_plan_s_claims_about_a_second_model_are_what_the_script_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = ROOT / "docs" / "results" / "second-model"
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["second_model_claims.py", "docs/results/second-model/a"])
    runpy.run_path(str(ROOT / "scripts" / "second_model_claims.py"))["main"]()
    printed = capsys.readouterr().out.strip()
    assert printed.count(" and ") >= 6
    assert printed in (results / "README.md").read_text("utf-8")
    said = re.findall(r"^\| \d \| (\D+?) \|", (results / "plan.md").read_text("utf-8"), re.MULTILINE)
    rows = re.findall(r"^\| \d \| (\D+?) \|", printed, re.MULTILINE)
    assert len(said) == 6
    assert [re.sub(r", `[a-z-]+`,", "", row) for row in rows] == said


def test_the_signal_of_a_second_model_s_runs_is_what_a_report_counts() -> None:
    results = ROOT / "docs" / "results" / "second-model"
    (group,) = read_material([str(results / "a")]).groups
    counted = markdown(signal_table(group.runs)).strip()
    assert counted.count("| 16,384 |") >= 5
    assert counted in (results / "README.md").read_text("utf-8")


SEEN = {"difference": 0.03, "interval": (0.01, 0.05), "p_holm": 0.01, "p_seeds": 0.01}


@pytest.mark.parametrize(
    ("claim", "changed", "verdict"),
    [
        (1, {}, "for"),
        (1, {"p_seeds": 0.2}, "undecided"),
        (1, {"p_seeds": None}, "undecided"),
        (1, {"p_holm": 0.2}, "undecided"),
        (1, {"difference": -0.03, "interval": (-0.05, 0.02)}, "against"),
        (2, {"difference": 0.0, "interval": (-0.02, 0.009), "p_holm": 1.0}, "against"),
        (2, {"difference": 0.0, "interval": (-0.02, 0.011), "p_holm": 1.0}, "undecided"),
        (3, {"difference": 0.0, "interval": (-0.01, 0.01), "p_holm": 0.04}, "undecided"),
        (3, {"interval": (-0.01, 0.07)}, "for"),
        (3, {"interval": (-0.011, 0.07)}, "undecided"),
        (3, {"difference": -0.02, "interval": (-0.03, -0.001)}, "against"),
        (4, {"difference": 0.0, "interval": (-0.01, 0.019), "p_holm": 1.0}, "against"),
        (4, {"difference": -0.02, "interval": (-0.03, -0.01)}, "against"),
        (4, {"difference": 0.01, "interval": (0.001, 0.019), "p_seeds": 0.2}, "undecided"),
        (5, {"p_seeds": None}, "for"),
        (5, {"difference": 0.0, "interval": (-0.01, 0.009), "p_holm": 1.0}, "against"),
        (6, {}, "for"),
        (6, {"difference": -0.02, "interval": (-0.03, -0.01)}, "against"),
    ],
)
def test_what_counts_for_and_against_the_claims(claim: int, changed: dict[str, Any], verdict: str) -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "second_model_claims.py"))
    claims = script["claims"]("agon-pooled")
    seen = SimpleNamespace(**{**SEEN, **changed})
    found = {each.contrast: seen for each in claims} | {("coop-pooled", "coop"): seen}
    assert claims[claim - 1].verdict(found) == verdict


def test_the_second_model_s_sweep_has_the_rates_that_validation_chose(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = ROOT / "docs" / "results" / "second-model"
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["second_model_rates.py", str(results / "rates")])
    runpy.run_path(str(ROOT / "scripts" / "second_model_rates.py"))["main"]()
    printed = capsys.readouterr().out.strip()
    assert printed in (results / "README.md").read_text("utf-8")
    cells = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.endswith("e-4 |")]
    taken = {method: float(rate) for method, *_, rate in cells if method != "method"}
    sweeps = {name: read_sweep(f"scripts/gpu/second_model/{name}.sweep.yaml") for name in "ab"}
    rates = {
        (name, cell.method): options_of(sweep, cell)["learning_rate"]
        for name, sweep in sweeps.items()
        for cell in plan(sweep, results / "none", on="slurm").cells
        if cell.method
    }
    assert rates == {
        **{("a", method): rate for method, rate in taken.items()},
        ("b", "hidden"): taken["agon"],
        ("b", "shuffled"): taken["agon"],
    }
    assert len(taken) == 7
