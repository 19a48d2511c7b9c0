"""Only what was flushed survives a power cut, and that is enough."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from agon.runs.check import check_run
from agon.train.trainer import AgonTrainer
from tests.faults.power import Disk
from tests.faults.scene import Scene, at_step
from tests.train.records import records


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never disturbed; what was flushed of it when it ended is beside it in `left`."""
    folder = tmp_path_factory.mktemp("whole") / "run"

    def prepare(trainer: AgonTrainer) -> None:
        folder.mkdir(exist_ok=True)
        disk = Disk(folder)
        train = trainer.train

        def train_and_cut(**arguments: object) -> None:
            train(**arguments)  # type: ignore[arg-type]
            disk.after_power_cut(folder.with_name("left"))

        trainer.train = train_and_cut  # type: ignore[method-assign,assignment]

    assert Scene(folder, options={"save_steps": 2}).train(prepare).code == 0
    return folder


def test_a_run_goes_on_after_a_power_cut_from_what_was_flushed(whole: Path, tmp_path: Path) -> None:
    scene = Scene(tmp_path / "run", options={"save_steps": 2})

    def prepare(trainer: AgonTrainer) -> None:
        scene.folder.mkdir(exist_ok=True)
        disk = Disk(scene.folder)

        def cut() -> None:
            disk.after_power_cut(tmp_path / "left")
            os.kill(os.getpid(), signal.SIGKILL)

        at_step(trainer, 5, cut)

    assert scene.train(prepare).code == -9
    shutil.rmtree(scene.folder)
    (tmp_path / "left").rename(scene.folder)
    assert [path.name for path in scene.checkpoints][-1] == "checkpoint-4"
    report = check_run(scene.folder)
    assert (report.findings, report.resume) == ([], "The run could go on from checkpoint-4, after step 4.")
    assert scene.train().code == 0
    assert records(scene.folder) == records(whole)


def test_a_run_that_is_called_finished_is_whole_on_the_disk(whole: Path) -> None:
    left = whole.with_name("left")
    report = check_run(left)
    assert report.findings == []
    assert report.resume == "The run is finished: there is nothing to resume."
    assert records(left) == records(whole)
