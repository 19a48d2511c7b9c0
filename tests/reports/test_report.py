"""The report of runs: every figure comes from them, and copies without texts give the same bytes."""

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from agon.cli import main as agon
from agon.errors import InputError
from agon.evaluate.draft_effects import Exchange
from agon.game.problem import Problem
from agon.reports.page.build import Asked, build_report, write_report
from agon.reports.page.markdown import markdown
from agon.reports.page.material import read_material
from agon.reports.page.model import Beside, Chart, Page, Section
from agon.reports.page.sections.duels import _test_quote, duels_section
from agon.reports.page.sections.training import curves
from agon.reports.quotes import Quote
from agon.reports.tables import interval, percent
from agon.reports.training_tables import signal_table
from agon.runs.evaluations import EvaluationFolder
from agon.runs.folder import Run
from agon.runs.lean import lean_copy
from agon.runs.records import read_record
from agon.runs.samples import Attempt
from agon.runs.sweep_folder import DONE, FAILED, RUNNING, Cell, CellState, SweepFolder
from agon.train.option_table import defaults
from tests.evaluate.tiny import save_base, save_problems, save_run

RUNS = [("grpo", 0, 3e-4), ("grpo", 0, 1e-3), ("coop", 0, 3e-4), ("agon", 0, 3e-4), ("agon", 1, 3e-4)]
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
COMMITTED = sorted(page.parent.relative_to(ROOT) for page in RESULTS.glob("*/report.md"))
WITH_COPYING = Path("docs/results/qwen2.5-coder-0.5b")
BUDGET = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4, "num_iterations": 1}


def name_of(method: str, seed: int, rate: float) -> str:
    return f"{method}-s{seed}-lr{rate:.0e}".replace("e-0", "e-")


def steps(method: str, seed: int, count: int = 8) -> list[dict[str, Any]]:
    """Lines of metrics that differ between methods, seeds and steps."""
    lines = []
    for step in range(1, count + 1):
        line = {
            "step": step,
            "loss": 0.1,
            "num_tokens": 1000.0 * step,
            "draft/correct": step / 16,
            "draft/length": 100.0 - step,
            "draft/well_formed": 0.5,
            "draft/dropped_groups": 0.25,
            "time/step": 4.0,
            "time/sampling": 1.0 + step % 2,
            "time/tokens_per_second": 100.0 * step + 800 * (step == 8),
            "memory/training": 3.0 + (step == 2),
            "memory/sampling": 2.0,
        }
        if method != "grpo":
            challenge = {"correct": (step + seed) / 16, "length": 80.0, "dropped_groups": 0.5}
            line |= {f"challenge/{what}": value for what, value in challenge.items()}
            line |= {"duel/converted": 0.1 + 0.1 * seed, "duel/corrupted": 0.05}
        lines.append(line)
    return lines


def trained(
    folder: Path, base: Path, problems: Path, method: str, seed: int, rate: float, count: int = 8
) -> Path:
    run = Run(save_run(folder, base, problems, method, seed, learning_rate=rate, **BUDGET))
    run.write_summary({"finished": True, "steps": 8, "seconds": 32.0})
    run.write_environment({"gpu": "Abacus", "processes": 1})
    run.write_times({"train": 40.0, "validation": 5.0})
    for line in [*steps(method, seed, count), {"step": count, "eval_best": 0.5}]:
        run.add_metrics(line)
    return run.folder


def change_config(run: Path, **changed: Any) -> None:
    Run(run).write_config({**Run(run).read_config(), **changed})


