"""Cells on Slurm: one array of jobs, submitted through `submitit` (the extra `slurm`).

Each task of the array runs one cell, stage by stage, as this machine would. Before Slurm pre-empts a job or its time is
up, submitit gets SIGUSR2: the cell saves, and the job is put back into the queue, where it goes on. The sweep's folder
must lie on a file system that the nodes share; submitit's own files are in its `.slurm`.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from agon.errors import InputError, unknown
from agon.lab.sweep.cell_run import CellRun
from agon.lab.sweep.stages import CellJob
from agon.runs.sweep_folder import WAITING

# Of one cell. submitit's own limit is five minutes.
DEFAULTS: Mapping[str, Any] = {"timeout_min": 24 * 60, "gpus_per_node": 1, "cpus_per_task": 4}
TIMEOUTS = 100  # how often a cell whose time was up is put back into the queue
QUEUED = ("PENDING", "RUNNING", "REQUEUED", "RESIZING", "SUSPENDED", "CONFIGURING", "COMPLETING")


class CellCall:
    """A cell as submitit calls it; asked to make room, it saves and is submitted again."""

    def __init__(self, job: CellJob) -> None:
        self.job = job
        self._run: CellRun | None = None

    def __call__(self) -> dict[str, Any]:
        self._run = CellRun(self.job)
        return asdict(self._run.wait())

    def checkpoint(self) -> Any:
        """What submitit calls at SIGUSR2."""
        if self._run is not None:
            self._run.finish()
        return _submitit().helpers.DelayedSubmission(CellCall(self.job))


def submit(
    jobs: Sequence[CellJob],
    options: Mapping[str, Any],
    name: str,
    parallel: int | None = None,
    cluster: str = "slurm",
) -> list[Any]:
    """Submit the cells as one array, at most `parallel` at a time; submitit's jobs, in the order of the cells."""
    submitit = _submitit()
    folder = jobs[0].sweep.folder / ".slurm"
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster=cluster, slurm_max_num_timeout=TIMEOUTS)
    except RuntimeError as error:
        raise InputError(
            "--on slurm needs Slurm, whose srun is not on this machine: run it where you would run sbatch."
        ) from error
    given = {"name": f"agon-{name}", **DEFAULTS, **_checked(options, executor)}
    if parallel is not None:
        given["slurm_array_parallelism"] = parallel
    try:
        executor.update_parameters(**given)
        with executor.batch():
            submitted = [executor.submit(CellCall(job)) for job in jobs]
    except (AssertionError, TypeError, ValueError, NameError) as error:
        raise InputError(f"submitit refuses the options of slurm: {' '.join(str(error).split())}") from error
    except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
        raise InputError(f"sbatch refuses the cells: {' '.join(str(error).split())}") from error
    for job, queued in zip(jobs, submitted, strict=True):
        state = replace(job.sweep.state(job.cell), state=WAITING, error="", job=str(queued.job_id))
        job.sweep.write_state(job.cell, state)
    return submitted


def not_queued(jobs: Sequence[CellJob]) -> list[CellJob]:
    """The cells of which Slurm has no job that waits or runs, by what sacct says."""
    submitit = _submitit()
    left = []
    for job in jobs:
        number = job.sweep.state(job.cell).job
        if number:
            known = submitit.SlurmJob(job.sweep.folder / ".slurm", number)
            if known.watcher.get_state(number, mode="force").split(" ")[0] in QUEUED:
                continue
        left.append(job)
    return left


def _checked(options: Mapping[str, Any], executor: Any) -> dict[str, Any]:
    """The options with the names that submitit has for them: its own, and Slurm's after `slurm_`."""
    general = set(executor._typed_parameters()) - {"name", "tasks_per_node", "nodes"}
    special = set(_submitit().SlurmExecutor._valid_parameters()) - {"job_name", "nodes", "ntasks_per_node"}
    for name in options:
        if name not in general | special:
            raise unknown("option of slurm", name, general | special)
    return {name if name in general else f"slurm_{name}": value for name, value in options.items()}


def _submitit() -> Any:
    try:
        import submitit
    except ImportError as error:
        raise InputError(
            f"--on slurm needs submitit, which is not installed: run {sys.executable} -m pip install 'agon-rl[slurm]'."
        ) from error
    return submitit
