"""Two training processes on vLLM, an engine in each or two servers for both, learn what one process learns."""

import os
import subprocess
import sys
import time
from pathlib import Path

import torch

from agon.runs.folder import Run
from tests.vllm.servers import Server
from tests.vllm.tiny import Tiny

STEPS = 2
ROOT = Path(__file__).parents[2]
# A child process of vLLM imports the script that started it.
SCRIPT = f"""
import sys
from pathlib import Path

if __name__ == "__main__":
    from tests import tiny
    from tests.train.build import config
    from transformers import PrinterCallback
    from agon.train.trainer import AgonTrainer

    base, folder, rows, engine, *servers = sys.argv[1:]
    args = config(
        Path(folder), max_steps={STEPS}, per_device_train_batch_size=int(rows), engine=engine,
        vllm_servers=servers or None, vllm_max_model_length=1024, vllm_enforce_eager=True,
        optim="sgd", learning_rate=0.3,
    )
    ours = AgonTrainer(base, tiny.task(), args)
    ours.remove_callback(PrinterCallback)
    ours.train()
    ours.close()
    print("GAP", max(ours.gaps.values()), flush=True)
"""


def start(
    tiny: Tiny, folder: Path, processes: int, engine: str, servers: list[str]
) -> "subprocess.Popen[str]":
    script = folder.parent / "script.py"
    script.write_text(SCRIPT)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    words = [str(tiny.path), str(folder), str(8 // processes), engine, *servers]
    return subprocess.Popen(
        [sys.executable, *(launcher if processes > 1 else []), str(script), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]", processes: int) -> None:
    said, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors[-5000:]
    gaps = [float(line.split()[1]) for line in said.splitlines() if line.startswith("GAP")]
    assert len(gaps) == processes
    assert max(gaps) < 1e-4


def played(run: Run) -> list[tuple[int, str, int, str]]:
    return sorted(
        (duel.step, duel.problem.id, duel.index, duel.draft.rollout.text + duel.challenge.rollout.text)
        for duel in run.duels()
        if duel.challenge
    )


def adapters(run: Run) -> torch.Tensor:
    from safetensors.torch import load_file

    tensors = [load_file(run.adapters / name / "adapter_model.safetensors") for name in "AB"]
    return torch.cat([weights[key].flatten() for weights in tensors for key in sorted(weights)])


def check_equal(one: Run, two: Run) -> None:
    assert len(played(one)) == STEPS * 4 * 4
    assert played(two) == played(one)
    assert two.read_environment()["processes"] == 2
    assert (adapters(one) - adapters(two)).norm() / adapters(one).norm() < 1e-5
    for left, right in zip(one.read_metrics(), two.read_metrics(), strict=True):
        assert right["A/grad_norm"] > 0
        for name in ("A/grad_norm", "B/grad_norm", "draft/correct", "challenge/dropped_groups"):
            assert abs(left[name] - right[name]) <= 1e-4 * abs(left[name])


def test_two_processes_with_an_engine_each_or_with_servers_of_which_one_dies_learn_the_same(
    shared_tiny: Tiny, servers: list[Server], tmp_path: Path
) -> None:
    urls = [server.url for server in servers]
    one, both, apart = (Run(tmp_path / name) for name in ("one", "both", "apart"))
    finish(start(shared_tiny, one.folder, 1, "vllm-server", urls), 1)

    shared = start(shared_tiny, both.folder, 2, "vllm-server", urls)
    while shared.poll() is None and not (both.folder / "metrics.jsonl").exists():
        time.sleep(0.05)
    servers[1].kill()
    finish(shared, 2)
    check_equal(one, both)
    assert (adapters(one) - adapters_at_start(shared_tiny)).norm() > 0.1

    finish(start(shared_tiny, apart.folder, 2, "vllm", []), 2)
    check_equal(one, apart)


def adapters_at_start(tiny: Tiny) -> torch.Tensor:
    from agon.policies import Adapters, Pair
    from agon.policies.base import load_base

    pair = Pair.create(load_base(str(tiny.path)), Adapters(seed=1))
    named = {
        name: sorted((key.replace(f".{name}.", "."), weight) for key, weight in pair.weights(name))
        for name in "AB"
    }
    return torch.cat([weight.detach().flatten() for name in "AB" for _, weight in named[name]])
