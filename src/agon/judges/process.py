"""Running one command under caps on time, output and memory, and leaving nothing of it behind."""

import os
import re
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

Ending = Literal["exit", "timeout", "output", "memory", "sandbox"]

_CHUNK = 1 << 16
_KEPT_ERRORS = 1 << 14
_MEMORY_WATCH = 0.1  # seconds between looks at the memory of all processes; short runs see none


@dataclass(frozen=True)
class Caps:
    """What ends a run from outside."""

    wall_seconds: float
    output_bytes: int
    memory_bytes: int


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `sandbox` means that it never began: the sandbox itself failed."""

    ending: Ending
    code: int
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def ok(self) -> bool:
        return self.ending == "exit" and self.code == 0


def run_capped(
    sandbox: Sequence[str],
    command: Sequence[str],
    stdin: bytes,
    caps: Caps,
    descriptors: tuple[int, ...] = (),
    folder: str | None = None,
) -> Outcome:
    """Run `command`, inside the bubblewrap call `sandbox` if there is one, in a session of its own."""
    info_ours, info_theirs = os.pipe()
    inside = ["--info-fd", str(info_theirs), "--"] if sandbox else []
    started = time.monotonic()
    child = subprocess.Popen(
        [*sandbox, *inside, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(*descriptors, info_theirs),
        start_new_session=True,
        cwd=folder or "/",
        env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
    )
    os.close(info_theirs)
    run = _Run(child, stdin, caps, started, info_ours if sandbox else None)
    try:
        return run.finish()
    finally:
        run.end()
        os.close(info_ours)


class _Run:
    """One child: its pipes, its clock, and the first process of its namespace."""

    def __init__(
        self, child: "subprocess.Popen[bytes]", stdin: bytes, caps: Caps, started: float, info: int | None
    ) -> None:
        self._child, self._caps, self._started = child, caps, started
        self._input = memoryview(stdin)
        self._out, self._errors = bytearray(), bytearray()
        self._info = info
        self._about = bytearray()
        self._init: int | None = None  # process 1 of the sandbox, by its number out here
        self._init_handle: int | None = None

    def finish(self) -> Outcome:
        ending: Ending = self._pump()
        self.end()
        code = self._child.returncode
        began = self._info is None or self._init is not None
        if ending == "exit" and (
            not began or (code != 0 and self._errors.startswith((b"bwrap: ", b"setpriv: ", b"prlimit: ")))
        ):
            ending = "sandbox"
        return Outcome(ending, code, bytes(self._out), bytes(self._errors), time.monotonic() - self._started)

    def _pump(self) -> Ending:
        """Feed and drain the pipes until the child has ended or a cap is reached."""
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        end_handle = os.pidfd_open(child.pid)
        try:
            with selectors.DefaultSelector() as selector:
                for pipe in (child.stdin, child.stdout, child.stderr):
                    os.set_blocking(pipe.fileno(), False)
                selector.register(child.stdout, selectors.EVENT_READ, self._out)
                selector.register(child.stderr, selectors.EVENT_READ, self._errors)
                selector.register(end_handle, selectors.EVENT_READ)
                if self._input:
                    selector.register(child.stdin, selectors.EVENT_WRITE)
                else:
                    child.stdin.close()
                if self._info is not None:
                    os.set_blocking(self._info, False)
                    selector.register(self._info, selectors.EVENT_READ)
                return self._watch(selector, end_handle)
        finally:
            os.close(end_handle)

    def _watch(self, selector: selectors.DefaultSelector, end_handle: int) -> Ending:
        deadline = self._started + self._caps.wall_seconds
        next_look = self._started + _MEMORY_WATCH
        while True:
            now = time.monotonic()
            if now >= deadline:
                return "timeout"
            if now >= next_look:
                if self._resident_bytes() > self._caps.memory_bytes:
                    return "memory"
                next_look = now + _MEMORY_WATCH
            ended = False
            for key, _ in selector.select(min(deadline, next_look) - now):
                if key.fd == end_handle:
                    ended = True
                elif key.fd == self._info:
                    self._meet_init(key.fd)
                    if self._init is not None:
                        selector.unregister(key.fileobj)
                elif key.data is None:
                    self._feed(selector)
                elif not self._drain(key.fd, key.data):
                    selector.unregister(key.fileobj)
                if len(self._out) > self._caps.output_bytes:
                    return "output"
            if ended:
                return self._rest()

    def _rest(self) -> Ending:
        """The main process has ended: kill what it left running, then read what is in the pipes."""
        if self._info is not None and self._init is None:
            self._meet_init(self._info)
        self._kill()
        for pipe, kept in ((self._child.stdout, self._out), (self._child.stderr, self._errors)):
            assert pipe is not None
            while self._drain(pipe.fileno(), kept):
                if len(self._out) > self._caps.output_bytes:
                    return "output"
        return "exit"

    def _feed(self, selector: selectors.DefaultSelector) -> None:
        assert self._child.stdin is not None
        try:
            self._input = self._input[os.write(self._child.stdin.fileno(), self._input[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # it does not read its input; that is its right
            self._input = self._input[:0]
        if not self._input:
            selector.unregister(self._child.stdin)
            with suppress(OSError):
                self._child.stdin.close()

    def _drain(self, descriptor: int, kept: bytearray) -> bool:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        kept += chunk
        if kept is self._errors:  # read to the end, so that it never blocks, but kept short
            del kept[_KEPT_ERRORS:]
        return bool(chunk)

    def _meet_init(self, info: int) -> None:
        """Learn the sandbox's first process. Bubblewrap names it before it starts anything."""
        with suppress(BlockingIOError):
            self._about += os.read(info, 4096)
        named = re.search(rb'"child-pid": (\d+)\b', self._about)
        if named and self._init is None:
            self._init = int(named[1])
            with suppress(ProcessLookupError):
                self._init_handle = os.pidfd_open(self._init)

    def _resident_bytes(self) -> int:
        """Resident memory of all processes of the run; orphans are still children of process 1."""
        total, waiting = 0, [self._init or self._child.pid]
        while waiting:
            pid = waiting.pop()
            with suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{pid}/statm", "rb") as statm:
                    total += int(statm.read().split()[1]) * resource.getpagesize()
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/children", "rb") as children:
                        waiting += map(int, children.read().split())
        return total

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
            with suppress(ChildProcessError):  # ours to bury in a worker, the system's elsewhere
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
