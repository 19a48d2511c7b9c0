"""The record of what a folder holds: every file with its size and hash, written last.

    seal(folder)                   # when everything else in it is written
    differences(folder)            # what is not as it was sealed: nothing, one hopes
    not_finite(file)               # weights that no training can go on from

Nothing here needs torch: a resumed run is refused before it is loaded.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agon.runs.files import sync_folder, sync_tree, write_json

MANIFEST = "manifest.json"
BLOCK = 1 << 20
ADDED = "was added later"
# The bits of each floating-point kind that are all set in NaN and the infinities, and its bytes.
EXPONENTS = {"F64": (8, 0x7FF0 << 48), "F32": (4, 0x7F80 << 16), "F16": (2, 0x7C00), "BF16": (2, 0x7F80)}


def seal(folder: Path, manifest: Path | None = None) -> None:
    """Write the manifest of a folder, in it or elsewhere, and wait until all of it is on the disk."""
    files = {str(path.relative_to(folder)): _record(path) for path in _files(folder)}
    sync_tree(folder)
    sync_folder(folder.parent)
    write_json(manifest or folder / MANIFEST, {"files": files})


def sealed(folder: Path, manifest: Path | None = None) -> bool:
    return (manifest or folder / MANIFEST).is_file()


def differences(folder: Path, manifest: Path | None = None) -> Iterator[str]:
    """What is not as the manifest says, one clause each: `optimizer.pt has 5 bytes instead of 7`."""
    try:
        found = json.loads((manifest or folder / MANIFEST).read_text("utf-8"))
        wanted = {
            str(name): (int(each["size"]), str(each["sha256"])) for name, each in found["files"].items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        yield f"{(manifest or folder / MANIFEST).name} cannot be read"
        return
    here = {str(path.relative_to(folder)) for path in _files(folder)}
    for name, (size, digest) in wanted.items():
        if name not in here:
            yield f"{name} is missing"
            continue
        try:
            now = _record(folder / name)
        except OSError as error:
            yield f"{name} cannot be read ({error.strerror})"
            continue
        if now["size"] != size:
            yield f"{name} has {now['size']:,} bytes instead of {size:,}"
        elif now["sha256"] != digest:
            yield f"{name} is not what was written (its hash differs)"
    for name in sorted(here - wanted.keys()):
        yield f"{name} {ADDED}"


def not_finite(file: Path) -> str | None:
    """Why the weights in a safetensors file cannot be used, None if every number is finite."""
    import numpy as np

    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            size = file.stat().st_size
            if not 2 <= length <= size - 8:
                return f"{file.name} is cut off or no safetensors file"
            header = json.loads(stream.read(length))
            body = np.frombuffer(stream.read(), dtype=np.uint8)
        ends = 0
        for name, tensor in header.items():
            if name == "__metadata__":
                continue
            start, end = tensor["data_offsets"]
            ends = max(ends, end)
            if not 0 <= start <= end <= len(body):
                return f"{file.name} is cut off"
            if tensor["dtype"] not in EXPONENTS:
                continue
            width, bits = EXPONENTS[tensor["dtype"]]
            if (end - start) != width * math.prod(tensor["shape"]):
                return f"{name} in {file.name} has another size than it says"
            numbers = body[start:end].copy().view(f"<u{width}")
            if bool(((numbers & np.array(bits, dtype=numbers.dtype)) == bits).any()):
                return f"{name} in {file.name} has weights that are not finite"
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return f"{file.name} is no safetensors file ({type(error).__name__})"
    return None if ends == len(body) else f"{file.name} has {len(body) - ends:,} bytes too many"


def _files(folder: Path) -> list[Path]:
    """Every file that the manifest answers for; people may write into a model card."""
    leave_out = (MANIFEST, "README.md")
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in leave_out)


def _record(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
            size += len(block)
    return {"size": size, "sha256": digest.hexdigest()}
