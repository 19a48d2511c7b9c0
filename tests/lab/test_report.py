"""The report of a comparison: every figure is one of the runs', and copies without texts give the same bytes."""

import json
import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from agon.cli import main as agon
from agon.evaluate.samples import Attempt
from agon.evaluate.tables import interval, percent
from agon.evaluate.transitions import Exchange
from agon.game.problem import Problem
from agon.lab.curves import colour, curves
from agon.lab.quotes import Quote
from agon.lab.quotes import markdown as quoted_as
from agon.lab.records import Record, common_rate, read_record, read_records
from scripts.first_light_report import main
from scripts.lean_outcomes import main as lean
from tests.evaluate.tiny import save_base, save_problems, save_run

PAGES = ["curves.svg", "learning-rate.md", "tables.md", "transitions.md"]
RUNS = [("grpo", 0, 3e-4), ("grpo", 0, 1e-3), ("coop", 0, 3e-4), ("agon", 0, 3e-4), ("agon", 1, 3e-4)]
FIRST_LIGHT = Path(__file__).parents[2] / "docs" / "results" / "qwen2.5-coder-0.5b"
BUDGET = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4, "num_iterations": 1}


def name_of(method: str, seed: int, rate: float) -> str:
    return f"{method}-s{seed}-lr{rate:.0e}".replace("e-0", "e-")


def steps(method: str, seed: int, count: int = 8) -> list[dict[str, Any]]:
    """Lines of metrics that tell methods, seeds and steps apart."""
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


