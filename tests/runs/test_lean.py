"""Lean copies of evaluated runs: nothing that a comparison reads is missing, nothing that is large is there."""

import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from agon.cli import main
from agon.errors import InputError
from agon.evaluate.target import open_target
from agon.game.transcript import split
from agon.runs.folder import Run
from agon.runs.lean import lean_copy
from tests.evaluate.tiny import save_run

SCRIPT = Path(__file__).parents[2] / "scripts" / "lean_copies.py"
TEST = Path("evaluations") / "bits-test"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, base: Path, problems: Path) -> list[Path]:
    """Three runs, one of which chose its direction on validation, and a plain model's --output."""
    folder = tmp_path_factory.mktemp("runs")
    made = []
    for name, method, seed, words in (
        ("agon-0", "agon", 0, []),
        ("agon-1", "agon", 1, ["--no-controls", "--direction", "BA"]),
        ("coop-0", "coop", 0, ["--no-controls", "--direction", "AB"]),
    ):
        made.append(save_run(folder / name, base, problems, method, seed))
        run = Run(made[-1])
        run.add_metrics({"step": 1, "pair/distance": 0.5, "B/pooled/ess": 0.9, "A/entropy": 0.1})
        run.write_environment({})
        run.write_times({"train": 1.0})
        assert main(["eval", str(made[-1]), "--samples", "2", *words]) == 0
    decoding = ["--max-tokens", "3", "--temperature", "0.9"]
    made.append(folder / "plain")
    task = ["--task", str(problems), "--samples", "2"]
    assert main(["eval", str(base), *task, *decoding, "--output", str(made[-1])]) == 0
    return made


