"""The report of a comparison: every figure comes from the runs, and copies without texts give the same bytes."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from agon.cli import main as agon
from agon.errors import InputError
from agon.evaluate.draft_effects import Exchange
from agon.game.problem import Problem
from agon.reports.comparison import report, write_report
from agon.reports.curves import colour, curves
from agon.reports.quotes import Quote, markdown, quote_runs
from agon.reports.tables import interval, percent
from agon.runs.evaluations import EvaluationFolder
from agon.runs.folder import Run
from agon.runs.lean import lean_copy
from agon.runs.records import Record, common_rate, read_record, read_records
from agon.runs.samples import Attempt
from tests.evaluate.tiny import save_base, save_problems, save_run

PAGES = ["curves.svg", "learning-rate.md", "tables.md", "transitions.md"]
RUNS = [("grpo", 0, 3e-4), ("grpo", 0, 1e-3), ("coop", 0, 3e-4), ("agon", 0, 3e-4), ("agon", 1, 3e-4)]
ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "docs" / "results" / "qwen2.5-coder-0.5b"
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


@pytest.fixture(scope="module")
def pages(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    out = tmp_path_factory.mktemp("report") / "new"
    assert sorted(write_report(runs, out)) == sorted(out.iterdir())
    assert sorted(path.name for path in out.iterdir()) == PAGES
    return {path.name: path.read_text("utf-8") for path in out.iterdir()}


def rows(page: str, title: str) -> list[list[str]]:
    """The cells of the table with a title, without its headings."""
    table = page.split(f"**{title}", 1)[1].split("\n\n")[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def result(runs: Path, run: str, where: str = "evaluations/bits-test") -> dict[str, Any]:
    return EvaluationFolder(runs / run / where).read_result()


def test_lean_copies_elsewhere_give_the_same_bytes(runs: Path, pages: dict[str, str], tmp_path: Path) -> None:
    for run in sorted(runs.iterdir()):
        lean_copy(run, tmp_path / "copies")
    write_report(tmp_path / "copies", tmp_path / "out")
    assert {name: (tmp_path / "out" / name).read_text("utf-8") for name in PAGES} == pages
    assert not any(str(runs) in page for page in pages.values())


def test_every_arm_of_every_tested_run_and_the_controls_are_in_the_first_table(
    runs: Path, pages: dict[str, str]
) -> None:
    found = rows(pages["tables.md"], "bits test: 24 problems")
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
        assert f"- {run} {result(runs, run)['headline']} - zero-shot: " in pages["tables.md"]


def test_later_methods_are_contrasted_with_earlier_ones(runs: Path, pages: dict[str, str]) -> None:
    found = {row[0]: float(row[1]) for row in rows(pages["tables.md"], "Contrasts, paired by problem")}
    assert list(found) == ["coop - grpo", "agon - grpo", "agon - coop"]

    def headline(*runs_of: str) -> float:
        outcomes = [result(runs, run) for run in runs_of]
        return sum(one["arms"][one["headline"]]["pass@1"] for one in outcomes) / len(outcomes)

    difference = headline("agon-s0-lr3e-4", "agon-s1-lr3e-4") - headline("grpo-s0-lr3e-4")
    assert found["agon - grpo"] == pytest.approx(100 * difference, abs=0.051)
    assert "agon: mean " in pages["tables.md"]  # over its two seeds


def test_a_cascade_is_compared_with_its_reader_and_its_drafter(runs: Path, pages: dict[str, str]) -> None:
    found = rows(pages["tables.md"], "bits test**")
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
    tables = report(tmp_path / "runs")["tables.md"]
    assert "- coop-s0-lr3e-4: read with another prompt." in tables
    assert not any(row[0].startswith("coop") for row in rows(tables, "bits test**"))
    assert any(row[0] == "**coop-s0-lr3e-4**" for row in rows(tables, "bits test: 24 problems"))


def test_signal_counts_the_rollouts_that_each_adapter_learned_from(pages: dict[str, str]) -> None:
    found = {row[0]: row[1:] for row in rows(pages["tables.md"], "Training signal")}
    # 8 steps of 32 rollouts; a quarter of grpo's groups and of the drafts, half of the challenges taught nothing.
    assert found["grpo-s0-lr3e-4"][:4] == ["1", "256", "192", "75.0"]
    # An adapter drafts in 4 of the steps and challenges in the others: 4 x 16 x 0.75 + 4 x 16 x 0.5.
    assert found["agon-s1-lr3e-4"][:4] == ["2", "128", "80", "62.5"]
    assert found["agon-s1-lr3e-4"][4:8] == ["46.9", "53.1", "20.0", "5.0"]
    # grpo, with 24 a step, had got its 80 after step 4; of steps 3 and 4 it got 3 and 4 of 16 right.
    assert found["agon-s1-lr3e-4"][8] == percent((3 + 4) / 32)
    assert found["grpo-s0-lr3e-4"][5:] == ["", "", "", ""]


def test_the_budget_counts_what_the_steps_were_given(pages: dict[str, str]) -> None:
    found = rows(pages["tables.md"], "Training budget")
    assert [row[0] for row in found] == [name_of(*run) for run in RUNS]
    # 8 steps of 8 x 4 rollouts, 16 of them a problem; 100 tokens a second times the step, for 2 s at odd steps.
    tokens = sum(100 * step * (1 + step % 2) for step in range(1, 9)) + 800
    assert tokens == 6000
    for row in found:
        assert row[2:] == ["16", "256", "8", "3", "0.01 M", f"{tokens / 256:.0f}", "0.01 M"]


def test_the_use_of_the_gpu_is_summed_over_runs_and_controls(pages: dict[str, str]) -> None:
    found = {row[0]: row[1:] for row in rows(pages["tables.md"], "GPU use: Abacus")}
    assert list(found) == ["controls", *(name_of(*run) for run in RUNS), "all"]
    assert found["controls"] == ["-", "-", "-", "-", "0.00", "-", "-", "-", "-", "-"]
    assert found["coop-s0-lr3e-4"] == ["8", "40", "5", "9", "0.01", "4.0", "38%", "450", "4.0", "2.0"]
    assert found["grpo-s0-lr1e-3"][3] == "-"
    seconds = 5 * 40 + 5 * 5 + 4 * 9
    assert found["all"][1:5] == ["200", "25", "36", f"{seconds / 3600:.2f}"]


def test_rates_are_compared_by_validation_and_by_how_training_ended(
    runs: Path, pages: dict[str, str]
) -> None:
    found = rows(pages["learning-rate.md"], "Learning rates; validation: 8 problems")
    for row, run in zip(found, ("grpo-s0-lr3e-4", "grpo-s0-lr1e-3"), strict=True):
        figures = result(runs, run, "evaluations/bits-validation")["arms"]["A"]
        assert row[1:4] == [run, percent(figures["pass@1"]), interval(figures["ci95"])]
        # Of 8 steps the first two and the last two: (1 + 2) / 32, (7 + 8) / 32.
        assert row[4:] == ["9.4", "46.9", "98", "92", "50.0", "25.0"]
    assert "grpo-s0-lr3e-4 - grpo-s0-lr1e-3" in pages["learning-rate.md"]
    assert "besides the learning rate" not in pages["learning-rate.md"]


def test_what_else_differs_between_rates_is_named(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    change_config(tmp_path / "runs" / "grpo-s0-lr1e-3", lora_r=4)
    page = report(tmp_path / "runs")["learning-rate.md"]
    assert "Settings that differ besides the learning rate: lora_r." in page


def test_transitions_of_both_directions_are_those_of_the_results(runs: Path, pages: dict[str, str]) -> None:
    found = rows(pages["transitions.md"], "bits test")
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


def test_curves_are_of_the_compared_runs_and_end_with_the_last_mean(
    runs: Path, pages: dict[str, str]
) -> None:
    picture = ElementTree.fromstring(pages["curves.svg"])
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    for label in ("grpo", "coop, challenges", "agon, drafts", "coop, converted", "agon, corrupted"):
        assert label in texts
    assert "grpo, drafts" not in texts
    lines = list(picture.iter("{http://www.w3.org/2000/svg}polyline"))
    # Of each panel: grpo and both streams of two pairs, or two lines of two pairs; two seeds of agon's lines.
    assert len(lines) == (5 + 4) + (5 + 4) + (4 + 4)
    assert sum(line.attrib["stroke"] == colour("agon") for line in lines) == 3 * (2 + 4)
    assert {len(line.attrib["points"].split()) for line in lines} == {5}  # 8 steps, 4 in a mean


def test_a_shorter_seed_ends_the_mean_but_not_the_other_seed(
    tmp_path: Path, base_and_problems: tuple[Path, Path]
) -> None:
    for seed, count in ((0, 8), (1, 6)):
        trained(tmp_path / f"agon-{seed}", *base_and_problems, "agon", seed, 3e-4, count)
    picture = ElementTree.fromstring(curves(read_records(tmp_path)))
    lines = list(picture.iter("{http://www.w3.org/2000/svg}polyline"))
    assert [len(line.attrib["points"].split()) for line in lines[:6]] == [5, 3, 5, 3, 3, 3]


def test_the_rate_of_the_comparison_is_that_of_most_tested_runs_or_the_one_asked_for(
    runs: Path, tmp_path: Path
) -> None:
    records = [record for record in read_records(runs) if record.trained]
    assert common_rate(records) == 3e-4
    untested = next(record for record in records if record.rate == 1e-3)
    others = [Record(Run(tmp_path / name)) for name in ("one", "other")]
    for other in others:
        other.run.write_config({**untested.config, "learning_rate": 3e-4})
    assert common_rate([untested, *others]) == 3e-4
    assert common_rate([untested, untested, untested, *records[:1]]) == 3e-4
    tables = report(runs, rate=1e-3)["tables.md"]
    assert "## Methods over seeds, at the learning rate 0.001" in tables
    assert "bits: there are no two methods to contrast" in tables
    with pytest.raises(InputError, match=r"has the learning rate 7\."):
        write_report(runs, tmp_path / "none", rate=7)
    assert not (tmp_path / "none").exists()


def test_runs_of_different_budgets_are_not_put_into_one_table(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    change_config(tmp_path / "runs" / "coop-s0-lr3e-4", num_generations=8)
    with pytest.raises(InputError, match="differ in their training budget: num_generations"):
        report(tmp_path / "runs")


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
    section = quote_runs([run], count=2).split(f"## {kind}\n")[1].split("\n## ")[0]
    quoted = re.findall(r"### agon-s0-lr3e-4, bits test: (A->B|B->A), (bit-\d+), sample (\d)", section)
    assert len({problem for _, problem, _ in quoted}) == len(quoted) == 2
    for play, problem, number in quoted:
        assert number == "0"  # the others are malformed
        sample = samples[play, problem, 0]
        draft, final = sample["drafts"][0], sample["finals"][0]
        assert (draft["reason"], final["reason"]) == (before, after)
        bit = int(problem.removeprefix("bit-"))
        for text in (f"p{bit} g{bit % 7}?", draft["text"], final["shown"], final["text"]):
            assert f"```text\n{text.strip()}\n```" in section
        assert f"**Problem (gold: {bit % 2})**" in section
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
    assert "````text\nso\n```\nprint(7)\n```\n````" in markdown([quote])


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
            quote_runs([folder])
        assert sentence in str(refused.value)
        assert "\n" not in str(refused.value)


def script(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "comparison_report.py"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_script_ends_with_one_sentence_where_there_are_no_runs(tmp_path: Path) -> None:
    ended = script(tmp_path / "nothing", "--out", tmp_path / "out")
    assert ended.returncode == 2
    assert "holds no runs" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_record_leaves_out_the_lines_of_validation(runs: Path) -> None:
    record = read_record(runs / "coop-s0-lr3e-4")
    assert [line["step"] for line in record.steps] == list(range(1, 9))
    assert list(record.evaluations("test")) == ["bits"]


def test_the_committed_tables_and_curves_are_what_the_committed_outcomes_give(tmp_path: Path) -> None:
    quick = [page for page in PAGES if page != "transitions.md"]
    assert sorted(path.name for path in write_report(COMMITTED / "runs", tmp_path, wanted=quick)) == quick
    hold_to_committed(tmp_path, quick)


@pytest.mark.exhaustive  # 28,000 pairs of answers are judged, for a minute
def test_the_committed_report_is_what_the_committed_outcomes_give(tmp_path: Path) -> None:
    ended = script(COMMITTED / "runs", "--out", tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.split()) == [str(tmp_path / page) for page in PAGES]
    hold_to_committed(tmp_path, PAGES)


def hold_to_committed(tmp_path: Path, pages: Sequence[str]) -> None:
    """Except for the last digit, which another machine's arithmetic may round the other way."""
    for page in pages:
        made, kept = (split_numbers((folder / page).read_text("utf-8")) for folder in (tmp_path, COMMITTED))
        assert made[0] == kept[0]
        assert len(made[1]) == len(kept[1])
        for one, other in zip(made[1], kept[1], strict=True):
            assert float(one) == pytest.approx(float(other), abs=1.01 * last_digit(other)), page


def split_numbers(text: str) -> tuple[list[str], list[str]]:
    """The text between numbers, and the numbers."""
    number = r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-\d+)?"
    return re.split(number, text), [found.replace(",", "") for found in re.findall(number, text)]


def last_digit(number: str) -> float:
    """The value of one unit in the last digit of a number."""
    digits, _, power = number.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
