"""A disk that forgets: what was not flushed when the power went is gone.

`Disk` listens to every `os.fsync` of this process. Flushing a file keeps its content as it is, flushing a folder the
names in it. `after_power_cut` writes what a strict file system would still have: of a name that was never flushed
nothing, of a file that has a name but was not flushed an empty file.
"""

import os
import stat
from pathlib import Path


class Disk:
    """What of the files below a folder has reached the disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, tuple[int, bool]]] = {}
        self._fsync = os.fsync
        os.fsync = self._listen  # type: ignore[assignment]

    def _listen(self, descriptor: int) -> None:
        self._fsync(descriptor)
        status = os.fstat(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if stat.S_ISDIR(status.st_mode):
            self._names[status.st_ino] = {
                entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(path)
            }
        else:
            self._contents[status.st_ino] = path.read_bytes()

    def after_power_cut(self, target: Path) -> None:
        """Write what is left into another folder."""
        self._write(os.stat(self.root).st_ino, target)

    def _write(self, folder: int, target: Path) -> None:
        target.mkdir(parents=True)
        for name, (number, is_folder) in self._names.get(folder, {}).items():
            if is_folder:
                self._write(number, target / name)
            else:
                (target / name).write_bytes(self._contents.get(number, b""))
