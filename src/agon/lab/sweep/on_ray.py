"""Cells on a Ray cluster, or on this machine through Ray (the extra `ray`): a remote task each.

`num_gpus` and `num_cpus` are those of one cell; a part of a GPU lets several share it. The nodes need this package and
one file system. A task that Ray cancels, or whose worker dies, lets its cell save.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agon.errors import InputError, unknown
from agon.lab.sweep.cell_run import POLL_S, CellRun
from agon.lab.sweep.local import Ended, Tick
from agon.lab.sweep.stages import CellJob
from agon.runs.sweep_folder import FAILED, CellState

OPTIONS = ("address", "num_gpus", "num_cpus")


def run_cell(job: CellJob) -> dict[str, Any]:
    """One cell, in a worker of Ray."""
    return asdict(CellRun(job).wait())


def run_on_ray(
    jobs: Sequence[CellJob],
    ended: Ended,
    tick: Tick,
    options: Mapping[str, Any],
    parallel: int | None = None,
) -> None:
    """Run the cells as tasks of Ray, at most `parallel` at a time; an interruption lets them save first."""
    _check(options)
    ray = _ray()
    mine = not ray.is_initialized()
    if mine:
        _connect(ray, options.get("address"))
    try:
        share = _share(ray, options)
        task = ray.remote(**share)(run_cell)
        waiting = list(jobs)
        pending: dict[Any, CellJob] = {}
        try:
            while waiting or pending:
                while waiting and (parallel is None or len(pending) < parallel):
                    job = waiting.pop(0)
                    pending[task.remote(job)] = job
                ready, _ = ray.wait(list(pending), timeout=POLL_S)
                for reference in ready:
                    job = pending.pop(reference)
                    ended(job, _outcome(ray, reference))
                tick()
        except BaseException:
            _cancel(ray, pending, ended)
            raise
    finally:
        if mine:
            ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    elsewhere = address or os.environ.get("RAY_ADDRESS")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        ray.init(address, **quiet) if elsewhere else ray.init(include_dashboard=False, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"Ray cannot be reached at '{elsewhere or 'this machine'}': {said}") from error


def _share(ray: Any, options: Mapping[str, Any]) -> dict[str, float]:
    """What one cell takes of a node, by default a GPU where there is one; refused if no node has as much."""
    largest = {
        kind: max((node["Resources"].get(kind, 0.0) for node in ray.nodes() if node["Alive"]), default=0.0)
        for kind in ("GPU", "CPU")
    }
    share = {
        "num_gpus": options.get("num_gpus", 1 if largest["GPU"] else 0),
        "num_cpus": options.get("num_cpus", 1),
    }
    for name, kind in (("num_gpus", "GPU"), ("num_cpus", "CPU")):
        if share[name] > largest[kind]:
            raise InputError(
                f"A cell wants {name} {share[name]:g}, and no node of the cluster has more than {largest[kind]:g}."
            )
    return share


def _outcome(ray: Any, reference: Any) -> CellState:
    try:
        return CellState(**ray.get(reference))
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        return CellState(FAILED, error=" ".join(str(cause).split())[:1000])


def _cancel(ray: Any, pending: Mapping[Any, CellJob], ended: Ended) -> None:
    """Interrupt the tasks, which lets their cells save, and wait for them."""
    for reference in pending:
        ray.cancel(reference)
    if pending:
        ray.wait(list(pending), num_returns=len(pending))
    for job in pending.values():
        ended(job, job.sweep.state(job.cell))


def _check(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name not in OPTIONS:
            raise unknown("option of ray", name, OPTIONS)
        if name == "address":
            fine = isinstance(value, str)
        else:
            fine = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        if not fine:
            wanted = "a text" if name == "address" else "a number of at least 0"
            raise InputError(f"{name} of ray must be {wanted}, not {value!r}.")


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError(
            f"--on ray needs Ray, which is not installed: run {sys.executable} -m pip install 'agon-rl[ray]'."
        ) from error
    return ray