def trained(folder: Path, base: Path, problems: Path, method: str, seed: int, rate: float) -> Path:
    run = save_run(folder, base, problems, method, seed, learning_rate=rate, **BUDGET)
    (run / "summary.json").write_text(json.dumps({"finished": True, "steps": 8, "seconds": 32.0}))
    (run / "environment.json").write_text(json.dumps({"gpu": "Abacus", "processes": 1}))
    (run / "times.json").write_text(json.dumps({"train": 40.0, "validation": 5.0}))
    lines = [*steps(method, seed), {"step": 8, "eval_best": 0.5}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("parts")
    return save_base(folder / "model"), save_problems(folder / "bits.jsonl", count=32, validation=8)


@pytest.fixture(scope="module")
def runs(parts: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods at one rate, one of them with two seeds; another rate that only saw validation; the controls."""
    folder = tmp_path_factory.mktemp("runs")
    base, problems = parts
    for method, seed, rate in RUNS:
        run = trained(folder / name_of(method, seed, rate), base, problems, method, seed, rate)
        evaluate = ["eval", str(run), "--no-controls", "--samples", "2"]
        if method == "grpo":
            assert agon([*evaluate, "--split", "validation"]) == 0
        if rate == 3e-4:
            assert agon(evaluate) == 0
            (run / "times.json").write_text(json.dumps({"train": 40.0, "validation": 5.0, "test": 9.0}))
    decoding = ["--max-tokens", "3", "--temperature", "0.9", "--samples", "2"]
    plain = ["eval", str(base), "--task", str(problems), *decoding, "--output", str(folder / "controls")]
    assert agon(plain) == 0
    return folder


@pytest.fixture(scope="module")
def pages(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    out = tmp_path_factory.mktemp("report") / "new"
    assert main([str(runs), "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == PAGES
    return {path.name: path.read_text("utf-8") for path in out.iterdir()}


def rows(page: str, title: str) -> list[list[str]]:
    """The cells below a table's title, headings left out."""
    table = page.split(f"**{title}", 1)[1].split("\n\n")[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def result(runs: Path, run: str, where: str = "evaluations/bits-test") -> dict[str, Any]:
    return dict(json.loads((runs / run / where / "result.json").read_text()))


def test_lean_copies_elsewhere_give_the_same_bytes(runs: Path, pages: dict[str, str], tmp_path: Path) -> None:
    assert lean([*map(str, sorted(runs.iterdir())), "--out", str(tmp_path / "copies")]) == 0
    assert main([str(tmp_path / "copies"), "--out", str(tmp_path / "out")]) == 0
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

    apart = headline("agon-s0-lr3e-4", "agon-s1-lr3e-4") - headline("grpo-s0-lr3e-4")
    assert found["agon - grpo"] == pytest.approx(100 * apart, abs=0.051)
    assert "agon: mean " in pages["tables.md"]  # over its two seeds


def test_a_cascade_is_set_against_its_reader_and_its_drafter(runs: Path, pages: dict[str, str]) -> None:
    found = rows(pages["tables.md"], "bits test**")
    assert [tuple(row[:2]) for row in found] == [
        ("controls", "self-cascade"),
        ("grpo-s0-lr3e-4", "A->A"),
        *((f"{run}-lr3e-4", way) for run in ("coop-s0", "agon-s0", "agon-s1") for way in ("A->B", "B->A")),
        ("**coop**", "all"),
        ("**agon**", "all"),
    ]
    told = {}
    for run, way, *cells in found[1:8]:
        arms = result(runs, run)["arms"]
        drafter, reader = way.split("->")
        final, alone, first = (arms[name]["pass@1"] for name in (way, reader, drafter))
        assert [cells[0], cells[1], cells[5]] == [percent(value) for value in (final, alone, first)]
        assert float(cells[2]) == pytest.approx(100 * (final - alone), abs=0.051)
        assert float(cells[6]) == pytest.approx(100 * (final - first), abs=0.051)
        told[run, way] = final
    agon = [value for (run, _), value in told.items() if run.startswith("agon")]
    assert float(found[-1][2]) == pytest.approx(100 * sum(agon) / 4, abs=0.051)


def test_a_note_beside_a_run_is_told_and_keeps_it_out_of_the_exchange(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    (tmp_path / "runs" / "coop-s0-lr3e-4" / "note.txt").write_text("read with\nanother prompt.\n")
    assert main([str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    told = (tmp_path / "out" / "tables.md").read_text()
    assert "- coop-s0-lr3e-4: read with another prompt." in told
    assert not any(row[0].startswith("coop") for row in rows(told, "bits test**"))
    assert any(row[0] == "**coop-s0-lr3e-4**" for row in rows(told, "bits test: 24 problems"))


def test_signal_is_what_each_adapter_learned_from(pages: dict[str, str]) -> None:
    found = {row[0]: row[1:] for row in rows(pages["tables.md"], "Training signal")}
    # 8 steps of 32 rollouts; a quarter of grpo's groups and of the drafts, half of the challenges taught nothing.
    assert found["grpo-s0-lr3e-4"][:4] == ["1", "256", "192", "75.0"]
    # An adapter drafts in 4 of the steps and challenges in the others: 4 x 16 x 0.75 + 4 x 16 x 0.5.
    assert found["agon-s1-lr3e-4"][:4] == ["2", "128", "80", "62.5"]
    assert found["agon-s1-lr3e-4"][4:8] == ["46.9", "53.1", "20.0", "5.0"]
    # grpo had had 80 of its 24 a step after step 4, over the two steps to which it got 3 and 4 of 16 right.
    assert found["agon-s1-lr3e-4"][8] == percent((3 + 4) / 32)
    assert found["grpo-s0-lr3e-4"][5:] == ["", "", "", ""]


def test_the_budget_is_what_the_steps_were_fed_with(pages: dict[str, str]) -> None:
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


def test_rates_are_told_by_validation_and_by_how_training_ended(runs: Path, pages: dict[str, str]) -> None:
    found = rows(pages["learning-rate.md"], "Learning rates; validation: 8 problems")
    for row, run in zip(found, ("grpo-s0-lr3e-4", "grpo-s0-lr1e-3"), strict=True):
        figures = result(runs, run, "evaluations/bits-validation")["arms"]["A"]
        assert row[1:4] == [run, percent(figures["pass@1"]), interval(figures["ci95"])]
        # Of 8 steps the first two and the last two: (1 + 2) / 32, (7 + 8) / 32.
        assert row[4:] == ["9.4", "46.9", "98", "92", "50.0", "25.0"]
    assert "grpo-s0-lr3e-4 - grpo-s0-lr1e-3" in pages["learning-rate.md"]
    assert "besides the rate" not in pages["learning-rate.md"]


def test_what_else_differs_between_rates_is_named(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    path = tmp_path / "runs" / "grpo-s0-lr1e-3" / "config.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "lora_r": 4}))
    assert main([str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    told = (tmp_path / "out" / "learning-rate.md").read_text()
    assert "Settings that differ besides the rate: lora_r." in told


def test_transitions_are_those_of_the_results_both_directions(runs: Path, pages: dict[str, str]) -> None:
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
    tmp_path: Path, parts: tuple[Path, Path]
) -> None:
    for seed, count in ((0, 8), (1, 6)):
        run = trained(tmp_path / f"agon-{seed}", *parts, "agon", seed, 3e-4)
        (run / "metrics.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in steps("agon", seed, count))
        )
    picture = ElementTree.fromstring(curves(read_records(tmp_path)))
    lines = list(picture.iter("{http://www.w3.org/2000/svg}polyline"))
    assert [len(line.attrib["points"].split()) for line in lines[:6]] == [5, 3, 5, 3, 3, 3]


def test_the_rate_of_the_comparison_is_that_of_most_tested_runs_or_the_one_asked_for(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [record for record in read_records(runs) if record.trained]
    assert common_rate(records) == 3e-4
    untested = next(record for record in records if record.rate == 1e-3)
    others = [Record(untested.folder, {**untested.config, "learning_rate": rate}) for rate in (3e-4, 3e-4)]
    assert common_rate([untested, *others]) == 3e-4
    assert common_rate([untested, untested, untested, *records[:1]]) == 3e-4
    assert main([str(runs), "--out", str(tmp_path / "out"), "--rate", "1e-3"]) == 0
    told = (tmp_path / "out" / "tables.md").read_text()
    assert "## Methods over seeds, at the learning rate 0.001" in told
    assert "bits: there are no two methods to contrast" in told
    assert main([str(runs), "--out", str(tmp_path / "none"), "--rate", "7"]) == 2
    assert "has the learning rate 7." in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_runs_of_unlike_budgets_are_not_put_into_one_table(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    path = tmp_path / "runs" / "coop-s0-lr3e-4" / "config.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "num_generations": 8}))
    assert main([str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 2
    assert "differ in their training budget: num_generations" in capsys.readouterr().err


@pytest.fixture
def formed(runs: Path, tmp_path: Path) -> tuple[Path, dict[tuple[str, str, int], dict[str, Any]]]:
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
    formed: tuple[Path, dict[tuple[str, str, int], dict[str, Any]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, samples = formed
    assert main(["--duels", str(run), "--count", "2"]) == 0
    section = capsys.readouterr().out.split(f"## {kind}\n")[1].split("\n## ")[0]
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
    assert "````text\nso\n```\nprint(7)\n```\n````" in quoted_as([quote])


def test_what_cannot_be_reported_or_quoted_is_one_sentence(
    runs: Path, parts: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lean([str(runs / "agon-s0-lr3e-4"), "--out", str(tmp_path / "lean")]) == 0
    moved = tmp_path / "moved"
    shutil.copytree(runs / "coop-s0-lr3e-4", moved)
    task = json.loads((moved / "task.json").read_text())
    (moved / "task.json").write_text(json.dumps({**task, "spec": "gone.jsonl"}))
    other = tmp_path / "other"
    shutil.copytree(runs / "coop-s0-lr3e-4", other)
    elsewhere = save_problems(tmp_path / "fewer.jsonl", count=20, validation=8)
    (other / "task.json").write_text(json.dumps({**task, "spec": str(elsewhere)}))
    for words, sentence in (
        ([str(tmp_path / "nothing"), "--out", str(tmp_path / "out")], "holds no runs"),
        (
            ["--duels", str(tmp_path / "lean" / "agon-s0-lr3e-4")],
            "holds no texts to quote: give the whole run",
        ),
        (["--duels", str(runs / "grpo-s0-lr1e-3")], "has no test evaluation to quote from"),
        (["--duels", str(moved)], "cannot be loaded"),
        (["--duels", str(other)], "are not those of 'other'"),
    ):
        capsys.readouterr()
        assert main(words) == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert error.count("\n") == 1


def test_a_record_leaves_out_the_lines_of_validation(runs: Path) -> None:
    record = read_record(runs / "coop-s0-lr3e-4")
    assert [line["step"] for line in record.steps] == list(range(1, 9))
    assert list(record.evaluations("test")) == ["bits"]


def test_the_committed_report_is_what_the_committed_outcomes_give(tmp_path: Path) -> None:
    """But for the last digit, which another machine's arithmetic may round the other way."""
    assert main([str(FIRST_LIGHT / "runs"), "--out", str(tmp_path)]) == 0
    for page in PAGES:
        made, kept = (split_numbers((folder / page).read_text("utf-8")) for folder in (tmp_path, FIRST_LIGHT))
        assert made[0] == kept[0]
        assert len(made[1]) == len(kept[1])
        for one, other in zip(made[1], kept[1], strict=True):
            assert float(one) == pytest.approx(float(other), abs=1.01 * last_digit(other)), page


def split_numbers(text: str) -> tuple[list[str], list[str]]:
    """What stands between a text's numbers, and the numbers."""
    number = r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-\d+)?"
    return re.split(number, text), [found.replace(",", "") for found in re.findall(number, text)]


def last_digit(number: str) -> float:
    """What one more in the last digit of a number is worth."""
    digits, _, power = number.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
