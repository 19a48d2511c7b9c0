"""Running one command with limits on time, output and memory, and leaving none of its processes behind."""

import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from agon.judges.proc import cpu_seconds, family, resident_bytes, waited_seconds

Ending = Literal["exit", "timeout", "output", "memory", "files", "sandbox"]

_CHUNK = 1 << 16
_KEPT_ERRORS = 1 << 14
_CHECK_INTERVAL = 0.1  # seconds between looks at all processes of a run; short runs get none
# A program that waits for a CPU gets more wall time, up to this many times its limit.
_MAX_WALL_FACTOR = 2.5


@dataclass(frozen=True)
class OuterLimits:
    """The limits that are enforced from outside the run, on all its processes together.

    `wall_seconds` does not count the time in which the run was ready and had no CPU; `tmp_files` counts
    the files in its folders in memory, which have `tmp_bytes` each."""

    wall_seconds: float
    cpu_seconds: float
    output_bytes: int
    memory_bytes: int
    tmp_bytes: int
    tmp_files: int


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `sandbox` means that it never started: the sandbox itself failed."""

    ending: Ending
    code: int
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def ok(self) -> bool:
        return self.ending == "exit" and self.code == 0


def run_limited(
    sandbox: Sequence[str],
    command: Sequence[str],
    stdin: bytes,
    limits: OuterLimits,
    descriptors: tuple[int, ...] = (),
    folder: str | None = None,
    cgroup: str | None = None,
) -> Outcome:
    """Run `command`, inside the bubblewrap call `sandbox` if there is one, in a session of its own.

    `cgroup` is a folder of the kernel's whose limits the run has from its first instruction."""
    info_ours, info_theirs = os.pipe()
    inside = ["--info-fd", str(info_theirs), "--"] if sandbox else []
    started = time.monotonic()
    enter = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', f"{cgroup}/cgroup.procs"] if cgroup else []
    child = subprocess.Popen(
        [*enter, *sandbox, *inside, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(*descriptors, info_theirs),
        start_new_session=True,
        cwd=folder or "/",
        env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
    )
    os.close(info_theirs)
    for pipe in (child.stdin, child.stdout, child.stderr):
        assert pipe is not None
        os.fchmod(pipe.fileno(), 0o666)  # the program is another user and may open /dev/stdin
    run = _Run(child, stdin, limits, started, info_ours if sandbox else None)
    try:
        return run.finish()
    finally:
        run.end()
        os.close(info_ours)


class _Run:
    """One child process: its pipes, its time, and the first process of its namespace."""

    def __init__(
        self,
        child: "subprocess.Popen[bytes]",
        stdin: bytes,
        limits: OuterLimits,
        started: float,
        info: int | None,
    ) -> None:
        self._child, self._limits, self._started = child, limits, started
        self._input = memoryview(stdin)
        self._out, self._errors = bytearray(), bytearray()
        self._info = info
        self._info_text = bytearray()
        self._init: int | None = None  # process 1 of the sandbox, by its id outside
        self._init_handle: int | None = None
        self._waited = 0.0
        self._unwatched = 0.0  # seconds in which this process itself was stopped, by a pool for instance

    def finish(self) -> Outcome:
        ending: Ending = self._communicate()
        self.end()
        code = self._child.returncode
        started = self._info is None or self._init is not None
        if ending == "exit" and (
            not started or (code != 0 and self._errors.startswith((b"bwrap: ", b"setpriv: ", b"prlimit: ")))
        ):
            ending = "sandbox"
        return Outcome(ending, code, bytes(self._out), bytes(self._errors), time.monotonic() - self._started)

    def _communicate(self) -> Ending:
        """Write to and read from the pipes until the child has ended or a limit is reached."""
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        exit_handle = os.pidfd_open(child.pid)
        try:
            with selectors.DefaultSelector() as selector:
                for pipe in (child.stdin, child.stdout, child.stderr):
                    os.set_blocking(pipe.fileno(), False)
                selector.register(child.stdout, selectors.EVENT_READ, self._out)
                selector.register(child.stderr, selectors.EVENT_READ, self._errors)
                selector.register(exit_handle, selectors.EVENT_READ)
                if self._input:
                    selector.register(child.stdin, selectors.EVENT_WRITE)
                else:
                    child.stdin.close()
                if self._info is not None:
                    os.set_blocking(self._info, False)
                    selector.register(self._info, selectors.EVENT_READ)
                return self._loop(selector, exit_handle)
        finally:
            os.close(exit_handle)

    def _loop(self, selector: selectors.DefaultSelector, exit_handle: int) -> Ending:
        next_check = self._started + _CHECK_INTERVAL
        while True:
            now = time.monotonic()
            if (
                now - next_check > _CHECK_INTERVAL
            ):  # we were stopped ourselves: the program may have ended since
                self._unwatched += now - next_check
            latest = self._started + self._unwatched + self._limits.wall_seconds * _MAX_WALL_FACTOR
            deadline = min(self._deadline(), latest)
            if now >= next_check or now >= deadline:
                broken = self._broken_limit()
                if broken is not None:
                    return broken
                next_check = now + _CHECK_INTERVAL
                # With what it waited until now, it may have more time.
                if now >= deadline and (now >= self._deadline() or now >= latest):
                    return "timeout"
            ended = False
            for key, _ in selector.select(min(deadline, next_check) - now):
                if key.fd == exit_handle:
                    ended = True
                elif key.fd == self._info:
                    self._read_init_pid(key.fd)
                    if self._init is not None:
                        selector.unregister(key.fileobj)
                elif key.data is None:
                    self._write_input(selector)
                elif not self._read_output(key.fd, key.data):
                    selector.unregister(key.fileobj)
                if len(self._out) > self._limits.output_bytes:
                    return "output"
            if ended:
                return self._read_rest()

    def _deadline(self) -> float:
        return self._started + self._limits.wall_seconds + self._waited + self._unwatched

    def _read_rest(self) -> Ending:
        """The main process has ended: kill what it left running, then read what is in the pipes."""
        if self._info is not None and self._init is None:
            self._read_init_pid(self._info)
        self._kill()
        for pipe, kept in ((self._child.stdout, self._out), (self._child.stderr, self._errors)):
            assert pipe is not None
            while self._read_output(pipe.fileno(), kept):
                if len(self._out) > self._limits.output_bytes:
                    return "output"
        return "exit"

    def _write_input(self, selector: selectors.DefaultSelector) -> None:
        assert self._child.stdin is not None
        try:
            self._input = self._input[os.write(self._child.stdin.fileno(), self._input[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # a program need not read its input
            self._input = self._input[:0]
        if not self._input:
            selector.unregister(self._child.stdin)
            with suppress(OSError):
                self._child.stdin.close()

    def _read_output(self, descriptor: int, kept: bytearray) -> bool:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        kept += chunk
        if kept is self._errors:  # read to the end, so that the program never blocks, but kept short
            del kept[_KEPT_ERRORS:]
        return bool(chunk)

    def _read_init_pid(self, info: int) -> None:
        """Read the id of the sandbox's first process. Bubblewrap writes it before it starts anything."""
        with suppress(BlockingIOError):
            self._info_text += os.read(info, 4096)
        found = re.search(rb'"child-pid": (\d+)\b', self._info_text)
        if found and self._init is None:
            self._init = int(found[1])
            with suppress(ProcessLookupError):
                self._init_handle = os.pidfd_open(self._init)

    def _broken_limit(self) -> Ending | None:
        """Look at all processes of the run; orphans are still children of process 1."""
        pids = family(self._init or self._child.pid)
        self._waited = max(self._waited, waited_seconds(pids))
        stored, files = self._in_memory_folders() if self._init is not None else (0, 0)
        if resident_bytes(pids) + stored > self._limits.memory_bytes:
            return "memory"
        if files > self._limits.tmp_files:
            return "files"
        return "timeout" if cpu_seconds(pids) > self._limits.cpu_seconds else None

    def _in_memory_folders(self) -> tuple[int, int]:
        """Bytes and files in the sandbox's folders that are kept in memory."""
        stored = files = 0
        for folder in ("tmp", "dev/shm"):
            with suppress(OSError):
                found = os.statvfs(f"/proc/{self._init}/root/{folder}")
                # Until bubblewrap has changed the root, this is the host's folder.
                if found.f_blocks * found.f_frsize > self._limits.tmp_bytes + _CHUNK:
                    continue
                stored += (found.f_blocks - found.f_bfree) * found.f_frsize
                files += found.f_files - found.f_ffree
        return stored, files

    def _kill(self) -> None:
        """Kill the namespace's first process, and with it all others; wait until they are gone."""
        if self._init_handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init_handle, signal.SIGKILL)
        if self._child.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        if self._init_handle is not None and self._init is not None:
            _wait_for(self._init_handle)
            with suppress(ChildProcessError):  # a worker must reap it, elsewhere the system does
                os.waitpid(self._init, os.WNOHANG)

    def end(self) -> None:
        self._kill()
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        if self._init_handle is not None:
            os.close(self._init_handle)
            self._init_handle = None


def _wait_for(handle: int) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        selector.select(10.0)
