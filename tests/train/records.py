"""What a finished run must end with, whatever happened to it on the way."""

import json
from pathlib import Path
from typing import Any

from agon.runs.folder import Run


def records(folder: Path) -> dict[str, Any]:
    """Its metrics, duels and adapters; how long things took, and what timed out of it, may differ."""
    run = Run(folder)
    metrics = [
        {key: value for key, value in line.items() if "time" not in key} for line in run.read_metrics()
    ]
    duels = []
    for duel in run.duels():
        line = json.loads(duel.to_json())
        for side in ("draft", "challenge"):
            line[side]["verdict"].pop("seconds")
        duels.append(line)
    weights = {
        name: (run.adapters / name / "adapter_model.safetensors").read_bytes()
        for name in ("A", "B")
        if (run.adapters / name).is_dir()
    }
    return {"metrics": metrics, "duels": duels, "weights": weights}
