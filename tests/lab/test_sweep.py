"""A sweep of three methods and two seeds is killed, goes on, loses a folder and has a cell crash."""

import json
import os
import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agon.cli import main
from agon.runs.folder import Run
from agon.runs.lock import owned, owner_of
from agon.runs.sweep_folder import DONE, FAILED, WAITING, CellState
from tests.lab.sweeping import STEPS, Sweeping, fork

METHODS, SEEDS = ("grpo", "coop", "agon"), (0, 1)
NAMES = [f"{method}-s{seed}" for seed in SEEDS for method in METHODS]
CRASHED, DELETED = "coop-s1", "agon-s0"


@dataclass
class Story:
    """What was seen of the sweep at each turn of its life."""

    sweeping: Sweeping
    at_kill: dict[str, int] = field(default_factory=dict)  # steps of each cell when the sweep was killed
    before: dict[str, int] = field(default_factory=dict)  # when the adapters of finished cells were written
    resumed: int = 0  # the exit code of the sweep in which a cell crashed
    states: dict[str, CellState] = field(default_factory=dict)  # after it
    said: str = ""
    whole: dict[str, int] = field(default_factory=dict)  # as `before`, before a folder was deleted
    policies: str = ""  # the hashes of the policies that were deleted
    stopped: int = 0  # the exit code after SIGTERM
    kept: tuple[int, int] = (0, 0)  # the newest checkpoint and the last recorded step after it
    left: CellState = field(default_factory=CellState)
    ended: int = 1

    def run(self, name: str) -> Run:
        return Run(self.sweeping.folder.folder / name)

    def written(self) -> dict[str, int]:
        """When the adapters of the finished cells were written."""
        files = {name: self.run(name).adapters_manifest for name in NAMES}
        return {name: path.stat().st_mtime_ns for name, path in files.items() if path.exists()}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    sweeping = Sweeping(tmp_path_factory.mktemp("sweep"))
    sweeping.write(
        methods=list(METHODS), seeds=2, evaluate={"samples": 2, "options": {"limit": 2, "temperature": 0.9}}
    )
    told = Story(sweeping)
    folder = sweeping.folder

    def trained(name: str) -> int:
        return len(told.run(name).read_metrics())

    # Killed in the middle: one cell has trained, another one is at it.
    child = sweeping.start("--parallel", "2")
    sweeping.until(folder.folder.joinpath("sweep.yaml").exists, "the sweep to begin")
    sweeping.until(
        lambda: (
            any("train" in told.run(name).read_times() for name in NAMES)
            and any(1 <= trained(name) < STEPS for name in NAMES)
        ),
        "a cell that has trained and another that trains",
    )
    os.kill(child.pid, signal.SIGKILL)
    sweeping.until(lambda: child.poll() is not None, "the sweep to die")
    told.at_kill = {name: trained(name) for name in NAMES}
    told.before = told.written()

    # It goes on, and one cell is made to crash.
    child = sweeping.start("--parallel", "2")
    crashed = told.run(CRASHED)
    sweeping.until(lambda: bool(owner_of(crashed.folder)), "the cell to train")
    os.kill(owner_of(crashed.folder)["pid"], signal.SIGKILL)
    sweeping.until(lambda: child.poll() is not None, "the sweep to end")
    told.resumed = child.poll() or 0
    told.states = {name: folder.state(sweeping.cell(name)) for name in NAMES}
    told.said = sweeping.said()

    # A folder is deleted, and SIGTERM comes while its cell is made again.
    told.whole = told.written()
    told.policies = told.run(DELETED).adapters_manifest.read_text()
    shutil.rmtree(told.run(DELETED).folder)
    child = sweeping.start()
    sweeping.until(lambda: trained(DELETED) >= 1, "a step of the deleted cell")
    os.kill(child.pid, signal.SIGTERM)
    sweeping.until(lambda: child.poll() is not None, "the sweep to stop")
    told.stopped = child.poll() or 0
    told.kept = told.run(DELETED).newest_step(), trained(DELETED)
    told.left = folder.state(sweeping.cell(DELETED))
    told.ended = sweeping.run()
    return told


