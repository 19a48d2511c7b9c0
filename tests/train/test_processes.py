"""Two processes play the same duels and make the same updates as one: the base whole in each, or sharded."""

import io
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch

from agon.game.duel import Entry
from agon.policies import Adapters, Pair
from agon.runs.folder import Run
from agon.train.recipes import RECIPES
from tests import tiny

# TRL averages these over micro-batches, which hold other rows.
DIFFER = frozenset({"draft/kl", "challenge/kl"})

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

from agon.engines.peers import from_main, rank, wait_for_all
from agon.errors import InputError

def refuse():
    raise InputError(f"no server, says {rank()}")

wait_for_all()
try:
    from_main(refuse)
except InputError as error:
    print(f"REFUSED {error}\\n", end="", flush=True)
print(f"MADE {from_main(rank)}\\n", end="", flush=True)
"""
LOSSES = ("dapo", "grpo")
# Four steps of a pair whose rollouts come from an engine with weights of its own; `stop` ends the first trainer
# after the second step, and another one goes on. With `asked`, FSDP is the run's option and not the launcher's.
SHARDED = """
import sys
from pathlib import Path
from tests.train.copy_engine import copy_trainer
from transformers import TrainerCallback

folder, rows, stop, asked = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "asked"

class Stop(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        control.should_training_stop |= state.global_step == stop

def train(name, resume=False, **options):
    ours = copy_trainer(
        folder / name, per_device_train_batch_size=rows, optim="sgd", learning_rate=0.3, beta=0.01,
        gradient_checkpointing=True, engine="vllm-server", eval_strategy="steps", eval_steps=2,
        validation_size=3, per_device_eval_batch_size=8, save_strategy="steps", save_steps=2, **options,
    )
    if not resume:
        ours.add_callback(Stop())
    ours.train(resume_from_checkpoint=resume)
    base = [(key, weight) for key, weight in ours.model.named_parameters() if "lora_" not in key]
    kinds = {type(weight).__name__ for key, weight in base if ".layers." in key}
    ours.close()
    if ours.accelerator.is_main_process:
        print("KINDS", *kinds)

train("run", max_steps=4)
if stop:
    train("run", resume=True, max_steps=4)
if asked:
    train("asked", max_steps=1, fsdp=True)
"""


def launch(folder: Path, script: str, words: Sequence[object], config: str | None = None) -> str:
    """Run a script by itself, or in two processes as one of our files for accelerate starts them."""
    root = Path(__file__).parents[2]
    file = folder.parent / f"{folder.name}.py"
    file.write_text(script)
    arguments = [str(file), str(folder), *map(str, words)]
    if config is None:  # in this process, which has everything loaded
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as said:
            patch.setattr(sys, "argv", arguments)
            exec(compile(script, str(file), "exec"), {"__name__": "__main__"})
        return said.getvalue()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2"]
    command += ["--config_file", str(RECIPES / "launch" / config), "--main_process_port", str(port)]
    finished = subprocess.run(
        [*command, *arguments],
        env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return finished.stdout


def adapters(folder: Path) -> torch.Tensor:
    from safetensors.torch import load_file

    tensors = [load_file(folder / "adapters" / name / "adapter_model.safetensors") for name in "AB"]
    return torch.cat([weights[key].flatten() for weights in tensors for key in sorted(weights)])


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    for name, processes, config in (("one", 1, None), ("two", 2, "ddp.yaml")):
        said = launch(folder / name, SCRIPT, [8 // processes, 4, *LOSSES], config)
        assert said.count(f"PROCESSES {processes}") == len(LOSSES)
        # What the main process makes reaches all of them, and so does what it cannot make.
        assert said.count("REFUSED no server, says 0") == said.count("MADE 0") == processes
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
    verdicts = [run.read_summary()["judge"]["verdicts"] for run in (one, two)]
    assert verdicts[0] == verdicts[1] > 0


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process that goes through, and two with a sharded base that are stopped and go on."""
    folder = tmp_path_factory.mktemp("sharded")
    assert launch(folder / "one", SHARDED, [8, 0, "-"]).split() == ["KINDS", "Parameter"]
    said = launch(folder / "two", SHARDED, [4, 2, "asked"], "fsdp2.yaml")
    assert said.split() == ["KINDS", "DTensor"] * 3
    return folder


@pytest.mark.exhaustive  # three starts of torch in two processes, most of a minute
def test_a_sharded_base_trains_the_same_pair_stopped_and_resumed(sharded: Path) -> None:
    one, two = Run(sharded / "one" / "run"), Run(sharded / "two" / "run")
    assert [line["step"] for line in two.read_metrics() if "loss" in line] == [1, 2, 3, 4]
    assert played(one) == played(two)
    start = torch.cat([weight.flatten() for name in "AB" for weight in _start(name)])
    updates = [adapters(run.folder) - start for run in (one, two)]
    assert updates[0].norm() > 0.1
    assert (updates[0] - updates[1]).norm() / updates[0].norm() < 1e-5
    summaries = [run.read_summary() for run in (one, two)]
    assert summaries[0]["base_fingerprint"] == summaries[1]["base_fingerprint"]
    # The exported adapters load as plain PEFT folders.
    loaded = Pair.load(tiny.model(), two.adapters)
    assert {name: loaded.fingerprint(name) for name in "AB"} == summaries[1]["fingerprints"]


@pytest.mark.exhaustive
def test_fsdp_as_an_option_makes_the_same_first_step_as_by_the_launcher(sharded: Path) -> None:
    asked, launched = Run(sharded / "two" / "asked"), Run(sharded / "two" / "run")
    first = [duel for duel in played(launched) if duel[0] == 0]
    assert played(asked) == first
    values = [run.read_metrics()[0] for run in (asked, launched)]
    assert values[0]["A/grad_norm"] == pytest.approx(values[1]["A/grad_norm"], rel=1e-6)


@pytest.mark.exhaustive
def test_metrics_do_not_know_how_many_processes_there_were(sharded: Path) -> None:
    one, two = (Run(sharded / name / "run").read_metrics() for name in ("one", "two"))
    assert [line.keys() for line in one] == [line.keys() for line in two]
    for left, right in zip(one, two, strict=True):
        for key in left.keys() - DIFFER:
            if not key.startswith(("time/", "eval_time/")):
                assert right[key] == pytest.approx(left[key], rel=1e-4, abs=1e-6), key


def played(run: Run) -> list[tuple[int, str, int, str]]:
    """Every duel: when, of what, and all that was written and paid."""
    return sorted(
        (duel.step, duel.problem.id, duel.index, f"{_told(duel.draft)} {_told(duel.challenge)} {duel.shown}")
        for duel in run.duels()
    )


def _told(entry: Entry | None) -> str:
    assert entry is not None
    rollout = entry.rollout
    return f"{rollout.policy}{rollout.version} {rollout.text!r} {entry.correct} {entry.reward} {entry.advantage:.5f}"


def _start(name: str) -> list[torch.Tensor]:
    pair = Pair.create(tiny.model(), Adapters(seed=1))
    named = sorted((key.replace(f".{name}.", "."), weight.detach()) for key, weight in pair.weights(name))
    return [weight for _, weight in named]
