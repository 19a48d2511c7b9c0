"""`agon compare`: paired, corrected, seeds apart from sampling, and nothing unlike compared."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from agon.cli import main
from agon.evaluate.compare import compare, enter
from agon.evaluate.intervals import bootstrap_interval, mcnemar_exact
from tests.evaluate.tiny import save_run

RESULT = Path("evaluations") / "bits-test" / "result.json"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, base: Path, problems: Path) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    made = {}
    for method, seed in (("agon", 0), ("agon", 1), ("coop", 0), ("coop", 1), ("grpo", 0)):
        name = f"{method}-{seed}"
        made[name] = save_run(folder / name, base, problems, method, seed)
        assert (
            main(
                [
                    "eval",
                    str(made[name]),
                    "--no-controls",
                    "--direction",
                    "A->A" if method == "grpo" else "AB",
                ]
            )
            == 0
        )
    return made


def compared(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["compare", *map(str, words), "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def finals(run: Path) -> dict[str, bool]:
    """Each problem's final verdict in A->B, read from the file."""
    rows = [json.loads(line) for line in (run / RESULT).with_name("samples.jsonl").read_text().splitlines()]
    return {row["problem"]: row["finals"][0]["correct"] for row in rows if row["play"] == "A->B"}


def test_two_runs_are_paired_problem_by_problem(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = compared(capsys, runs["agon-0"], runs["coop-1"])
    (row,) = comparison["contrasts"]
    one, other = finals(runs["agon-0"]), finals(runs["coop-1"])
    only_first = sum(one[problem] and not other[problem] for problem in one)
    only_second = sum(other[problem] and not one[problem] for problem in one)
    assert (row["only_first"], row["only_second"]) == (only_first, only_second)
    assert only_first + only_second > 0
    assert row["p"] == row["p_holm"] == mcnemar_exact(only_first, only_second)
    assert row["difference"] == pytest.approx((only_first - only_second) / 32)
    assert row["ci95"][0] <= row["difference"] <= row["ci95"][1]
    assert row["across_seeds"] is None


def test_three_runs_are_corrected_for_three_contrasts(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = compared(capsys, runs["agon-0"], runs["coop-0"], runs["grpo-0"])
    names = [(row["first"], row["second"]) for row in comparison["contrasts"]]
    assert names == [("agon", "coop"), ("agon", "grpo"), ("coop", "grpo")]
    smallest = min(comparison["contrasts"], key=lambda row: row["p"])
    assert smallest["p_holm"] == pytest.approx(min(1.0, 3 * smallest["p"]))
    assert comparison["sides"]["grpo"]["runs"][0]["arm"] == "A"


def test_only_the_contrasts_asked_for_are_corrected_for(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [runs["agon-0"], runs["coop-0"], runs["grpo-0"], "--contrast", "agon:grpo"]
    (row,) = compared(capsys, *words)["contrasts"]
    assert (row["first"], row["second"], row["p_holm"]) == ("agon", "grpo", row["p"])


def test_seeds_of_a_method_are_one_side_and_their_spread_stands_apart(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = compared(capsys, runs["agon-0"], runs["agon-1"], runs["coop-0"], runs["coop-1"])
    assert list(comparison["sides"]) == ["agon", "coop"]
    side = comparison["sides"]["agon"]
    one, other = (sum(finals(runs[name]).values()) / 32 for name in ("agon-0", "agon-1"))
    assert one != other
    assert side["across_seeds"]["training"] == pytest.approx(abs(one - other) / 2**0.5)
    assert 0.05 < side["across_seeds"]["sampling"] < 0.1  # sqrt(p(1 - p) / 32) and thereabouts
    (row,) = comparison["contrasts"]
    assert row["test"] == "sign flips by problem"
    assert row["across_seeds"]["test"] == "Welch, over runs"
    means = [[finals(runs[f"{method}-{seed}"]) for seed in (0, 1)] for method in ("agon", "coop")]
    order = json.loads((runs["agon-0"] / RESULT).read_text())["problems"]
    apart = [sum(seed[p] for seed in means[0]) / 2 - sum(seed[p] for seed in means[1]) / 2 for p in order]
    assert row["ci95"] == pytest.approx(list(bootstrap_interval(np.array(apart))))


def test_unequal_numbers_of_seeds_are_compared_by_problem(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = compared(capsys, runs["agon-0"], runs["agon-1"], runs["coop-0"])["contrasts"]
    assert row["only_first"] is None
    assert row["across_seeds"] is None


def test_a_run_equals_itself(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(runs["agon-0"], copy)
    (row,) = compared(capsys, runs["agon-0"], copy)["contrasts"]
    assert (row["first"], row["second"]) == ("agon-0", "copy")
    assert (row["difference"], row["p"]) == (0.0, 1.0)
    assert row["ci95"][0] < 0 < row["ci95"][1]


@pytest.mark.parametrize("form", [[], ["--markdown"], ["--latex"]])
def test_every_form_names_the_sides_and_the_contrast(
    runs: dict[str, Path], form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["compare", str(runs["agon-0"]), str(runs["coop-0"]), *form]) == 0
    shown = capsys.readouterr().out
    assert "agon - coop" in shown
    assert "exact McNemar" in shown


def changed(run: Path, copy: Path, what: str, value: object) -> Path:
    """A copy of a run with one thing different."""
    shutil.copytree(run, copy)
    if what in ("fingerprint", "samples"):
        edit(copy / RESULT, lambda result: {**result, what: value})
    elif what == "temperature":
        edit(copy / RESULT, lambda result: {**result, "decoding": {**result["decoding"], what: value}})
    elif what == "steps":
        edit(copy / "summary.json", lambda summary: {**summary, what: value})
    elif what == "training problems":
        edit(
            copy / "task.json",
            lambda task: {**task, "fingerprints": {**task["fingerprints"], "train": value}},
        )
    else:
        config = yaml.safe_load((copy / "config.yaml").read_text())
        (copy / "config.yaml").write_text(yaml.safe_dump({**config, what: value}))
    if what == "model":
        settings = (copy / RESULT).with_name("settings.json")
        edit(settings, lambda found: {**found, "weights": {**found["weights"], "base": "of another model"}})
    return copy


def edit(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


@pytest.mark.parametrize(
    ("what", "value", "sentence"),
    [
        ("fingerprint", "0123", "differ in their problems: fingerprint is"),
        ("temperature", 1.0, "differ in their decoding: temperature is 0.9 in agon-0 and 1.0 in other"),
        (
            "num_generations",
            32,
            "differ in their training budget: num_generations is 16 in agon-0 and 32 in other",
        ),
        ("max_completion_length", 9, "max_completion_length is 3 in agon-0 and 9 in other"),
        ("steps", 99, "steps is 10 in agon-0 and 99 in other"),
        ("training problems", "0123", "training problems is None in agon-0 and '0123' in other"),
        ("model", "elsewhere", "model is"),
    ],
)
def test_runs_that_are_unlike_are_refused_and_the_difference_named(
    runs: dict[str, Path],
    tmp_path: Path,
    what: str,
    value: object,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = changed(runs["coop-0"], tmp_path / "other", what, value)
    assert main(["compare", str(runs["agon-0"]), str(other)]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_the_same_base_in_another_folder_is_the_same_model(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = shutil.copytree(runs["coop-0"], tmp_path / "moved")
    config = yaml.safe_load((moved / "config.yaml").read_text())
    (moved / "config.yaml").write_text(yaml.safe_dump({**config, "model": "/elsewhere/the/same"}))
    before = compared(capsys, runs["agon-0"], runs["coop-0"])["contrasts"]
    assert compared(capsys, runs["agon-0"], moved)["contrasts"] == before


def test_an_evaluation_from_before_an_option_of_decoding_is_compared_at_its_default(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = shutil.copytree(runs["coop-0"], tmp_path / "older")
    edit(
        older / RESULT,
        lambda result: {
            **result,
            "decoding": {name: value for name, value in result["decoding"].items() if name != "ignore_stop"},
        },
    )
    before = compared(capsys, runs["agon-0"], runs["coop-0"])["contrasts"]
    assert compared(capsys, runs["agon-0"], older)["contrasts"] == before
    assert (
        main(["compare", str(runs["agon-0"]), str(changed(older, tmp_path / "o", "temperature", 0.1))]) == 2
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["agon-0"], "needs at least two runs"),
        (["agon-0", "agon-1"], "nothing to contrast them with"),
        (["agon-0", "coop-0", "--contrast", "agon"], "written ONE:OTHER"),
        (["agon-0", "coop-0", "--contrast", "agon:grpo"], "Unknown side of a contrast 'grpo'"),
        (["agon-0", "coop-0", "--arm", "moa"], "Unknown arm of"),
        (["agon-0", "coop-0", "--split", "validation"], "has no validation evaluation yet: run `agon eval"),
        (["agon-0", "coop-0", "--task", "gsm8k"], "has no test evaluation of 'gsm8k' yet"),
    ],
)
def test_bad_input_is_one_sentence(
    runs: dict[str, Path], words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["compare", *(str(runs.get(word, word)) for word in words)]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_a_side_holds_its_runs_samples_side_by_side(runs: dict[str, Path]) -> None:
    entrants = [enter(str(runs[name])) for name in ("agon-0", "agon-1", "coop-0")]
    assert [entrant.correct.shape for entrant in entrants] == [(32, 1)] * 3
    mean = compare(entrants)["sides"]["agon"]["pass@1"]
    assert mean == pytest.approx((entrants[0].correct.mean() + entrants[1].correct.mean()) / 2)


def test_arms_of_one_run_are_told_apart(runs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"{runs[run]}@{arm}" for run in ("coop-0", "coop-1") for arm in ("A->B", "A")]
    comparison = compared(capsys, *words)
    assert list(comparison["sides"]) == ["coop A->B", "coop A"]
    assert [row["run"] for row in comparison["sides"]["coop A"]["runs"]] == ["coop-0", "coop-1"]
    (row,) = comparison["contrasts"]
    arms = [json.loads((runs[run] / RESULT).read_text())["arms"] for run in ("coop-0", "coop-1")]
    difference = sum(one["A->B"]["pass@1"] - one["A"]["pass@1"] for one in arms) / 2
    assert row["difference"] == pytest.approx(difference)


def test_an_at_in_a_folders_name_is_no_arm(runs: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "coop@home"
    shutil.copytree(runs["coop-0"], folder)
    assert enter(str(folder)).arm == "A->B"
    assert enter(f"{folder}@A").arm == "A"
