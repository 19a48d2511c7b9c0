"""Agon: train two language models to out-reason each other.

The public names are loaded on first use, so that `import agon` and the light commands of the command
line never wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agon.version import __version__

if TYPE_CHECKING:
    from agon.train.config import AgonConfig
    from agon.train.trainer import AgonTrainer

__all__ = ["AgonConfig", "AgonTrainer", "__version__"]

_HOME = {"AgonConfig": "agon.train.config", "AgonTrainer": "agon.train.trainer"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'agon' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