@pytest.fixture(scope="module")
def base_and_problems(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("inputs")
    return save_base(folder / "model"), save_problems(folder / "bits.jsonl", count=32, validation=8)


@pytest.fixture(scope="module")
def runs(base_and_problems: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods at one rate, one of them with two seeds; a run at another rate, not tested; the controls."""
    folder = tmp_path_factory.mktemp("runs")
    base, problems = base_and_problems
    for method, seed, rate in RUNS:
        run = trained(folder / name_of(method, seed, rate), base, problems, method, seed, rate)
        evaluate = ["eval", str(run), "--no-controls", "--samples", "2"]
        if method == "grpo":
            assert agon([*evaluate, "--split", "validation"]) == 0
        if rate == 3e-4:
            assert agon(evaluate) == 0
            Run(run).write_times({"train": 40.0, "validation": 5.0, "test": 9.0})
    decoding = ["--max-tokens", "3", "--temperature", "0.9", "--samples", "2"]
    plain = ["eval", str(base), "--task", str(problems), *decoding, "--output", str(folder / "controls")]
    assert agon(plain) == 0
    return folder


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """The report names what it was given, as it was given."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def written(folder: Path, *places: str, **asked: Any) -> str:
    """The report of what is in a folder, as Markdown."""
    with inside(folder):
        return markdown(build_report(places or ["."], {}, Asked(**asked)).page, "figures")[0]


@pytest.fixture(scope="module")
def page(runs: Path) -> str:
    return written(runs, copying=True)


def rows(page: str, title: str, section: str = "") -> list[list[str]]:
    """The cells of the first table with a title, without its headings; of a section, where one is named."""
    part = page.split(f"\n## {section}\n", 1)[1].split("\n## ")[0] if section else page
    table = part.split(f"**{title}", 1)[1].split("\n\n")[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def result(runs: Path, run: str, where: str = "evaluations/bits-test") -> dict[str, Any]:
    return EvaluationFolder(runs / run / where).read_result()


def test_lean_copies_elsewhere_give_the_same_bytes(runs: Path, page: str, tmp_path: Path) -> None:
    for run in sorted(runs.iterdir()):
        lean_copy(run, tmp_path)
    assert written(tmp_path, copying=True) == page
    assert str(runs) not in page


def test_a_lean_copy_leaves_out_the_metrics_that_no_page_shows(runs: Path, tmp_path: Path) -> None:
    run = shutil.copytree(runs / "coop-s0-lr3e-4", tmp_path / "coop")
    detail = {"draft/completions/max_length": 9.0, "challenge/reward/form": 0.5}
    Run(run).add_metrics({**steps("coop", 0)[-1], "step": 9, **detail})
    whole, lean = (Run(folder).read_metrics() for folder in (run, lean_copy(run, tmp_path / "lean")))
    assert whole[-1].keys() - lean[-1].keys() == {"draft/completions/max_length"}
    assert lean[:-1] == whole[:-1]


def test_a_report_reads_each_result_twice_at_most(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once to learn which task it is of, once with its samples."""
    read: Counter[Path] = Counter()
    plain = EvaluationFolder.read_result

    def counted(folder: EvaluationFolder) -> dict[str, Any]:
        read[folder.folder] += 1
        return plain(folder)

    monkeypatch.setattr(EvaluationFolder, "read_result", counted)
    written(runs)
    assert len(read) == 7  # five tests and two validations
    assert set(read.values()) == {2}


def test_every_arm_of_every_tested_run_and_the_controls_are_in_the_first_table(runs: Path, page: str) -> None:
    found = rows(page, "bits test: 24 problems", "Every run and every arm")
    wanted = [
        (f"{arm} (base)", "", figures)
        for arm, figures in result(runs, "controls", "bits-test")["arms"].items()
    ]
    for run in (name_of(*run) for run in RUNS if run[2] == 3e-4):
        outcome = result(runs, run)
        others = [arm for arm in outcome["arms"] if arm != outcome["headline"]]
        wanted.append((f"**{run}**", outcome["headline"], outcome["arms"][outcome["headline"]]))
        wanted += [("", arm, outcome["arms"][arm]) for arm in others]
    assert [tuple(row[:4]) for row in found] == [
        (label, arm, percent(figures["pass@1"]), interval(figures["ci95"])) for label, arm, figures in wanted
    ]
    assert [row[-1] for row in found] == [percent(figures.get("leaked")) for *_, figures in wanted]
    for run in (name_of(*run) for run in RUNS if run[2] == 3e-4):
        assert f"- {run} {result(runs, run)['headline']} - zero-shot: " in page.replace("\\", "")


def test_later_methods_are_contrasted_with_earlier_ones(runs: Path, page: str) -> None:
    found = {row[0]: float(row[1]) for row in rows(page, "Contrasts, paired by problem")}
    assert list(found) == ["coop - grpo", "agon - grpo", "agon - coop"]

    def headline(*runs_of: str) -> float:
        outcomes = [result(runs, run) for run in runs_of]
        return sum(one["arms"][one["headline"]]["pass@1"] for one in outcomes) / len(outcomes)

    difference = headline("agon-s0-lr3e-4", "agon-s1-lr3e-4") - headline("grpo-s0-lr3e-4")
    assert found["agon - grpo"] == pytest.approx(100 * difference, abs=0.051)
    assert "agon: mean " in page  # over its two seeds


def test_a_cascade_is_compared_with_its_reader_and_its_drafter(runs: Path, page: str) -> None:
    found = rows(page, "bits test**", "What reading did")
    assert [tuple(row[:2]) for row in found] == [
        ("controls", "self-cascade"),
        ("grpo-s0-lr3e-4", "A->A"),
        *(
            (f"{run}-lr3e-4", direction)
            for run in ("coop-s0", "agon-s0", "agon-s1")
            for direction in ("A->B", "B->A")
        ),
        ("**coop**", "all"),
        ("**agon**", "all"),
    ]
    finals = {}
    for run, direction, *cells in found[1:8]:
        arms = result(runs, run)["arms"]
        drafter, reader = direction.split("->")
        final, alone, first = (arms[name]["pass@1"] for name in (direction, reader, drafter))
        assert [cells[0], cells[1], cells[5]] == [percent(value) for value in (final, alone, first)]
        assert float(cells[2]) == pytest.approx(100 * (final - alone), abs=0.051)
        assert float(cells[6]) == pytest.approx(100 * (final - first), abs=0.051)
        finals[run, direction] = final
    agon = [value for (run, _), value in finals.items() if run.startswith("agon")]
    assert float(found[-1][2]) == pytest.approx(100 * sum(agon) / 4, abs=0.051)


def test_a_note_of_a_run_is_printed_and_keeps_it_out_of_the_exchange(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    (tmp_path / "runs" / "coop-s0-lr3e-4" / "note.txt").write_text("read with\nanother prompt.\n")
    page = written(tmp_path / "runs")
    assert "- `coop-s0-lr3e-4`: read with another prompt." in page
    assert not any(row[0].startswith("coop") for row in rows(page, "bits test**", "What reading did"))
    arms = rows(page, "bits test: 24 problems", "Every run and every arm")
    assert any(row[0] == "**coop-s0-lr3e-4**" for row in arms)


def test_signal_counts_the_rollouts_that_each_adapter_learned_from(page: str) -> None:
    found = {row[0]: row[1:] for row in rows(page, "Training signal")}
    # 8 steps of 32 rollouts; a quarter of grpo's groups and of the drafts, half of the challenges taught nothing.
    assert found["grpo-s0-lr3e-4"][:4] == ["1", "256", "192", "75.0"]
    # An adapter drafts in 4 of the steps and challenges in the others: 4 x 16 x 0.75 + 4 x 16 x 0.5.
    assert found["agon-s1-lr3e-4"][:4] == ["2", "128", "80", "62.5"]
    assert found["agon-s1-lr3e-4"][4:8] == ["46.9", "53.1", "20.0", "5.0"]
    # grpo, with 24 a step, had got its 80 after step 4; of steps 3 and 4 it got 3 and 4 of 16 right.
    assert found["agon-s1-lr3e-4"][8] == percent((3 + 4) / 32)
    assert found["grpo-s0-lr3e-4"][5:] == ["", "", "", ""]


def test_an_adapter_of_a_pooled_pair_learns_from_every_rollout(
    tmp_path: Path, base_and_problems: tuple[Path, Path]
) -> None:
    for method in ("coop", "coop-pooled"):
        trained(tmp_path / method, *base_and_problems, method, 0, 3e-4)
    found = {row[0]: row[1:] for row in signal_table([read_record(run) for run in tmp_path.iterdir()]).rows}
    assert found["coop"][:4] == ("2", "128", "80", "62.5")
    assert found["coop-pooled"][:4] == ("2", "256", "160", "62.5")


def test_the_budget_counts_what_the_steps_were_given(page: str) -> None:
    found = rows(page, "Training budget")
    assert [row[0] for row in found] == [name_of(*run) for run in RUNS if run[2] == 3e-4]
    assert (
        "All 4 finished runs have the same budget: problems 16, rollouts 256, token cap 3, passes 1." in page
    )
    # 8 steps of 8 x 4 rollouts, 16 of them a problem; 100 tokens a second times the step, for 2 s at odd steps.
    tokens = sum(100 * step * (1 + step % 2) for step in range(1, 9)) + 800
    assert tokens == 6000
    for row in found:
        assert row[2:] == ["16", "256", "8", "3", "0.01 M", f"{tokens / 256:.0f}", "0.01 M"]


def test_the_use_of_the_gpu_is_summed_over_runs_and_controls(page: str) -> None:
    found = {row[0]: row[1:] for row in rows(page, "GPU use: Abacus")}
    compared = [name_of(*run) for run in RUNS if run[2] == 3e-4]
    assert list(found) == ["controls", *compared, "grpo-s0-lr1e-3", "all"]
    assert found["controls"] == ["-", "-", "-", "-", "0.00", "-", "-", "-", "-", "-"]
    assert found["coop-s0-lr3e-4"] == ["8", "40", "5", "9", "0.01", "4.0", "38%", "450", "4.0", "2.0"]
    assert found["grpo-s0-lr1e-3"][3] == "-"
    seconds = 5 * 40 + 5 * 5 + 4 * 9
    assert found["all"][1:5] == ["200", "25", "36", f"{seconds / 3600:.2f}"]


def test_rates_are_compared_by_validation_and_by_how_training_ended(runs: Path, page: str) -> None:
    found = rows(page, "Learning rates; validation: 8 problems")
    for row, run in zip(found, ("grpo-s0-lr3e-4", "grpo-s0-lr1e-3"), strict=True):
        figures = result(runs, run, "evaluations/bits-validation")["arms"]["A"]
        assert row[1:4] == [run, percent(figures["pass@1"]), interval(figures["ci95"])]
        # Of 8 steps the first two and the last two: (1 + 2) / 32, (7 + 8) / 32.
        assert row[4:] == ["9.4", "46.9", "98", "92", "50.0", "25.0"]
    assert "grpo-s0-lr3e-4 - grpo-s0-lr1e-3" in page
    assert "besides the learning rate" not in page


def test_what_else_differs_between_rates_is_named(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    change_config(tmp_path / "runs" / "grpo-s0-lr1e-3", lora_r=4)
    page = written(tmp_path / "runs")
    assert "Settings that differ besides the learning rate: lora_r." in page


def test_rates_are_compared_only_between_runs_that_are_alike(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    change_config(tmp_path / "runs" / "grpo-s0-lr1e-3", model="other")
    assert "\n## Learning rates\n" not in written(tmp_path / "runs")
    shutil.copytree(runs / "grpo-s0-lr1e-3", tmp_path / "runs" / "same")
    shutil.copytree(runs / "grpo-s0-lr3e-4", tmp_path / "runs" / "longer")
    change_config(tmp_path / "runs" / "longer", model="other")
    Run(tmp_path / "runs" / "longer").write_summary({"finished": True, "steps": 9, "seconds": 32.0})
    page = written(tmp_path / "runs")
    part = page.split("\n## Learning rates\n")[1].split("\n## ")[0]
    assert re.findall(r"### (\w+) on bits", part) == ["model", "other"]
    assert part.count("**Learning rates; validation: 8 problems") == 2
    assert "grpo-s0-lr3e-4 - same" in part
    assert "The rates are not compared. 'longer' and 'grpo-s0-lr1e-3' differ in their training budget" in part


def test_transitions_of_both_directions_are_those_of_the_results(runs: Path, page: str) -> None:
    found = rows(page, "learning_rate 0.0003: bits test, what finals took over")
    directions = [(row[0], row[1]) for row in found]
    assert directions[:3] == [
        ("controls", "self-cascade"),
        ("grpo-s0-lr3e-4", "A->A"),
        ("coop-s0-lr3e-4", "A->B"),
    ]
    assert len(directions) == 2 + 2 * 3
    for run, direction, *cells in found[1:]:
        figures = result(runs, run)["arms"][direction]
        shares = [figures[name] for name in ("both_right", "corrupted", "converted", "both_wrong")]
        assert [int(cell) / 48 for cell in cells[:4]] == pytest.approx(shares)
        assert int(cells[4]) <= int(cells[3])
        given = [figures[f"{what}_given_wrong_draft"] for what in ("conversion", "alone")]
        assert cells[-2:] == [percent(share) for share in given]


def test_curves_have_a_band_over_seeds_and_end_with_the_last_mean(runs: Path) -> None:
    compared, other = read_material([str(runs)]).groups
    right, _, duels = curves(compared.runs)
    labels = [one.label for one in right.series]
    assert labels == ["grpo", "coop, challenges", "coop, drafts", "agon, challenges", "agon, drafts"]
    assert [one.label for one in duels.series] == [
        f"{method}, {what}" for method in ("coop", "agon") for what in ("converted", "corrupted")
    ]
    assert {len(one.points) for one in right.series} == {5}  # 8 steps, 4 in a mean
    seeds = dict(zip(labels, right.series, strict=True))["agon, challenges"]
    # Steps 5 to 8 of seeds 0 and 1: 100 (step + seed) / 16.
    assert seeds.points[-1] == pytest.approx((8.0, 100 * (6.5 + 0.5) / 16))
    assert seeds.band[-1] == pytest.approx((8.0, 100 * 6.5 / 16, 100 * 7.5 / 16))
    assert dict(zip(labels, right.series, strict=True))["coop, challenges"].band == ()
    assert [one.label for one in curves(other.runs)[0].series] == ["grpo"]


def test_a_shorter_seed_ends_the_mean(tmp_path: Path, base_and_problems: tuple[Path, Path]) -> None:
    for seed, count in ((0, 8), (1, 6)):
        trained(tmp_path / f"agon-{seed}", *base_and_problems, "agon", seed, 3e-4, count)
    (group,) = read_material([str(tmp_path)]).groups
    assert {len(one.points) for chart in curves(group.runs) for one in chart.series} == {3}


def test_runs_of_different_budgets_are_not_put_into_one_table(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    change_config(tmp_path / "runs" / "coop-s0-lr3e-4", num_generations=8)
    groups = read_material([str(tmp_path / "runs")]).groups
    assert sorted(sorted(run.method for run in group.runs) for group in groups) == [
        ["agon", "agon", "grpo"], ["coop"], ["grpo"],
    ]  # fmt: skip
    assert {group.label for group in groups} == {
        "num_generations 16, learning_rate 0.0003",
        "num_generations 8, learning_rate 0.0003",
        "num_generations 16, learning_rate 0.001",
    }


def test_methods_with_a_rate_of_their_own_each_are_compared(runs: Path, tmp_path: Path) -> None:
    for name in ("grpo-s0-lr3e-4", "agon-s0-lr3e-4", "agon-s1-lr3e-4"):
        shutil.copytree(runs / name, tmp_path / "runs" / name)
    for seed in (0, 1):
        change_config(tmp_path / "runs" / f"agon-s{seed}-lr3e-4", learning_rate=1e-4)
    (group,) = read_material([str(tmp_path / "runs")]).groups
    assert group.methods == ["grpo", "agon"]
    page = written(tmp_path / "runs")
    assert "- Learning rates: 0.0003 for grpo; 0.0001 for agon.\n" in page
    assert "| agon - grpo |" in page


def test_a_method_with_two_rates_is_two_settings(runs: Path, tmp_path: Path, page: str) -> None:
    assert "- Learning rates: " not in page
    for name in ("grpo-s0-lr3e-4", "agon-s0-lr3e-4", "agon-s1-lr3e-4"):
        shutil.copytree(runs / name, tmp_path / "runs" / name)
    change_config(tmp_path / "runs" / "agon-s1-lr3e-4", learning_rate=1e-4)
    groups = read_material([str(tmp_path / "runs")]).groups
    assert [group.label for group in groups] == ["learning_rate 0.0003", "learning_rate 0.0001"]


def test_an_untrained_model_tested_on_other_problems_is_not_compared(
    runs: Path, tmp_path: Path, base_and_problems: tuple[Path, Path]
) -> None:
    for name in ("controls", "grpo-s0-lr3e-4"):
        shutil.copytree(runs / name, tmp_path / "runs" / name)
    more = save_problems(tmp_path / "more.jsonl", count=12, validation=4)
    own = [str(tmp_path / "runs" / "grpo-s0-lr3e-4"), "--no-controls"]
    fewer = [str(base_and_problems[0]), "--limit", "4", "--max-tokens", "3", "--temperature", "0.9"]
    fewer += ["--output", str(tmp_path / "runs" / "controls")]
    for words in (own, fewer):
        assert agon(["eval", *words, "--task", str(more), "--samples", "2"]) == 0
    page = written(tmp_path / "runs")
    assert "The runs are not compared. 'grpo-s0-lr3e-4' and 'controls' differ in their problems" in page


def test_one_base_in_two_folders_is_one_setting_with_its_untrained_model(runs: Path, tmp_path: Path) -> None:
    for name in ("controls", "grpo-s0-lr3e-4", "agon-s0-lr3e-4"):
        shutil.copytree(runs / name, tmp_path / "runs" / name)
    change_config(tmp_path / "runs" / "agon-s0-lr3e-4", model="/elsewhere/the/same")
    path = tmp_path / "runs" / "controls" / "bits-test" / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": "models/the-same"}))
    (group,) = read_material([str(tmp_path / "runs")]).groups
    assert group.methods == ["grpo", "agon"]
    assert [record.name for record in group.plain] == ["controls"]
    settings = tmp_path / "runs" / "controls" / "bits-test" / "settings.json"
    other = json.loads(settings.read_text())
    settings.write_text(json.dumps({**other, "weights": {"base": "of another model"}}))
    (group,) = read_material([str(tmp_path / "runs")]).groups
    assert group.plain == []


@pytest.fixture
def run_and_samples(runs: Path, tmp_path: Path) -> tuple[Path, dict[tuple[str, str, int], dict[str, Any]]]:
    """A run in which every answer of a first sample counts as well formed and no other; and its samples."""
    run = tmp_path / "agon-s0-lr3e-4"
    shutil.copytree(runs / run.name, run)
    path = run / "evaluations" / "bits-test" / "samples.jsonl"
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    for sample in samples:
        for attempt in sample["drafts"] + sample["finals"]:
            attempt["well_formed"] = sample["number"] == 0 and attempt["reason"] in ("correct", "wrong")
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return run, {(one["play"], one["problem"], one["number"]): one for one in samples}


def quoted_duels(run: Path) -> str:
    section = duels_section(read_material([str(run)]), 2, "test")
    assert section is not None
    return markdown(Page("", "", (section,)), "figures")[0]


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("conversion", "wrong", "correct"),
        ("corruption", "correct", "wrong"),
        ("copied error", "wrong", "wrong"),
    ],
)
def test_duels_are_quoted_as_they_were_written(
    kind: str,
    before: str,
    after: str,
    run_and_samples: tuple[Path, dict[tuple[str, str, int], dict[str, Any]]],
) -> None:
    run, samples = run_and_samples
    page = quoted_duels(run)
    quoted = re.findall(
        rf"#### A {kind}: agon-s0-lr3e-4, bits test: (A->B|B->A), (bit-\d+), sample (\d)", page
    )
    assert len({problem for _, problem, _ in quoted}) == len(quoted) == 2
    for play, problem, number in quoted:
        assert number == "0"  # the others are malformed
        sample = samples[play, problem, 0]
        draft, final = sample["drafts"][0], sample["finals"][0]
        assert (draft["reason"], final["reason"]) == (before, after)
        bit = int(problem.removeprefix("bit-"))
        for text in (f"p{bit} g{bit % 7}?", draft["text"], final["shown"], final["text"]):
            assert f"```text\n{text.strip()}\n```" in page
        assert f"*Problem (gold: {bit % 2})*" in page
    lengths = [
        len(samples[play, problem, 0]["drafts"][0]["text"] + samples[play, problem, 0]["finals"][0]["text"])
        for play, problem, _ in quoted
    ]
    assert lengths[0] <= lengths[1] + 1  # the problem counts too, by a digit


def test_a_quoted_fence_does_not_end_the_quotation() -> None:
    attempt = Attempt("A", "so\n```\nprint(7)\n```\n", 9, 9, False, True, False, "wrong")
    quote = Quote(
        "copied error", "here", Problem("p", "Why?", "t"), Exchange("A->B", "p", 0, attempt, attempt)
    )
    page = Page("", "", (Section("Duels", "duels", (_test_quote(quote),)),))
    assert "````text\nso\n```\nprint(7)\n```\n````" in markdown(page, "figures")[0]


def test_a_run_that_cannot_be_quoted_is_refused_in_one_sentence(runs: Path, tmp_path: Path) -> None:
    lean = lean_copy(runs / "agon-s0-lr3e-4", tmp_path / "lean")
    moved, other = Run(tmp_path / "moved"), Run(tmp_path / "other")
    fewer = save_problems(tmp_path / "fewer.jsonl", count=20, validation=8)
    for run, problems in ((moved, "gone.jsonl"), (other, str(fewer))):
        shutil.copytree(runs / "coop-s0-lr3e-4", run.folder)
        run.write_task({**run.read_task(), "spec": problems})
    for folder, sentence in (
        (lean, "holds no texts to quote: give the whole run"),
        (runs / "grpo-s0-lr1e-3", "has no test evaluation to quote from"),
        (moved.folder, "cannot be loaded"),
        (other.folder, "are not those of 'other'"),
    ):
        with pytest.raises(InputError) as refused:
            quoted_duels(folder)
        assert sentence in str(refused.value)
        assert "\n" not in str(refused.value)


def test_a_record_leaves_out_the_lines_of_validation(runs: Path) -> None:
    record = read_record(runs / "coop-s0-lr3e-4")
    assert [line["step"] for line in record.steps] == list(range(1, 9))
    assert list(record.evaluations("test")) == ["bits"]


@pytest.mark.exhaustive  # half a minute to minutes
@pytest.mark.parametrize("committed", COMMITTED, ids=lambda folder: folder.name)
def test_a_committed_report_is_what_the_committed_outcomes_give(committed: Path, tmp_path: Path) -> None:
    """All but one section, for which 40,000 pairs of answers are judged."""
    write_again(committed, Asked(), tmp_path)
    hold_to_committed(committed, tmp_path, without="Copying")


@pytest.mark.exhaustive  # a minute and a half
def test_the_whole_committed_report_is_what_the_committed_outcomes_give(tmp_path: Path) -> None:
    write_again(WITH_COPYING, Asked(copying=True), tmp_path)
    hold_to_committed(WITH_COPYING, tmp_path)


def write_again(committed: Path, asked: Asked, out: Path) -> None:
    """The forms of a committed report."""
    with inside(ROOT):
        report = build_report([str(committed / "runs")], defaults(), asked)
    names = [name for name in ("page.html", "report.md") if (ROOT / committed / name).exists()]
    write_report(report, [out / name for name in names])


def hold_to_committed(committed: Path, tmp_path: Path, without: str = "") -> None:
    """Except for the last digit, which another machine's arithmetic may round the other way."""
    pages = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(pages) > 10
    figures = {path.name for path in (ROOT / committed / "report-figures").iterdir()}
    assert figures == {page.name for page in pages if page.suffix == ".svg"}
    for page in pages:
        made, kept = ((folder / page).read_text("utf-8") for folder in (tmp_path, ROOT / committed))
        one, other = (split_numbers(without_section(text, without)) for text in (made, kept))
        assert one[0] == other[0], page
        assert len(one[1]) == len(other[1])
        for mine, theirs in zip(one[1], other[1], strict=True):
            assert float(mine) == pytest.approx(float(theirs), abs=1.01 * last_digit(theirs)), page


def without_section(text: str, title: str) -> str:
    """A page without one section, its entry in the contents, and the sentence that it is missing."""
    if not title:
        return text
    name = title.lower()
    text = re.sub(rf"## {title}\n.*?(?=\n## )", "", text, flags=re.DOTALL)
    text = re.sub(rf'<section id="{name}">.*?</section>\n', "", text, flags=re.DOTALL)
    text = re.sub(rf'<li><a href="#{name}">.*?</li>', "", text)
    text = text.replace(" --copying", "")
    return re.sub(rf"- {name}: needs.*\n|<li>{name}: needs.*?</li>", "", text).replace("\n\n\n", "\n\n")


def split_numbers(text: str) -> tuple[list[str], list[str]]:
    """The text between numbers, and the numbers."""
    number = r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-\d+)?"
    return re.split(number, text), [found.replace(",", "") for found in re.findall(number, text)]


def last_digit(number: str) -> float:
    """The value of one unit in the last digit of a number."""
    digits, _, power = number.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def test_a_sweep_is_reported_with_its_crashed_and_running_cells(runs: Path, tmp_path: Path) -> None:
    sweep = SweepFolder(tmp_path / "sweep")
    cells = [
        Cell("controls", "bits", None, None),
        *(Cell(name_of(*run), "bits", run[0], run[1]) for run in RUNS if run[2] == 3e-4),
        Cell("coop-s1", "bits", "coop", 1),
        Cell("grpo-s1", "bits", "grpo", 1),
    ]
    sweep.folder.mkdir()
    sweep.write({"methods": ["grpo", "coop", "agon"]}, cells)
    for cell in cells[:-2]:
        shutil.copytree(runs / cell.name, sweep.folder / cell.name)
        sweep.write_state(cell, CellState(DONE))
    sweep.write_state(cells[-2], CellState(FAILED, "train", "The judge <b>failed</b>."))
    sweep.write_state(cells[-1], CellState(RUNNING, "train"))
    page = written(tmp_path, "sweep")
    states = {row[0]: row[3:] for row in rows(page, "Cells**")}
    assert states["coop-s1"] == ["**failed**", "train: The judge &lt;b>failed&lt;/b>."]
    assert states["grpo-s1"] == ["**running**", "in its stage train"]
    assert states["agon-s0-lr3e-4"] == ["done", ""]
    assert "5 of 7 finished" in page
    assert "Left out, as they are not finished: `coop-s1`, `grpo-s1`." in page
    assert [row[0] for row in rows(page, "Contrasts, paired by problem")] == [
        "coop - grpo", "agon - grpo", "agon - coop",
    ]  # fmt: skip
    assert "methods:\n- grpo" in page
    assert "\nagon report sweep --out report.html\n" in page


def test_the_command_that_makes_the_page_again_has_the_options_of_the_page(runs: Path) -> None:
    page = written(runs, "coop-s0-lr3e-4", title="Two words", duels=2, duels_of="test")
    words = "--title 'Two words' --duels 2 --duels-of test"
    assert f"\nagon report coop-s0-lr3e-4 {words} --out report.html\n" in page
    assert Asked(copying=True, path="bits").words() == ["--copying", "--path", "bits"]
    assert Asked().words() == []


def test_a_sweep_whose_cells_had_other_budgets_says_so_and_compares_nothing(
    runs: Path, tmp_path: Path
) -> None:
    sweep = SweepFolder(tmp_path / "sweep")
    cells = [Cell(name, "bits", name.split("-")[0], 0) for name in ("grpo-s0-lr3e-4", "coop-s0-lr3e-4")]
    sweep.folder.mkdir()
    sweep.write({}, cells)
    for cell in cells:
        shutil.copytree(runs / cell.name, sweep.folder / cell.name)
        sweep.write_state(cell, CellState(DONE))
    change_config(sweep.folder / "coop-s0-lr3e-4", num_generations=8)
    page = written(tmp_path, "sweep")
    assert "differ in their training budget: num\\_generations" in page
    assert "The budgets differ: problems 16 (`grpo-s0-lr3e-4`), 32 (`coop-s0-lr3e-4`)." in page
    assert "**Does exchange help? Cannot be said.**" in page


def test_a_cell_without_a_whole_run_is_named(runs: Path, tmp_path: Path) -> None:
    sweep = SweepFolder(tmp_path / "sweep")
    cells = [Cell(name, "bits", name.split("-")[0], 0) for name in ("grpo-s0-lr3e-4", "coop-s0-lr3e-4")]
    sweep.folder.mkdir()
    sweep.write({}, cells)
    for cell in cells:
        shutil.copytree(runs / cell.name, sweep.folder / cell.name)
        sweep.write_state(cell, CellState(DONE))
    shutil.copytree(runs / "controls" / "bits-test", sweep.folder / "coop-s0-lr3e-4" / "bits-test")
    (sweep.folder / "coop-s0-lr3e-4" / "config.yaml").unlink()
    states = {row[0]: row[3] for row in rows(written(tmp_path, "sweep"), "Cells**")}
    assert states == {"grpo-s0-lr3e-4": "done", "coop-s0-lr3e-4": "**failed**"}
    change_config(sweep.folder / "grpo-s0-lr3e-4", num_generations=None)
    with pytest.raises(InputError, match=r"config.yaml of '.*grpo-s0-lr3e-4' has no num_generations"):
        written(tmp_path, "sweep")


@pytest.mark.parametrize(
    ("path", "changed", "sentence"),
    [
        ("coop-s0-lr3e-4/evaluations/bits-test/result.json", None, r"has no whole result \(task\)"),
        ("grpo-s0-lr3e-4/evaluations/bits-validation/result.json", "engine", r"no whole result \(engine\)"),
        ("controls/bits-test/result.json", "fingerprint", r"no whole result \(fingerprint\)"),
    ],
)
def test_a_damaged_result_is_named(
    path: str, changed: str | None, sentence: str, runs: Path, tmp_path: Path
) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    place = tmp_path / "runs" / path
    found = json.loads(place.read_text()) if changed else {}
    found.pop(changed, None)
    place.write_text(json.dumps(found))
    with pytest.raises(InputError, match=sentence):
        written(tmp_path / "runs")


@pytest.mark.parametrize("line", ["{}", "[]", "7", "not JSON", '{"challenge": 1, "problem": 2, "draft": 3}'])
def test_a_file_of_duels_with_a_broken_line_is_named(line: str, runs: Path, tmp_path: Path) -> None:
    run = shutil.copytree(runs / "coop-s0-lr3e-4", tmp_path / "coop")
    log = Run(run).duels()
    log.folder.mkdir(exist_ok=True)
    (log.folder / "00000.jsonl").write_text(f"{line}\n")
    with pytest.raises(InputError, match=r"00000.jsonl has a line that is no duel"):
        log.last(9)


def test_one_run_gives_the_same_page_with_what_one_run_has(runs: Path) -> None:
    page = written(runs, "coop-s0-lr3e-4")
    assert page.startswith("# Report of coop-s0-lr3e-4\n")
    assert "Seeds were not varied" in page
    assert "**Does competition help beyond exchange? Cannot be said.**" in page
    assert "There is no finished and tested run of `agon`." in page
    assert re.search(r"\*\*Does exchange help\? \(reading\) .+\*\*\n\n- `coop, after reading` ", page)
    for section in ("Main table", "Accuracy and tokens", "Training", "Budget and tokens", "How to repeat it"):
        assert f"\n## {section}\n" in page
    assert "agon train recipe.yaml --method coop --seed 0" in page


def test_a_run_that_was_cut_short_is_shown_as_such_and_not_compared(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    Run(tmp_path / "runs" / "agon-s1-lr3e-4").write_summary({"finished": False, "steps": 8, "max_steps": 32})
    page = written(tmp_path / "runs")
    states = {row[0]: row[3:] for row in rows(page, "Cells**")}
    assert states["agon-s1-lr3e-4"] == ["**unfinished**", "8 of 32 steps; `agon train --resume` goes on"]
    assert not any("agon-s1-lr3e-4" in row for row in rows(page, "bits test: 24 problems, 2 samples each"))
    alone = written(tmp_path / "runs", "agon-s1-lr3e-4")
    assert "\n## Training\n" in alone
    assert "No run here was tested" in alone


def test_accuracy_on_held_out_problems_is_drawn_where_it_was_measured(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "agon-s0-lr3e-4", tmp_path / "agon")
    assert "No run was evaluated on held-out problems" in written(tmp_path, "agon")
    for step, rate in ((4, 0.25), (8, 0.5)):
        Run(tmp_path / "agon").add_metrics({"step": step, "eval_headline": rate})
    with inside(tmp_path):
        sections = {one.name: one for one in build_report(["agon"], {}).page.sections}
    (beside,) = sections["over-training"].blocks
    assert isinstance(beside, Beside)
    ours, paper = beside.pictures
    assert isinstance(ours, Chart)
    assert isinstance(paper, Chart)
    assert ours.series[0].points == ((8.0, 25.0), (16.0, 50.0))  # 2 problems a step
    assert [one.label for one in paper.series] == ["grpo", "self-refine", "coop", "agon"]


def test_the_command_writes_what_the_names_of_its_files_ask_for(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(runs / "coop-s0-lr3e-4", tmp_path / "coop")
    targets = [tmp_path / "out" / f"page.{suffix}" for suffix in ("html", "md", "tex")]
    words = [word for target in targets for word in ("--out", str(target))]
    assert agon(["report", str(run), *words, "--title", "A <title>"]) == 0
    assert capsys.readouterr().out.split() == list(map(str, targets))
    html, text, tex = (target.read_text("utf-8") for target in targets)
    assert "<title>A &lt;title&gt;</title>" in html
    pictures = re.findall(r"\]\((page-figures/[^)]+)\)", text)
    assert pictures
    for picture in pictures:
        ElementTree.parse(tmp_path / "out" / picture)
    assert tex.count(r"\begin{axis}") == tex.count(r"\end{axis}") == len(pictures)
    assert agon(["report", str(run)]) == 0
    assert (run / "report.html").is_file()


def test_verdicts_are_there_for_a_program(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert agon(["report", str(runs), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert not (runs / "report.html").exists()
    compared, other = found["groups"]
    assert [one["claim"] for one in compared["verdicts"]] == ["exchange", "competition", "tokens"]
    assert compared["verdicts"][0]["tested"]["seeds"] == [1, 1]
    assert other["verdicts"] == []
    assert {cell["state"] for cell in found["cells"]} == {"done"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothing"], "There is no run 'nothing'"),
        (["."], "'.' holds no runs"),
        (["runs", "runs"], "Two runs are called 'agon-s0-lr3e-4'"),
        (["runs", "--out", "report.pdf"], "A report is written as .html, .md, .tex, not as 'report.pdf'"),
        (["nothing", "--out", "report.pdf"], "A report is written as .html, .md, .tex, not as 'report.pdf'"),
        (["runs", "--out", "file/report.html"], "file/report.html cannot be written, as a file is where"),
        (["runs", "--out", "file/deeper/report.md"], "file/deeper/report.md cannot be written"),
    ],
)
def test_what_cannot_be_reported_is_refused_in_one_sentence(
    words: list[str], sentence: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs").symlink_to(runs)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    with inside(tmp_path / "empty" if words == ["."] else tmp_path):
        assert agon(["report", *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
