"""Two training processes on vLLM, an engine in each or two servers for both, learn what one process learns."""

import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import PrinterCallback

from agon.runs.folder import Run
from agon.train.trainer import AgonTrainer
from tests import tiny
from tests.train.build import config
from tests.vllm.servers import Server, warm, write_to
from tests.vllm.tiny import Tiny

STEPS = 2


def train(rank: int, processes: int, port: int, words: Sequence[str], log: Path) -> None:
    """One training process of several, as a launcher starts them."""
    write_to(log)
    if processes > 1:
        places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes}
        os.environ.update({name: str(place) for name, place in places.items()})
        os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
    base, folder, engine, *servers = words
    args = config(
        Path(folder),
        max_steps=STEPS,
        per_device_train_batch_size=8 // processes,
        engine=engine,
        vllm_servers=servers or None,
        vllm_max_model_length=1024,
        vllm_enforce_eager=True,
        optim="sgd",
        learning_rate=0.3,
    )
    ours = AgonTrainer(base, tiny.task(), args)
    ours.remove_callback(PrinterCallback)
    ours.train()
    ours.close()
    print("GAP", max(ours.gaps.values()), flush=True)


class Training:
    """Some training processes of one run."""

    def __init__(
        self, base: Tiny, folder: Path, processes: int, engine: str, servers: Sequence[str] = ()
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = [str(base.path), str(folder), engine, *servers]
        self.logs = [folder.parent / f"{folder.name}.{rank}.log" for rank in range(processes)]
        self.ranks = [
            warm().Process(target=train, args=(rank, processes, port, words, log))
            for rank, log in enumerate(self.logs)
        ]
        for rank in self.ranks:
            rank.start()

    @property
    def runs(self) -> bool:
        return all(rank.is_alive() for rank in self.ranks)

    def finish(self) -> None:
        for rank, log in zip(self.ranks, self.logs, strict=True):
            rank.join(timeout=900)
            said = log.read_text()
            assert rank.exitcode == 0, said[-5000:]
            [gap] = [float(line.split()[1]) for line in said.splitlines() if line.startswith("GAP")]
            assert gap < 1e-4


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


@pytest.mark.exhaustive  # most of a minute
def test_two_processes_with_an_engine_each_or_with_servers_of_which_one_dies_learn_the_same(
    shared_tiny: Tiny, servers: list[Server], tmp_path: Path
) -> None:
    urls = [server.url for server in servers]
    one, both, apart = (Run(tmp_path / name) for name in ("one", "both", "apart"))
    Training(shared_tiny, one.folder, 1, "vllm-server", urls).finish()

    shared = Training(shared_tiny, both.folder, 2, "vllm-server", urls)
    while shared.runs and not (both.folder / "metrics.jsonl").exists():
        time.sleep(0.05)
    servers[1].kill()
    shared.finish()
    check_equal(one, both)
    assert (adapters(one) - adapters_at_start(shared_tiny)).norm() > 0.1

    Training(shared_tiny, apart.folder, 2, "vllm").finish()
    check_equal(one, apart)


def adapters_at_start(base: Tiny) -> torch.Tensor:
    from agon.policies import Adapters, Pair
    from agon.policies.base import load_base

    pair = Pair.create(load_base(str(base.path)), Adapters(seed=1))
    named = {
        name: sorted((key.replace(f".{name}.", "."), weight) for key, weight in pair.weights(name))
        for name in "AB"
    }
    return torch.cat([weight.detach().flatten() for name in "AB" for _, weight in named[name]])
