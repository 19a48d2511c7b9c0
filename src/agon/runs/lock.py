"""One owner per run folder, and per evaluation in it.

Whoever writes holds an flock on the file `.owner` in the folder, which also says who that is: host, process, command
and since when. The kernel lets go of it when the process ends, however it ends, so a dead owner keeps nothing. Children
do not inherit it. Readers need no lock.

How far it goes: Linux passes flock on to an NFS server (since 2.6.12), so owners on two machines see each other there,
unless the share is mounted with `nolock` or `local_lock`. Where a file system has no locks at all (some cluster file
systems) the record alone decides: an owner on this machine whose process is gone is ignored, one on another machine is
believed, and the sentence names the file to remove.
"""

import errno
import fcntl
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from agon.errors import InputError

OWNER = ".owner"
NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)
TRIES = 100
PATIENCE_S = 5.0
# What this process holds: the folder, the thread that holds it, and how often it was entered.
_held: dict[Path, tuple[int, int]] = {}
_files: set[int] = set()


@contextmanager
def owned(folder: Path, what: str = "run") -> Iterator[None]:
    """Own a folder for the length of a block, or say who does; entering it again within the block is free."""
    place, thread = folder.resolve(), threading.get_ident()
    holder, depth = _held.get(place, (thread, 0))
    if depth and holder != thread:
        raise InputError(f"The {what} '{folder}' is in use by another thread of this process: wait for it.")
    made = [path for path in (place, *place.parents) if not path.exists()]
    file = None if depth else _take(place, what, folder)
    _held[place] = (thread, depth + 1)
    process = os.getpid()
    try:
        yield
    finally:
        if process != os.getpid():
            pass  # a forked child, which owns nothing
        elif depth:
            _held[place] = (thread, depth)
        else:
            del _held[place]
            assert file is not None
            _files.discard(file)
            # Removed while still held, so that nobody locks a file that is about to go.
            with suppress(OSError):
                (place / OWNER).unlink()
            os.close(file)
            with suppress(OSError):  # one that was put to use stays
                for path in made:
                    path.rmdir()


def refuse_owned(folder: Path) -> None:
    """Say who owns a folder that somebody owns; for whoever will own it later, after much loading."""
    if (folder / OWNER).exists():
        with owned(folder):
            pass


def owner_of(folder: Path) -> dict[str, Any]:
    """Who says to own a folder; empty where nobody does. The record of a dead owner may still lie there."""
    if not (folder / OWNER).is_file():  # a pipe would be waited for
        return {}
    try:
        found = json.loads((folder / OWNER).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def has_owner(folder: Path) -> bool:
    """Whether somebody owns a folder, by the record alone: one on another machine is believed."""
    record = owner_of(folder)
    return bool(record) and not _dead(record)


def _take(place: Path, what: str, shown: Path) -> int:
    path = place / OWNER
    for attempt in range(TRIES):
        try:
            place.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and attempt < TRIES - 1:
                continue  # whoever owned it before may have just removed the empty folder
            raise InputError(f"Nothing can be written into '{shown}': {error.strerror}.") from error
        try:
            _lock(file, place)
        except OSError as error:
            os.close(file)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise _in_use(shown, what) from None
            if error.errno not in NO_LOCKS:
                raise
            file = _without_locks(path, what, shown)
        # The owner before may have removed the file between opening and locking it.
        with suppress(FileNotFoundError):
            if os.fstat(file).st_ino == os.stat(path, follow_symlinks=False).st_ino:
                break
        os.close(file)
    else:
        raise _in_use(shown, what)
    record = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "born": _born(os.getpid()),
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": Path(sys.argv[0]).name + "".join(f" {word}" for word in sys.argv[1:3]),
    }
    os.ftruncate(file, 0)
    os.pwrite(file, (json.dumps(record) + "\n").encode(), 0)
    _files.add(file)
    return file


def _lock(file: int, place: Path) -> None:
    """Lock an open file; a child that a dead owner had just forked is given a moment to let go of it."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not _dead(owner_of(place)) or time.monotonic() > until:
                raise
        time.sleep(0.01)


def _without_locks(path: Path, what: str, shown: Path) -> int:
    """On a file system without locks: the record, if whoever wrote it may still be there."""
    found = owner_of(path.parent)
    here = found.get("host") == socket.gethostname()
    if found and not _dead(found):
        raise _in_use(shown, what, "" if here else f" (or, if that process is gone, remove '{path}')")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


def _in_use(folder: Path, what: str, otherwise: str = "") -> InputError:
    record = owner_of(folder)
    who = (
        f"process {record.get('pid')} on {record.get('host')} since {record.get('since')} "
        f"({record.get('command')})"
        if record
        else "another process"
    )
    return InputError(f"The {what} '{folder}' is in use by {who}: wait for it, or stop it{otherwise}.")


def _dead(record: dict[str, Any]) -> bool:
    """Whether a record names a process of this machine that is gone."""
    return record.get("host") == socket.gethostname() and _born(record.get("pid")) != record.get("born")


def _born(pid: Any) -> str | None:
    """When a process was started, in ticks since the machine was; None where none runs under that number."""
    try:
        state = Path(f"/proc/{int(pid)}/stat").read_text().rpartition(")")[2].split()
        return None if state[0] in "ZX" else state[19]
    except (OSError, ValueError, TypeError, IndexError):
        return None


def _let_go() -> None:
    """A forked child does not own what its parent does, and must not keep it alive after the parent."""
    for file in _files:
        with suppress(OSError):
            os.close(file)
    _files.clear()
    _held.clear()


os.register_at_fork(after_in_child=_let_go)
