"""Adapters as engines outside the trainer load them: a new name, number and folder every time.

vLLM's prefix cache knows an adapter by its name (and, in some releases, its path), so weights that
change under an old name are answered from stale keys and values. Nothing here is ever overwritten:
publishing a policy makes a new edition, and the old one is withdrawn.
"""

import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from safetensors.torch import load_file, save_file

from agon.engines.protocol import Request
from agon.errors import InputError
from agon.policies.pair import BASE, Pair


@dataclass(frozen=True)
class Edition:
    """One policy at one version: the PEFT folder it lies in and the name it is served under."""

    policy: str
    version: int
    name: str
    number: int
    path: str


class Shelf:
    """Writes editions into a folder of its own and takes them away again.

    `folder` is where that folder is made; None means memory (/dev/shm) where there is any, else the
    temporary directory. Servers on other hosts need a folder that they share with the trainer.
    """

    def __init__(self, pair: Pair, folder: str | Path | None = None) -> None:
        self._pair = pair
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        parent = str(folder) if folder is not None else _memory()
        # Goes when it is closed or when the process ends, whichever is first.
        self._folder = tempfile.TemporaryDirectory(
            prefix="agon-adapters-", dir=parent, ignore_cleanup_errors=True
        )
        self._root = Path(self._folder.name).resolve()
        # Two runs may share servers, and one run may come back after a crash: names must not meet.
        self._mark = secrets.token_hex(4)
        self._numbers = count(1)

    def publish(self, policy: str, version: int) -> Edition:
        """Write a policy's present weights."""
        return self._write(policy, policy, version)

    def publish_base(self) -> Edition:
        """Write an adapter that changes nothing: the base, for engines that confuse "no adapter"."""
        edition = self._write(self._pair.names[0], BASE, 0)
        file = Path(edition.path) / "adapter_model.safetensors"
        tensors = load_file(file)
        for key, tensor in tensors.items():
            if "lora_B" in key:
                tensor.zero_()
        save_file(tensors, file, metadata={"format": "pt"})
        return edition

    def withdraw(self, edition: Edition) -> None:
        """Remove an edition's folder. Whoever has loaded it keeps it until told otherwise."""
        shutil.rmtree(Path(edition.path).parent, ignore_errors=True)

    def owns(self, name: str) -> bool:
        """Whether a name that some server lists was given out here."""
        return f"-{self._mark}-" in name

    def close(self) -> None:
        self._folder.cleanup()

    def _write(self, source: str, policy: str, version: int) -> Edition:
        number = next(self._numbers)
        name = f"{policy}@{version}-{self._mark}-{number}"
        path = self._root / name / source
        self._pair.export(source, path)
        return Edition(policy, version, name, number, str(path))


def check_request(request: Request, versions: dict[str, int], max_model_len: int) -> None:
    """Refuse a request for weights that an engine does not hold, or for more tokens than fit."""
    held = versions.get(request.policy)
    if held != request.version:
        state = "was never synced to" if held is None else f"is at version {held} in"
        raise InputError(
            f"Policy '{request.policy}' {state} this engine, but version {request.version} was asked for; "
            "sync it first."
        )
    if not request.prompt_ids:
        raise InputError(f"Request '{request.key}' has an empty prompt.")
    wanted = len(request.prompt_ids) + request.sampling.max_tokens
    if wanted > max_model_len:
        raise InputError(
            f"Request '{request.key}' has {len(request.prompt_ids)} prompt tokens and asks for "
            f"{request.sampling.max_tokens} more, but this engine's max_model_len is {max_model_len}; "
            f"set it to at least {wanted}."
        )


def largest_rank(pair: Pair) -> int:
    """The rank that an engine must reserve room for."""
    return max(pair.model.peft_config[name].r for name in pair.names)


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
