"""Two processes make the same update as one on the same rollouts."""

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
for loss in sys.argv[4:]:
    ours = trainer(
        folder / loss, max_steps=1, per_device_train_batch_size=rows, gradient_accumulation_steps=accumulation,
        # Plain descent: the update is the gradient. Adam turns rounding of a tiny gradient into a whole step.
        loss_type=loss, optim="sgd", learning_rate=1.0,
    )
    ours.train()
    ours.close()
    if ours.accelerator.is_main_process:
        print("PROCESSES", ours.accelerator.num_processes)
"""
LOSSES = ("dapo", "grpo")


def launch(folder: Path, processes: int, rows: int) -> None:
    """One training of one step for every loss; starting the processes takes longer than that."""
    root = Path(__file__).parents[2]
    script = folder.parent / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable]
    if processes > 1:
        # Standalone: it finds itself a free port.
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    finished = subprocess.run(
        [*command, str(script), str(folder), str(rows), "4", *LOSSES],
        env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert finished.stdout.count(f"PROCESSES {processes}") == len(LOSSES)


def adapters(folder: Path) -> torch.Tensor:
    from safetensors.torch import load_file

    tensors = [load_file(folder / "adapters" / name / "adapter_model.safetensors") for name in "AB"]
    return torch.cat([weights[key].flatten() for weights in tensors for key in sorted(weights)])


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    launch(folder / "one", 1, 8)
    launch(folder / "two", 2, 4)
    return folder


@pytest.mark.parametrize("loss", LOSSES)
def test_two_processes_equal_one(launched: Path, loss: str) -> None:
    one, two = Run(launched / "one" / loss), Run(launched / "two" / loss)
    texts = [[duel.draft.rollout.text for duel in run.duels()] for run in (one, two)]
    assert texts[0] == texts[1], "the rollouts are the same"
    start = torch.cat([weight.flatten() for name in "AB" for weight in _start(name)])
    updates = [adapters(run.folder) - start for run in (one, two)]
    assert updates[0].norm() > 0.1
    assert (updates[0] - updates[1]).norm() / updates[0].norm() < 1e-5
    assert two.read_environment()["processes"] == 2


def _start(name: str) -> list[torch.Tensor]:
    pair = Pair.create(tiny.model(), Adapters(seed=1))
    named = sorted((key.replace(f".{name}.", "."), weight.detach()) for key, weight in pair.weights(name))
    return [weight for _, weight in named]
