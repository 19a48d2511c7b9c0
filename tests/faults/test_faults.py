"""Whatever goes wrong with a run, nothing is lost and nothing changes without a word."""

import re
from pathlib import Path
from typing import Any

import pytest

from agon.runs.check import check_run
from tests.faults.scene import Scene
from tests.faults.table import FAULTS, Fault
from tests.train.records import records


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    scene = Scene(tmp_path_factory.mktemp("undisturbed") / "run")
    ended = scene.train()
    assert ended.code == 0, ended.said
    assert check_run(scene.folder).findings == []
    return records(scene.folder)


def suffer(fault: Fault, scene: Scene, undisturbed: dict[str, Any]) -> None:
    """Do the fault, resume, and hold what came of it against its row."""
    ended = fault.do(scene)
    assert fault.code is None or ended.code == fault.code, ended
    said = ended.said
    if fault.live is None:  # the process has ended, or the folder was damaged after it had
        ended = scene.train()
        said += ended.said
    assert re.search(fault.says, said), said
    assert ended.code == (2 if fault.holds == "refused" else 0), ended.said
    report = check_run(scene.folder)
    if fault.holds == "refused":
        assert "Traceback" not in ended.said
        assert report.findings != []
        return
    assert report.findings == []
    found = records(scene.folder)
    if fault.holds == "exact":
        assert found == undisturbed
    else:
        skipped = [line["skipped_steps"] for line in found["metrics"]]
        assert sum(skipped) > 0
        assert found["weights"] != undisturbed["weights"]


def ids(fault: Fault) -> str:
    return fault.name.replace(" ", "-")


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.quick], ids=ids)
def test_a_run_survives(fault: Fault, tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    suffer(fault, Scene(tmp_path / "run"), undisturbed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("fault", FAULTS, ids=ids)
def test_a_run_survives_every_fault(
    fault: Fault, seed: int, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    suffer(fault, Scene(tmp_path / "run", seed), undisturbed)


def test_a_round_given_up_between_two_epochs_is_played_as_it_would_have_been(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """Where no checkpoint had been due, the stop has to write one."""
    [fault] = [fault for fault in FAULTS if fault.name == "SIGTERM twice"]
    scene = Scene(tmp_path / "run", options={"save_steps": 50})
    scene.step = 4
    suffer(fault, scene, undisturbed)
    assert "checkpoint-4" in [path.name for path in scene.checkpoints]
