"""Where the pairs of setting d start: A is the adapter of a trained run, B a fresh one over the same base.

    python scripts/gpu/second_model/start_d.py RUN FOLDER

FOLDER becomes what `agon train --adapters_from` takes. So drafts of A are better than what B writes alone, and
d_candidate.sweep.yaml measures by how much, on validation, before anything is trained.
"""

import argparse
from pathlib import Path

import torch
from peft import LoraConfig

from agon.evaluate.target import open_target
from agon.policies import Adapters, Pair
from agon.runs.trust import EVERYTHING


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    run, folder = arguments.run, arguments.folder
    trained = run / "adapters" / "A"
    lora = LoraConfig.from_pretrained(str(trained))
    base = open_target(str(run), EVERYTHING).settings.load_base(torch.float32, None)
    pair = Pair.create(base, Adapters(lora.r, lora.lora_alpha, targets=lora.target_modules))
    pair.load_one("A", trained)
    pair.save(folder)
    print(f"{folder}: A from {run}, B fresh, their distance {pair.distance():.3f}")


if __name__ == "__main__":
    main()
