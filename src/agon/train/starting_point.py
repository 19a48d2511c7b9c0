"""What a run starts from: where its base lies, and adapters that were trained before."""

import os
from pathlib import Path
from typing import Any

from agon.embedded import EMBEDDED
from agon.errors import InputError
from agon.policies import Pair
from agon.policies.pair import saved_policies
from agon.runs.folder import Run, is_run
from agon.train.config import AgonConfig


def located(model: str) -> str:
    """The name of a base that means the same in every folder: a local one by its path from the root."""
    folder = os.path.expanduser(model)
    return os.path.abspath(folder) if model != EMBEDDED and os.path.isdir(folder) else model


def warm_start(pair: Pair, args: AgonConfig, resumed: bool) -> dict[str, Any]:
    """Give the policies the weights that `adapters_from` names, and return what a run records of it.

    A folder with A and B gives each its own. A single adapter is given to both, and B's lora_B gets its noise
    on top, so that the two differ. A resumed run has its weights from its checkpoint.
    """
    if args.adapters_from is None:
        return {}
    given = Path(os.path.expanduser(args.adapters_from)).absolute()
    args.adapters_from = str(given)
    if resumed:
        return {"adapters_from": {"folder": str(given)}}
    if is_run(given):
        Run(given).refuse_damaged_adapters()
    folder = next((each for each in (given / "adapters", given) if saved_policies(each)), given)
    single = folder if (folder / "adapter_config.json").is_file() else folder / "A"
    found = saved_policies(folder)
    if not found and not (single / "adapter_config.json").is_file():
        raise InputError(
            f"adapters_from must be a run or a folder of PEFT adapters, and '{given}' has no adapter_config.json."
        )
    for name in pair.names:
        pair.load_one(name, folder / name if name in found else single)
        if name not in found and name != "A":
            pair.add_noise(name, args.init_noise)
    started = {name: pair.fingerprint(name) for name in pair.names}
    return {"adapters_from": {"folder": str(given), "fingerprints": started}}
