"""Cells beyond one machine: real tasks of Ray, submitit's local jobs, and the script that Slurm would get."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from agon.cli import main
from agon.errors import InputError
from agon.lab.sweep.asked import read_sweep
from agon.lab.sweep.launch import Plan, plan, write_plan
from agon.lab.sweep.on_ray import run_on_ray
from agon.lab.sweep.slurm import submit
from agon.runs.lock import owner_of
from agon.runs.sweep_folder import DONE, FAILED, WAITING, CellState
from tests.lab.sweeping import Sweeping


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweeping:
    """Two cells, of which the second has a file in the place of its folder."""
    monkeypatch.chdir(tmp_path)
    made = Sweeping(tmp_path)
    made.write(methods=["grpo", "agon"], evaluate=False, options={"max_steps": 1})
    return made


def planned(place: Sweeping, break_second: bool = True) -> Plan:
    made = plan(read_sweep(str(place.place / "sweep.yaml")), place.folder.folder)
    write_plan(made)
    if break_second:
        (place.folder.folder / "agon-s0").write_text("in the way")
    return made


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    import ray as library

    library.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield library
    library.shutdown()


def test_cells_are_tasks_of_ray_and_one_that_fails_stops_no_other(
    place: Sweeping, ray: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    planned(place)
    assert main([*place.words, "--on", "ray"]) == 1
    said = capsys.readouterr().err
    assert "grpo-s0: done in" in said
    assert "agon-s0: failed in train: " in said
    assert "is a file" in place.folder.state(place.cell("agon-s0")).error
    assert place.folder.state(place.cell("grpo-s0")).state == DONE
    assert place.folder.run(place.cell("grpo-s0")).finished()
    assert f"agon report {place.folder.folder}" in said


def test_a_share_that_no_node_of_the_cluster_has_is_refused(place: Sweeping, ray: Any) -> None:
    jobs = planned(place).jobs()
    with pytest.raises(
        InputError, match="A cell wants num_gpus 8, and no node of the cluster has more than 0"
    ):
        run_on_ray(jobs, lambda job, state: None, lambda: None, {"num_gpus": 8})
    with pytest.raises(InputError, match="Unknown option of ray 'gpus': did you mean 'num_gpus'"):
        run_on_ray(jobs, lambda job, state: None, lambda: None, {"gpus": 8})


@pytest.mark.exhaustive
def test_an_interruption_lets_the_tasks_of_ray_save(place: Sweeping, ray: Any) -> None:
    place.write(methods=["agon"], evaluate=False, options={"max_steps": 40})
    made = planned(place, break_second=False)
    run = made.jobs()[0].run
    ended: list[CellState] = []

    def tick() -> None:
        if len(run.read_metrics()) >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_on_ray(made.jobs(), lambda job, state: ended.append(state), tick, {})
    assert [state.state for state in ended] == [WAITING]
    assert 2 <= run.newest_step() == len(run.read_metrics()) < 40
    assert not owner_of(run.folder)


def test_cells_are_jobs_of_submitit(place: Sweeping) -> None:
    """Its local executor pickles, starts and collects them as the one for Slurm does."""
    made = planned(place)
    run = made.folder.run(place.cell("grpo-s0"))
    # It has trained, and was cut off before that was noted: which takes no second training.
    run.write_config({"method": "grpo"})
    run.write_summary({"finished": True, "steps": 1})
    jobs = submit(made.jobs(), {}, "tiny", cluster="local")
    states = [CellState(**job.result()) for job in jobs]
    assert [state.state for state in states] == [DONE, FAILED]
    assert "is a file" in states[1].error
    assert place.folder.state(place.cell("grpo-s0")).state == DONE
    assert "train" in run.read_times()


@pytest.mark.exhaustive
def test_a_job_that_must_make_room_saves_and_goes_on(place: Sweeping) -> None:
    place.write(methods=["agon"], evaluate=False, options={"max_steps": 12})
    made = planned(place, break_second=False)
    run = made.jobs()[0].run
    (job,) = submit(made.jobs(), {"signal_delay_s": 60, "timeout_min": 10}, "tiny", cluster="local")
    place.until(lambda: len(run.read_metrics()) >= 2, "two steps")
    # As Slurm does: every process of the job gets it, the cell's own too.
    (task,) = psutil.Process(int(job.job_id)).children()
    for process in (*task.children(), task):
        process.send_signal(signal.SIGUSR2)
    place.until(lambda: place.folder.state(place.cell("agon-s0")).state == WAITING, "the cell to save")
    kept = run.newest_step()
    assert 2 <= kept < 12
    assert CellState(**job.result()).state == DONE
    assert [line["step"] for line in run.read_metrics()] == list(range(1, 13))


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The programs of Slurm, as far as submitting goes; the script that was submitted last is `script`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program(folder, "srun", "exit 1")
    program(folder, "sbatch", f'cp "$1" {folder}/script; echo "Submitted batch job 4242"')
    program(folder, "sacct", "exit 1")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_slurm_gets_one_array_whose_tasks_are_the_cells(
    place: Sweeping, slurm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place.write(
        methods=["grpo", "coop", "agon"],
        seeds=2,
        slurm={"partition": "gpu", "timeout_min": 90, "cpus_per_task": 8, "setup": ["module load cuda"]},
    )
    assert main([*place.words, "--on", "slurm", "--parallel", "2"]) == 0
    said = capsys.readouterr().out
    assert "Submitted 6 of 6 cells" in said
    assert f"agon sweep --status {place.folder.folder}" in said
    script = (slurm / "script").read_text()
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)=(.*)$", script, re.MULTILINE))
    assert (asked["array"], asked["job-name"], asked["partition"]) == ("0-5%2", "agon-tiny", "gpu")
    assert (asked["time"], asked["cpus-per-task"], asked["gpus-per-node"]) == ("90", "8", "1")
    assert asked["signal"] == "USR2@90"
    assert "module load cuda" in script
    assert f"{sys.executable} -u -m submitit.core._submit {place.folder.folder}/.slurm" in script
    states = [place.folder.state(cell) for cell in place.folder.cells()]
    assert [state.job for state in states] == [f"4242_{number}" for number in range(6)]
    assert len(list((place.folder.folder / ".slurm").glob("4242_*_submitted.pkl"))) == 6


def test_cells_that_slurm_still_has_are_not_submitted_again(
    place: Sweeping, slurm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*place.words, "--on", "slurm"]) == 0
    rows = "JobID|State|NodeList\\n4242_0|PENDING|\\n4242_1|FAILED|node1"
    program(slurm, "sacct", f'printf "{rows}\\n"')
    (slurm / "script").unlink()
    capsys.readouterr()
    assert main([*place.words, "--on", "slurm", "--json"]) == 0
    assert "array" not in (slurm / "script").read_text()  # the failed one alone
    assert [row["job"] for row in json.loads(capsys.readouterr().out)] == ["4242_0", "4242"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"partion": "gpu"}, "Unknown option of slurm 'partion': did you mean 'partition'?"),
        ({"timeout_min": "soon"}, "submitit refuses the options of slurm: "),
    ],
)
def test_wrong_options_of_slurm_are_one_sentence(
    options: dict[str, Any], sentence: str, place: Sweeping, slurm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place.write(slurm=options)
    assert main([*place.words, "--on", "slurm"]) == 2
    assert sentence in capsys.readouterr().err


def test_a_machine_without_slurm_is_told_so(
    place: Sweeping, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main([*place.words, "--on", "slurm"]) == 2
    assert "--on slurm needs Slurm, whose srun is not on this machine" in capsys.readouterr().err


@pytest.mark.parametrize(("on", "package"), [("slurm", "submitit"), ("ray", "ray")])
def test_a_missing_extra_is_named(
    on: str,
    package: str,
    place: Sweeping,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert main([*place.words, "--on", on]) == 2
    assert f"pip install 'agon-rl[{on}]'" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_stages_are_processes_of_agon_that_leave_with_the_sweep(place: Sweeping) -> None:
    """As above with forks: here every stage is a process that loads everything, as it is for a user."""
    place.write(methods=["agon"], evaluate={"options": {"limit": 2}}, options={"max_steps": 12})
    words = [sys.executable, "-m", "agon.cli", *place.words]
    sweep = subprocess.Popen(words, cwd=place.place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    place.until((place.folder.folder / "agon-s0").exists, "the cell")
    run = place.folder.run(place.cell("agon-s0"))
    place.until(lambda: len(run.read_metrics()) >= 2, "two steps")
    owner = owner_of(run.folder)["pid"]
    sweep.send_signal(signal.SIGKILL)
    sweep.wait()
    place.until(lambda: not Path(f"/proc/{owner}").exists(), "the training to leave")
    assert 2 <= run.newest_step() < 12
    assert subprocess.run(words, cwd=place.place, check=False, capture_output=True).returncode == 0
    assert [line["step"] for line in run.read_metrics()] == list(range(1, 13))
    assert set(run.read_times()) == {"train", "test"}
