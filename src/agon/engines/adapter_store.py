"""Adapters on disk for engines outside the trainer: a new name, id and folder every time.

vLLM's prefix cache identifies an adapter by its name (and, in some releases, its path), so weights
that change under an old name would be sampled with stale keys and values. Nothing here is ever
overwritten: publishing a policy writes a new folder, and the old one is removed.
"""

import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from safetensors.torch import load_file, save_file

from agon.policies.pair import BASE, Pair


@dataclass(frozen=True)
class StoredAdapter:
    """One policy at one version: its PEFT folder, and the name and id under which vLLM loads it."""

    policy: str
    version: int
    name: str
    lora_id: int
    path: str


class AdapterStore:
    """Writes adapters into a temporary folder and removes them again.

    `folder` is where the temporary folder is made; None means shared memory (/dev/shm) if there is
    any, else the system's temporary directory. Servers on other hosts need a folder that they share
    with the trainer.
    """

    def __init__(self, pair: Pair, folder: str | Path | None = None) -> None:
        self._pair = pair
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        parent = str(folder) if folder is not None else _shared_memory()
        # Removed when it is closed or when the process ends, whichever is first.
        self._folder = tempfile.TemporaryDirectory(
            prefix="agon-adapters-", dir=parent, ignore_cleanup_errors=True
        )
        self._root = Path(self._folder.name).resolve()
        # Two runs may share servers, and a run may restart after a crash: names must not collide.
        self._tag = secrets.token_hex(4)
        self._ids = count(1)

    def publish(self, policy: str, version: int) -> StoredAdapter:
        """Write a policy's current weights."""
        return self._write(policy, policy, version)

    def publish_base(self) -> StoredAdapter:
        """Write an adapter of zeros: the base, for servers that would apply an adapter to a request without one."""
        adapter = self._write(self._pair.names[0], BASE, 0)
        file = Path(adapter.path) / "adapter_model.safetensors"
        tensors = load_file(file)
        for key, tensor in tensors.items():
            if "lora_B" in key:
                tensor.zero_()
        save_file(tensors, file, metadata={"format": "pt"})
        return adapter

    def remove(self, adapter: StoredAdapter) -> None:
        """Delete an adapter's folder. An engine that has loaded it keeps it until told to unload it."""
        shutil.rmtree(Path(adapter.path).parent, ignore_errors=True)

    def owns(self, name: str) -> bool:
        """Whether a name that some server lists comes from this store."""
        return f"-{self._tag}-" in name

    def close(self) -> None:
        self._folder.cleanup()

    def _write(self, source: str, policy: str, version: int) -> StoredAdapter:
        lora_id = next(self._ids)
        name = f"{policy}@{version}-{self._tag}-{lora_id}"
        path = self._root / name / source
        self._pair.export(source, path)
        return StoredAdapter(policy, version, name, lora_id, str(path))


def largest_rank(pair: Pair) -> int:
    """The rank that an engine must reserve memory for."""
    return max(pair.model.peft_config[name].r for name in pair.names)


def _shared_memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
