"""A sweep without its weights, to be carried to another machine: one archive a cell.

Unpacked into the folder of the same sweep there, a finished cell stays finished and can be reported on.
"""

import shutil
import tarfile
from pathlib import Path

from agon.errors import InputError
from agon.runs.sweep_folder import SWEEP, Cell, SweepFolder


def pack(folder: SweepFolder, out: Path) -> list[Path]:
    """Pack every cell that has begun, and the sweep's own files, into a folder."""
    cells = folder.cells()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"Nothing can be written into '{out}': {error.strerror}.") from error
    packed = [pack_cell(folder, cell, out) for cell in cells if folder.files(cell)]
    own = [folder.folder / SWEEP, *(folder.recipe(group) for group in sorted({cell.group for cell in cells}))]
    return [*packed, *(Path(shutil.copy(path, out)) for path in own if path.exists())]


def pack_cell(folder: SweepFolder, cell: Cell, out: Path) -> Path:
    """Write a cell's run without its weights, and the files beside it, into one archive."""

    def without_weights(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        # What is no plain file (a link, a socket) would be somebody else's when it is unpacked.
        plain = member.isfile() or member.isdir()
        return member if plain and not member.name.endswith(".safetensors") else None

    packed = out / f"{cell.name}.tgz"
    with tarfile.open(packed, "w:gz") as archive:
        for path in folder.files(cell):
            archive.add(path, arcname=path.name, filter=without_weights)
    return packed
