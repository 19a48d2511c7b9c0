"""What an adapter's folder says of itself, without loading it."""

import json
from pathlib import Path

from agon.errors import InputError


def adapter_rank(folder: Path) -> int:
    """The rank of the adapter in a PEFT folder."""
    path = folder / "adapter_config.json"
    try:
        rank = json.loads(path.read_text("utf-8"))["r"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not the configuration of an adapter ({error!r}).") from error
    if not isinstance(rank, int) or rank < 1:
        raise InputError(f"{path} names the rank {rank!r}; expected a whole number of at least 1.")
    return rank
