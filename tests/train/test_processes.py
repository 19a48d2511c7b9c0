"""Two processes make the same update as one on the same rollouts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from agon.policies import Adapters, Pair
from agon.runs.folder import Run
from tests import tiny

SCRIPT = """
import json, sys
from pathlib import Path
from tests.train.build import trainer

folder, rows, accumulation = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
ours = trainer(
    folder, max_steps=1, per_device_train_batch_size=rows, gradient_accumulation_steps=accumulation,
    # Plain descent: the update is the gradient. Adam turns rounding of a tiny gradient into a whole step.
    loss_type=sys.argv[4], optim="sgd", learning_rate=1.0,
)
ours.train()
ours.close()
if ours.accelerator.is_main_process:
    print("PROCESSES", ours.accelerator.num_processes)
"""


def launch(folder: Path, processes: int, rows: int, loss: str) -> None:
    root = Path(__file__).parents[2]
    script = folder.parent / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable]
    if processes > 1:
        # Standalone: it finds itself a free port.
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    finished = subprocess.run(
        [*command, str(script), str(folder), str(rows), "4", loss],
        env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert f"PROCESSES {processes}" in finished.stdout


def adapters(folder: Path) -> torch.Tensor:
    from safetensors.torch import load_file

    tensors = [load_file(folder / "adapters" / name / "adapter_model.safetensors") for name in "AB"]
    return torch.cat([weights[key].flatten() for weights in tensors for key in sorted(weights)])


@pytest.mark.parametrize("loss", ["dapo", "grpo"])
def test_two_processes_equal_one(tmp_path: Path, loss: str) -> None:
    launch(tmp_path / "one", 1, 8, loss)
    launch(tmp_path / "two", 2, 4, loss)
    one, two = Run(tmp_path / "one"), Run(tmp_path / "two")
    texts = [[duel.draft.rollout.text for duel in run.duels()] for run in (one, two)]
    assert texts[0] == texts[1], "the rollouts are the same"
    start = torch.cat([weight.flatten() for name in "AB" for weight in _start(name)])
    updates = [adapters(tmp_path / folder) - start for folder in ("one", "two")]
    assert updates[0].norm() > 0.1
    assert (updates[0] - updates[1]).norm() / updates[0].norm() < 1e-5
    assert json.loads((tmp_path / "two" / "environment.json").read_text())["processes"] == 2


def _start(name: str) -> list[torch.Tensor]:
    pair = Pair.create(tiny.model(), Adapters(seed=1))
    named = sorted((key.replace(f".{name}.", "."), weight.detach()) for key, weight in pair.weights(name))
    return [weight for _, weight in named]
