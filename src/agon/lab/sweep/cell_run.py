"""One cell at work: its stages one after another, from the first that is not finished.

`step` never waits, so that one thread tends many cells. A finished stage has its seconds in the run's times and is not
repeated; one that was interrupted goes on (`agon train --resume`, or the same evaluation again).
"""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

from agon.errors import InputError
from agon.lab.sweep.processes import Child, Order, last_sentence, starting
from agon.lab.sweep.stages import TRAIN, CellJob, words_for
from agon.runs.lock import owned, refuse_owned
from agon.runs.sweep_folder import DONE, FAILED, RUNNING, WAITING, CellState

POLL_S = 0.1
# A child of a sweep that was killed saves and leaves: so long is waited for it.
PATIENCE_S = 60.0
THREADS = {"OMP_NUM_THREADS": "2"}


class CellRun:
    """The stages of one cell, a process each. It owns the cell until it is closed."""

    def __init__(self, job: CellJob, environment: Mapping[str, str] | None = None) -> None:
        self.job = job
        self._environment = {**THREADS, **os.environ, **(environment or {})}
        self._child: Child | None = None
        self._stage = ""
        self._known: set[str] = set()  # stages that were finished when this one began
        self._began = time.time()
        self._log_start = 0
        self._stopping = False
        self._state = CellState()
        self._closed: CellState | None = None
        self._ownership = ExitStack()
        self._ownership.enter_context(owned(job.sweep.lock(job.cell), "cell"))

    def step(self) -> CellState | None:
        """Do what can be done now; how the cell ended, once it has."""
        if self._closed is not None:
            return self._closed
        try:
            if self._child is not None:
                code = self._child.poll()
                if code is None:
                    return None
                self._child = None
                ended = self._ended(code)
                if ended is not None:
                    return self._close(ended)
            return self._next()
        except (InputError, OSError) as error:
            sentence = str(error) if isinstance(error, InputError) else f"{error.strerror}: {error.filename}"
            return self._close(replace(self._state, state=FAILED, error=sentence))

    def stop(self, at_once: bool = False) -> None:
        """Ask the stage to save and leave; `at_once` it is given no time."""
        if self._child is not None:
            # An evaluation keeps its samples at a Ctrl-C; a training saves at both.
            gentle = signal.SIGTERM if self._stage == TRAIN else signal.SIGINT
            if at_once:
                self._child.send_signal(signal.SIGKILL)
            elif not self._stopping:
                self._child.send_signal(gentle)
        self._stopping = True

    def wait(self) -> CellState:
        """Work until the cell has ended; an interruption stops it cleanly and goes on to the caller."""
        try:
            while (ended := self.step()) is None:
                time.sleep(POLL_S)
            return ended
        except BaseException:
            self.finish()
            raise

    def finish(self) -> CellState:
        """Stop the cell and wait until it has saved."""
        self.stop()
        while (ended := self.step()) is None:
            time.sleep(POLL_S)
        return ended

    def _next(self) -> CellState | None:
        """Start the next stage that is not finished."""
        job, run = self.job, self.job.run
        times = run.read_times()
        left = [(stage, words) for stage, words in job.stages if stage not in times]
        if not left:
            return self._close(CellState(DONE))
        stage, words = left[0]
        self._known = set(times)
        if self._stopping:
            return self._close(replace(self._state, state=WAITING, since=0.0))
        if stage != self._stage:
            before = job.sweep.state(job.cell)
            spent = before.spent if before.stage == stage and run.folder.exists() else 0.0
            self._stage, self._began = stage, time.time()
            self._state = CellState(RUNNING, stage, spent=spent, since=self._began, job=before.job)
            job.sweep.write_state(job.cell, self._state)
        if self._in_use():
            return None
        self._began = time.time()
        log = job.sweep.log(job.cell)
        self._log_start = log.stat().st_size if log.exists() else 0
        order = Order(
            words=words_for(job, stage, words),
            output=job.sweep.output(job.cell, stage),
            log=log,
            environment=self._environment,
            here=job.here,
        )
        self._child = starting[0](order)
        return None

    def _in_use(self) -> bool:
        """Whether somebody else still owns the run, for as long as one is waited for who is about to leave."""
        if time.time() - self._began > PATIENCE_S:
            return False  # the command itself says who
        try:
            refuse_owned(self.job.run.folder)
        except InputError:
            return True
        return False

    def _ended(self, code: int) -> CellState | None:
        """What the end of a stage means for the cell; None: it goes on."""
        job, run = self.job, self.job.run
        spent = self._state.spent + time.time() - self._began
        if code == 0:
            times = run.read_times()
            # What a training has evaluated by itself has its own time.
            own = spent - sum(seconds for stage, seconds in times.items() if stage not in self._known)
            run.write_times({**times, self._stage: round(max(0.0, own), 1)})
            return None
        if self._stopping:
            return replace(self._state, state=WAITING, spent=spent, since=0.0)
        sentence = last_sentence(job.sweep.log(job.cell), self._log_start, code)
        return replace(self._state, state=FAILED, error=sentence, spent=spent, since=0.0)

    def _close(self, state: CellState) -> CellState:
        self.job.sweep.write_state(self.job.cell, state)
        self._ownership.close()
        self._closed = state
        return state
