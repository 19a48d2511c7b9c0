"""`agon check`: a run that is as it was written is clean, and nothing else is."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agon.cli import main
from agon.runs.check import check_run
from agon.runs.files import write_json
from agon.runs.folder import Run
from tests.train.build import trainer

STEPS = 4


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    ours = trainer(folder, max_steps=STEPS, save_strategy="steps", save_steps=2, max_completion_length=6)
    ours.train()
    ours.close()
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


def drop_line(path: Path, number: int) -> None:
    lines = lines_of(path)
    del lines[number]
    path.write_text("".join(lines))


def repeat_line(path: Path, number: int) -> None:
    lines = lines_of(path)
    path.write_text("".join([*lines[: number + 1], *lines[number:]]))


def change(path: Path, number: int, old: str, new: str) -> None:
    lines = lines_of(path)
    assert old in lines[number]
    lines[number] = lines[number].replace(old, new)
    path.write_text("".join(lines))


def pay_more(path: Path) -> None:
    lines = lines_of(path)
    duel = json.loads(lines[0])
    duel["draft"]["reward"] += 1
    path.write_text("".join([json.dumps(duel) + "\n", *lines[1:]]))


def end_at(run: Path, steps: int) -> None:
    Run(run).write_summary({**Run(run).read_summary(), "steps": steps, "max_steps": steps})


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


METRICS, DUELS = "metrics.jsonl", "duels/00000.jsonl"
WEIGHTS = "adapters/A/adapter_model.safetensors"
DAMAGE: list[tuple[str, Callable[[Path], object], str]] = [
    (
        "cut",
        lambda run: (run / METRICS).write_text((run / METRICS).read_text()[:-5]),
        "Line 4 of .* is cut off",
    ),
    ("gap", lambda run: drop_line(run / METRICS, 1), "no line between steps 1 and 3"),
    ("end", lambda run: drop_line(run / METRICS, 3), "ends at step 3, before step 4"),
    ("twice", lambda run: repeat_line(run / METRICS, 1), "has step 2 twice"),
    ("nan", lambda run: change(run / METRICS, 0, '"loss": ', '"loss": NaN, "x": '), "Line 1 .* is not JSON"),
    ("duel-gone", lambda run: drop_line(run / DUELS, 0), "Step 0 has 15 duels instead of 16"),
    ("duel-twice", lambda run: repeat_line(run / DUELS, 20), "Step 1 has 17 duels instead of 16"),
    ("duel-paid", lambda run: pay_more(run / DUELS), "metrics of step 1 say draft/reward"),
    ("duels-gone", lambda run: shutil.rmtree(run / "duels"), "The duels of step 0 are missing"),
    ("version", lambda run: change(run / DUELS, 0, '"version":0', '"version":7'), "sampled at version 7"),
    ("player", lambda run: change(run / DUELS, 0, '"policy":"A"', '"policy":"B"'), "it was A's turn"),
    ("weights", lambda run: (run / WEIGHTS).write_bytes((run / WEIGHTS).read_bytes()[:-1]), "adapters"),
    ("adapter", lambda run: shutil.rmtree(run / "adapters/B"), "adapter_model.safetensors is missing"),
    ("record", lambda run: (run / "adapters.json").unlink(), "adapters.json is missing"),
    (
        "optimizer",
        lambda run: (run / "checkpoints/checkpoint-2/optimizer.pt").unlink(),
        "checkpoint-2 is damaged",
    ),
    ("summary", lambda run: (run / "summary.json").write_text("{"), "summary.json is not a JSON file"),
    (
        "processes",
        lambda run: write_json(run / "environment.json", {"processes": "two"}),
        "processes is 'two'",
    ),
    ("steps", lambda run: end_at(run, 10**30), "The duels of step 4 are missing, and so are all after it"),
    (
        "options",
        lambda run: (run / "config.yaml").write_text("method: agon\n"),
        "gradient_accumulation_steps is None",
    ),
    ("pipe", lambda run: replace_by_pipe(run / DUELS), "Line 1 of duels/00000.jsonl cannot be read"),
    ("task", lambda run: (run / "task.json").write_text("[]"), "task.json holds no object"),
]


def test_a_finished_run_is_clean(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(run)]) == 0
    assert capsys.readouterr().out == f"{run}: clean\nThe run is finished: there is nothing to resume.\n"
    (run / "adapters/A/README.md").write_text("A card that somebody has edited.")
    assert check_run(run).clean


@pytest.mark.parametrize(("damage", "says"), [row[1:] for row in DAMAGE], ids=[row[0] for row in DAMAGE])
def test_every_damage_is_found(
    damage: Callable[[Path], object], says: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    damage(run)
    assert main(["check", str(run), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["clean"] is False
    assert any(re.search(says, finding) for finding in report["findings"]), report


def test_what_a_kill_leaves_is_no_finding_and_what_could_be_resumed_is_said(run: Path) -> None:
    (run / "summary.json").unlink()
    shutil.rmtree(run / "checkpoints/checkpoint-4")
    with (run / METRICS).open("a") as file:
        file.write('{"step": 5, "lo')
    report = check_run(run)
    assert report.findings == []
    assert report.resume == "The run could go on from checkpoint-2, after step 2."
    assert any("metrics.jsonl goes on to step 4" in note for note in report.notes)
    assert any("duels go on to step 3" in note for note in report.notes)
    shutil.rmtree(run / "checkpoints")
    assert check_run(run).resume == "The run has no checkpoint: it would start over."


def test_a_run_of_an_older_release_opens_and_is_said_to_be_unverified(run: Path) -> None:
    for manifest in [*run.glob("checkpoints/*/manifest.json"), run / "adapters.json"]:
        manifest.unlink()
    environment = Run(run).read_environment()
    del environment["sealed_since"]
    write_json(run / "environment.json", environment)
    report = check_run(run)
    assert report.findings == []
    assert "checkpoint-4 is not verified: it has no manifest." in report.notes
    assert "adapters are not verified: they have no manifest." in report.notes
    assert Run(run).newest_checkpoint() == str(run / "checkpoints/checkpoint-4")
    (run / "checkpoints/checkpoint-4/scheduler.pt").write_bytes(b"cut off")
    assert Run(run).newest_checkpoint() == str(run / "checkpoints/checkpoint-2")


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 2
    assert "is not a run" in capsys.readouterr().err