def test_a_sweep_that_was_killed_goes_on_where_its_cells_were(story: Story) -> None:
    assert 0 < sum(story.at_kill.values()) < STEPS * len(NAMES)
    assert story.before
    for name in NAMES:
        steps = [line["step"] for line in story.run(name).read_metrics() if "loss" in line]
        assert steps == list(range(1, STEPS + 1)), name
        assert story.run(name).finished()
    # What had finished before was not trained again.
    assert {name: story.written()[name] for name in story.before} == story.before


def test_a_cell_that_crashes_is_reported_and_stops_no_other(story: Story) -> None:
    assert story.resumed == 1
    crashed = story.states[CRASHED]
    assert (crashed.state, crashed.stage) == (FAILED, "train")
    assert "SIGKILL" in crashed.error
    assert {state.state for name, state in story.states.items() if name != CRASHED} == {DONE}
    assert f"{CRASHED}: failed in train: It was ended by SIGKILL" in story.said


def test_only_what_failed_or_was_deleted_is_made_again(story: Story) -> None:
    assert story.ended == 0
    assert story.sweeping.folder.state(story.sweeping.cell(CRASHED)).state == DONE
    after = story.written()
    assert {name for name in NAMES if story.whole.get(name) != after[name]} == {CRASHED, DELETED}
    # The same seed gives the same policies, interrupted or not.
    assert story.run(DELETED).adapters_manifest.read_text() == story.policies


def test_sigterm_lets_the_cells_save_and_the_same_command_goes_on(story: Story) -> None:
    assert story.stopped == 143
    kept, recorded = story.kept
    assert 1 <= kept == recorded
    assert story.left.state == WAITING
    assert "every cell has kept what it had, and the same command goes on" in story.sweeping.said()


def test_every_cell_is_an_ordinary_run_with_its_own_method_and_seed(story: Story) -> None:
    for name in NAMES:
        run = story.run(name)
        config = run.read_config()
        assert f"{config['method']}-s{config['seed']}" == name
        assert config["final_evaluation"] == 0
        (evaluated,) = run.evaluated("test")
        result = evaluated.read_result()
        assert (result["n"], result["samples"]) == (2, 2)
        assert set(run.read_times()) == {"train", "test"}


def test_the_status_says_where_every_cell_is(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(story.sweeping.folder.folder)
    assert main(["sweep", "--status", folder, "--json"]) == 0
    rows = {row["cell"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == NAMES
    for row in rows.values():
        assert (row["state"], row["step"], row["steps"], row["error"]) == (DONE, STEPS, STEPS, "")
        assert 0 <= row["right"] <= 1
        assert row["seconds"] == pytest.approx(sum(row["times"].values()))
    assert main(["sweep", folder, "--status"]) == 0
    said = capsys.readouterr().out
    assert "6 cells: 6 done" in said
    assert "agon-s1" in said


def test_a_terminal_shows_a_table_of_the_cells(story: Story) -> None:
    """A real one: a pseudo-terminal."""
    reader, terminal = os.openpty()
    sweeping = story.sweeping

    def work() -> int:
        os.chdir(sweeping.place)
        return main(sweeping.words)

    child = fork(work, sweeping.place / "said.out", Path(os.ttyname(terminal)))
    sweeping.until(lambda: child.poll() is not None, "the sweep to end")
    shown = os.read(reader, 1 << 16).decode()
    os.close(terminal)
    os.close(reader)
    assert child.poll() == 0
    assert "6 cells: 6 done; left 0:00" in shown
    assert all(name in shown for name in NAMES)


def test_a_sweep_has_one_owner(story: Story) -> None:
    with owned(story.sweeping.folder.folder, "sweep"):
        assert story.sweeping.run() == 2
    assert f"The sweep '{story.sweeping.folder.folder}' is in use by process" in story.sweeping.said()
