"""Cells on this machine: a queue, with one or more cells on a device.

Several cells may share a card. That takes engines that are given their memory in bytes (`vllm_kv_cache_bytes`), and a
few seconds between two starts, since an engine measures the free memory of the card while it starts. Every cell is told
how many share its card, and plans its micro-batches for its part: the cells of this sweep, or more if the environment
says so, since other trainings run beside them.
"""

import math
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence

from agon.errors import InputError
from agon.lab.sweep.cell_run import POLL_S, CellRun
from agon.lab.sweep.stages import CellJob
from agon.planning.card_fit import SHARED_BY, sharers
from agon.runs.sweep_folder import FAILED, CellState

Ended = Callable[[CellJob, CellState], None]
Tick = Callable[[], None]
STAGGER_S = 5.0


def devices() -> list[str]:
    """The GPUs that this command may use, as CUDA_VISIBLE_DEVICES writes them; asked without torch."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    if not shutil.which("nvidia-smi"):
        return []
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    return [str(number) for number, line in enumerate(listed.splitlines()) if line.startswith("GPU ")]


def run_here(
    jobs: Sequence[CellJob],
    ended: Ended,
    tick: Tick,
    parallel: int | None = None,
    stagger: float | None = None,
    cards: Sequence[str] | None = None,
) -> None:
    """Run the cells, at most `parallel` at a time (one a device if unset) and `stagger` seconds between two starts.

    `ended` is told of each, `tick` is called in between. An interruption lets every cell save before it goes on to the
    caller; a second one kills them.
    """
    found = list(devices() if cards is None else cards)
    most = parallel or max(1, len(found))
    told = {SHARED_BY: str(max(math.ceil(most / len(found)), sharers()))} if found else {}
    pause = stagger if stagger is not None else STAGGER_S if found else 0.0
    waiting, last = list(jobs), -1e9
    running: dict[CellRun, str] = {}  # with the device of each
    try:
        while waiting or running:
            if waiting and len(running) < most and time.monotonic() - last >= pause:
                job = waiting.pop(0)
                last = time.monotonic()
                card = _least_used(found, list(running.values()))
                try:
                    running[CellRun(job, {**told, **({"CUDA_VISIBLE_DEVICES": card} if card else {})})] = card
                except InputError as error:  # somebody else works on it
                    ended(job, CellState(FAILED, error=str(error)))
                    continue
            for cell in list(running):
                state = cell.step()
                if state is not None:
                    del running[cell]
                    ended(cell.job, state)
            tick()
            if waiting or running:
                time.sleep(POLL_S)
    except BaseException:
        _stop(list(running), ended)
        raise


def _stop(running: list[CellRun], ended: Ended) -> None:
    """Let all cells save at the same time; who interrupts again kills them."""
    at_once = False
    for cell in running:
        cell.stop()
    while running:
        try:
            for cell in list(running):
                state = cell.step()
                if state is not None:
                    running.remove(cell)
                    ended(cell.job, state)
            time.sleep(POLL_S)
        except KeyboardInterrupt:
            if not at_once:
                for cell in running:
                    cell.stop(at_once=True)
            at_once = True


def _least_used(cards: Sequence[str], used: Sequence[str]) -> str:
    """The device with the fewest cells; with one or none there is nothing to choose, and nothing is set."""
    return min(cards, key=used.count) if len(cards) > 1 else ""
