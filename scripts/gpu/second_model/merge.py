"""The warmed model again, from its base and the adapter that `agon warm` has kept: nothing is sampled or trained.

    python scripts/gpu/second_model/merge.py BASE FOLDER

FOLDER holds `warm/adapter`, and becomes the model.
"""

import sys
from pathlib import Path

from agon.engines.chat import Chat
from agon.evaluate.target import open_target
from agon.runs.files import read_json
from agon.runs.trust import EVERYTHING
from agon.warm.finetune import merge
from agon.warm.request import WarmRequest


def main() -> None:
    base, folder = sys.argv[1], Path(sys.argv[2])
    made = read_json(folder / "warm" / "trained.json")
    if made.get("model") != base:
        raise SystemExit(
            f"The adapter in {folder}/warm was trained over {made.get('model')!r}, not {base!r}."
        )
    settings = open_target(base, EVERYTHING).settings
    request = WarmRequest(base, task="", dialect=made["dialect"], output=folder)
    merge(settings, Chat(settings.load_tokenizer(), request.dialect), request)
    print(f"merged into {folder}")


if __name__ == "__main__":
    main()