@pytest.fixture(scope="module")
def copies(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    out = tmp_path_factory.mktemp("copies") / "lean"
    return [lean_copy(run, out) for run in runs]


def test_a_copy_keeps_what_is_shown_of_a_step(copies: list[Path]) -> None:
    assert Run(copies[0]).read_metrics() == [{"step": 1, "pair/distance": 0.5, "B/pooled/ess": 0.9}]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def compared(capsys: pytest.CaptureFixture[str], folders: Iterable[Path], *words: str) -> str:
    capsys.readouterr()
    assert main(["compare", *map(str, folders), *words]) == 0
    return capsys.readouterr().out


def samples(folder: Path) -> list[dict[str, Any]]:
    packed = folder / "samples.jsonl.gz"
    content = gzip.decompress(packed.read_bytes()) if packed.exists() else None
    return [json.loads(line) for line in (content or (folder / "samples.jsonl").read_bytes()).splitlines()]


@pytest.mark.parametrize("form", [[], ["--json"], ["--markdown"], ["--latex"], ["--arm", "A", "--json"]])
def test_a_comparison_of_copies_prints_what_one_of_the_runs_prints(
    runs: list[Path], copies: list[Path], form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = compared(capsys, runs[:3], *form)
    assert "coop" in shown
    assert compared(capsys, copies[:3], *form) == shown


def test_an_output_folder_is_copied_like_a_run(
    runs: list[Path], copies: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert sorted(files(copies[3])) == [
        f"bits-test/{name}" for name in ("result.json", "samples.jsonl.gz", "settings.json")
    ]
    for arm in ("zero-shot", "moa"):
        words = ("--arm", arm, "--json")
        assert compared(capsys, [copies[0], copies[3]], *words) == compared(
            capsys, [runs[0], runs[3]], *words
        )


def test_one_evaluation_by_itself_is_copied_too(runs: list[Path], tmp_path: Path) -> None:
    assert lean_copy(runs[3] / "bits-test", tmp_path) == tmp_path / "bits-test"
    assert sorted(files(tmp_path / "bits-test")) == ["result.json", "samples.jsonl.gz", "settings.json"]


def test_a_copy_has_answers_for_texts_no_weights_and_everything_else(
    runs: list[Path], copies: list[Path]
) -> None:
    whole, copy = files(runs[0]), files(copies[0])
    left_out = {name for name in whole if name.endswith(("samples.jsonl", "adapter_model.safetensors"))}
    assert len(left_out) == 4  # of two splits, of two adapters
    packed = {f"evaluations/bits-{split}/samples.jsonl.gz" for split in ("test", "validation")}
    changed = packed | {"metrics.jsonl"}
    expected = {name: content for name, content in whole.items() if name in copy and name not in changed}
    assert {name: content for name, content in copy.items() if name not in changed} == expected
    records = {"config.yaml", "task.json", "summary.json", "metrics.jsonl", "environment.json", "times.json"}
    assert records < set(copy)
    assert {"adapters/A/adapter_config.json", "adapters/B/adapter_config.json"} < set(copy)
    assert not any("safetensors" in name or name.endswith(".bin") for name in copy)

    before, after = samples(runs[0] / TEST), samples(copies[0] / TEST)
    kept = set()
    for sample in before:
        for attempt in sample["drafts"] + sample["finals"]:
            answer = split(attempt["text"], "think").answer
            attempt["text"] = "" if answer is None else f"<answer>{answer}</answer>"
            attempt["shown"] = None if attempt["shown"] is None else ""
            kept.add(attempt["text"])
    assert after == before
    assert kept == {"", "<answer>0</answer>", "<answer>1</answer>"}


def test_a_copy_of_a_run_of_the_embedded_base_names_no_folder_of_its_machine(
    runs: list[Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs[0], run)
    Run(run).write_config({**Run(run).read_config(), "model": "embedded", "output_dir": str(run)})
    copy = lean_copy(run, tmp_path / "lean")
    assert Run(copy).read_config()["output_dir"] == "run"
    for policy in "AB":
        config = json.loads((copy / "adapters" / policy / "adapter_config.json").read_text())
        assert config["base_model_name_or_path"] == "embedded"


def test_a_copy_opens_like_its_run(runs: list[Path], copies: list[Path]) -> None:
    whole, copy = open_target(str(runs[0])), open_target(str(copies[0]))
    for what in ("name", "model", "policies", "method", "config", "task", "summary"):
        assert getattr(copy, what) == getattr(whole, what)


def test_the_same_run_gives_the_same_bytes_and_so_does_its_copy(
    runs: list[Path], copies: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 2e9)  # gzip writes the time of day by default
    assert files(lean_copy(runs[0], tmp_path / "again")) == files(copies[0])
    assert files(lean_copy(copies[0], tmp_path / "copy")) == files(copies[0])


def test_a_copy_cannot_be_evaluated_and_says_why(
    copies: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(copies[0]), "--samples", "4"]) == 2
    assert "The run 'agon-0' has no weights in adapters/A: a copy of its outcomes" in capsys.readouterr().err


def test_packed_samples_are_evaluated_again_but_not_added_to(
    runs: list[Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "agon-0"
    shutil.copytree(runs[0], run)
    for plain in run.glob("evaluations/*/samples.jsonl"):
        plain.with_name("samples.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    before = files(run)
    assert main(["eval", str(run), "--samples", "2"]) == 0
    assert files(run) == before
    capfd.readouterr()
    assert main(["eval", str(run), "--samples", "3"]) == 2
    error = capfd.readouterr().err.strip()
    assert "samples.jsonl.gz is only read, never added to: choose another --output" in error
    assert "\n" not in error[error.index("agon: ") :]
    assert files(run) == before


def test_a_result_without_samples_is_not_compared(
    copies: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(copies[0], tmp_path / "agon-0")
    (tmp_path / "agon-0" / TEST / "samples.jsonl.gz").unlink()
    assert main(["compare", str(tmp_path / "agon-0"), str(copies[2])]) == 2
    assert "has a result but no samples: restore samples.jsonl" in capsys.readouterr().err


def test_what_cannot_be_copied_is_refused_in_one_sentence(
    runs: list[Path], copies: list[Path], tmp_path: Path
) -> None:
    for source, out, sentence in (
        (tmp_path, tmp_path / "out", "is neither a run (no config.yaml) nor a folder"),
        (runs[0], copies[0].parent, "agon-0' is there already: remove it"),
    ):
        with pytest.raises(InputError) as refused:
            lean_copy(source, out)
        assert sentence in str(refused.value)
        assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_the_script_copies_runs_and_ends_with_one_sentence_where_it_cannot(
    runs: list[Path], copies: list[Path], tmp_path: Path
) -> None:
    command = [sys.executable, str(SCRIPT), *map(str, runs), "--out", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert [line.split()[0] for line in ended.stdout.splitlines()] == [
        str(tmp_path / run.name) for run in runs
    ]
    for copy in copies:
        assert files(tmp_path / copy.name) == files(copy)
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "agon-0' is there already: remove it" in ended.stderr
    assert ended.stderr.count("\n") == 1
