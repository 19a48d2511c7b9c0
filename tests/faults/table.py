"""The faults. A row has a name, what is done, and what must hold; adding a fault is adding a row.

`do` plays the run into the fault and returns how that process ended. Then the run is resumed, unless it finished:

    exact     it ends as if nothing had happened: metrics, duels and adapters are equal
    differs   it ends, in another way than the undisturbed run (a step was skipped)
    refused   it is refused with a sentence and exit code 2

`says` is what must be read at the fault or at the resumption, `code` the exit code of the process with the fault.
"""

import errno
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file

import agon.runs.folder
from agon.engines.protocol import Finished
from agon.runs.folder import Run
from agon.runs.manifest import seal
from agon.train import callbacks
from agon.train.trainer import AgonTrainer
from tests.faults.scene import Ended, Scene, at_step

Holds = Literal["exact", "differs", "refused"]


@dataclass(frozen=True)
class Fault:
    """One row."""

    name: str
    do: Callable[[Scene], Ended]
    holds: Holds = "exact"
    code: int | None = None
    says: str = ""
    quick: bool = False  # in every run of the tests, not only in the nightly one
    at_end: bool = False  # happens when the last step has been made, whatever the seeded step is
    live: Callable[[AgonTrainer], None] | None = None  # does it to a running trainer, which goes on


# Ends of the process


def kill_at_any_moment(scene: Scene) -> Ended:
    delay = scene.random.uniform(0.0, 0.4)

    def prepare(trainer: AgonTrainer) -> None:
        at_step(trainer, scene.step, lambda: threading.Timer(delay, _kill_this_process).start())

    return scene.train(prepare)


def kill_where(patched: object, name: str) -> Callable[[Scene], Ended]:
    """Kill the process in the place of a function, at the seeded step."""

    def do(scene: Scene) -> Ended:
        def prepare(trainer: AgonTrainer) -> None:
            at_step(trainer, scene.step, lambda: setattr(patched, name, _kill_this_process))

        return scene.train(prepare)

    return do


def kill_before_the_adapters_are_written(scene: Scene) -> Ended:
    def prepare(trainer: AgonTrainer) -> None:
        trainer.pair.save = _kill_this_process  # type: ignore[method-assign]

    return scene.train(prepare)


def kill_before_the_summary_is_written(scene: Scene) -> Ended:
    def prepare(trainer: AgonTrainer) -> None:
        trainer.run.write_summary = _kill_this_process  # type: ignore[method-assign]

    return scene.train(prepare)


def signalled(*numbers: int) -> Callable[[Scene], Ended]:
    """Send signals one after another while the rollouts of a round are sampled."""

    def do(scene: Scene) -> Ended:
        def prepare(trainer: AgonTrainer) -> None:
            def send() -> None:
                for number in numbers:
                    os.kill(os.getpid(), number)

            in_next_collect(trainer, scene.step, send)

        return scene.train(prepare)

    return do


def patience_runs_out(scene: Scene) -> Ended:
    """One signal, and a round that would last for a minute."""

    def prepare(trainer: AgonTrainer) -> None:
        callbacks.PATIENCE_SECONDS = 0.2

        def hang() -> None:
            os.kill(os.getpid(), signal.SIGUSR1)
            for _ in range(600):
                time.sleep(0.1)

        in_next_collect(trainer, scene.step, hang)

    return scene.train(prepare)


# The disk


def disk_is_full(room: Callable[[Scene], int]) -> Callable[[Scene], Ended]:
    """No file may grow beyond so many bytes from the seeded step on."""

    def do(scene: Scene) -> Ended:
        def prepare(trainer: AgonTrainer) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            at_step(
                trainer,
                scene.step,
                lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room(scene), resource.RLIM_INFINITY)),
            )

        return scene.train(prepare)

    return do


def room_for_no_checkpoint(scene: Scene) -> int:
    """Less than the optimizer's state, more than the duels so far."""
    return max((scene.folder / "duels/00000.jsonl").stat().st_size + 40_000, 100_000)


def room_for_half_a_round(scene: Scene) -> int:
    return (scene.folder / "duels/00000.jsonl").stat().st_size + 2_000


def disk_is_full_while_it_is_flushed(scene: Scene) -> Ended:
    def prepare(trainer: AgonTrainer) -> None:
        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        at_step(trainer, scene.step, lambda: setattr(agon.runs.folder, "seal", full))

    return scene.train(prepare)


def damaged(name: str, damage: Callable[[Scene, Path], None], how_many: int = 1) -> Callable[[Scene], Ended]:
    """Stop in good order, then damage a file of the newest checkpoints."""

    def do(scene: Scene) -> Ended:
        scene.stop_after(scene.step)
        for checkpoint in scene.checkpoints[-how_many:]:
            damage(scene, checkpoint / name)
        return Ended(0, "")

    return do


def cut_off(scene: Scene, file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: scene.random.randrange(len(content))])


def flip_a_bit(scene: Scene, file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[scene.random.randrange(len(content))] ^= 1 << scene.random.randrange(8)
    file.write_bytes(content)


def remove(scene: Scene, file: Path) -> None:
    file.unlink()


def write_nan(scene: Scene, file: Path) -> None:
    """Weights that are not finite in a checkpoint that is whole otherwise."""
    tensors = load_file(file)
    name = scene.random.choice(sorted(tensors))
    tensors[name].view(-1)[scene.random.randrange(tensors[name].numel())] = float("nan")
    save_file(tensors, file, metadata={"format": "pt"})
    seal(file.parents[1])


def swap_policies(scene: Scene, file: Path) -> None:
    one, other = file.parents[1] / "A" / file.name, file.parents[1] / "B" / file.name
    mine, theirs = one.read_bytes(), other.read_bytes()
    one.write_bytes(theirs)
    other.write_bytes(mine)


def add_half_a_line(name: str) -> Callable[[Scene], Ended]:
    def do(scene: Scene) -> Ended:
        scene.stop_after(scene.step)
        with (scene.folder / name).open("a") as file:
            file.write('{"step": 5, "lo')
        return Ended(0, "")

    return do


# The judge


def kill_workers(trainer: AgonTrainer) -> None:
    """Kill every worker of the judge that has an answer, as the kernel does when memory is short."""
    submit = trainer.judge.submit
    killed: list[int] = []

    def and_kill(problem: Any, answer: str) -> Any:
        future = submit(problem, answer)
        for _ in range(200):
            busy = [each.pid for each in list(trainer.judge._dispatcher._workers) if each.job and each.pid]
            if busy or future.done() or killed:
                break
            time.sleep(0.001)
        if busy and not killed:
            killed.append(busy[0])
            os.kill(busy[0], signal.SIGKILL)
        return future

    trainer.judge.submit = and_kill  # type: ignore[method-assign]


def kill_fork_server(trainer: AgonTrainer) -> None:
    os.kill(trainer.judge._dispatcher._fork_server._process.pid, signal.SIGKILL)


def judge_breaks(scene: Scene) -> Ended:
    ended = scene.train(lambda trainer: at_step(trainer, scene.step, scene.broken_judge.touch))
    scene.broken_judge.unlink()
    return ended


# Numbers


def nan_gradient(trainer: AgonTrainer) -> None:
    """NaN in one weight's gradient, in one step."""
    step = trainer.state.global_step
    _, weight = trainer.pair.weights("B")[0]
    handle = weight.register_hook(lambda gradient: gradient * float("nan"))
    at_step(trainer, step + 1, handle.remove)


def nan_gradients(scene: Scene) -> Ended:
    """NaN in every gradient from the seeded step on."""

    def prepare(trainer: AgonTrainer) -> None:
        def begin() -> None:
            for name in "AB":
                for _, weight in trainer.pair.weights(name):
                    weight.register_hook(lambda gradient: gradient * float("inf"))

        at_step(trainer, min(scene.step, scene.steps - 4), begin)

    return scene.train(prepare)


def weights_break(scene: Scene) -> Ended:
    def prepare(trainer: AgonTrainer) -> None:
        def breaks() -> None:
            trainer.pair.weights("A")[0][1].data.view(-1)[0] = float("inf")

        # After the gradient is known, so that nothing but the weights is wrong.
        class Late:
            def __call__(self, *_: Any) -> None:
                if trainer.state.global_step == scene.step:
                    breaks()

        trainer.optimizer = None
        create = trainer.create_optimizer

        def create_and_watch(*args: Any, **kwargs: Any) -> Any:
            made = create(*args, **kwargs)
            made.register_step_post_hook(Late())
            return made

        trainer.create_optimizer = create_and_watch

    return scene.train(prepare)


# The engine


def in_next_collect(trainer: AgonTrainer, step: int, act: Callable[[], None], times: int = 1) -> None:
    """Act inside the engine, in the round of this step; at once if the trainer is already running."""
    collect = trainer.engine.collect
    left = [times]

    def collect_and_act() -> list[Finished]:
        if left[0] and trainer.state.global_step >= step:
            left[0] -= 1
            act()
        return collect()

    trainer.engine.collect = collect_and_act  # type: ignore[method-assign]


def raising(error: Exception, times: int = 1) -> Callable[[AgonTrainer], None]:
    def live(trainer: AgonTrainer) -> None:
        def fail() -> None:
            raise error

        in_next_collect(trainer, trainer.state.global_step, fail, times)

    return live


def stale_version(trainer: AgonTrainer) -> None:
    """One rollout in the name of the version before."""
    collect = trainer.engine.collect
    done: list[bool] = []

    def collect_stale() -> list[Finished]:
        found = collect()
        if found and not done:
            done.append(True)
            old = found[0].rollout
            found[0] = replace(found[0], rollout=replace(old, version=old.version - 1))
        return found

    trainer.engine.collect = collect_stale  # type: ignore[method-assign]


def engine_stays_broken(scene: Scene) -> Ended:
    live = raising(RuntimeError("the engine's child died"), times=2)
    return scene.train(lambda trainer: at_step(trainer, scene.step, lambda: live(trainer)))


def during(live: Callable[[AgonTrainer], None]) -> Callable[[Scene], Ended]:
    """A fault that a running trainer survives."""

    def do(scene: Scene) -> Ended:
        return scene.train(lambda trainer: at_step(trainer, scene.step, lambda: live(trainer)))

    return do


def survived(name: str, live: Callable[[AgonTrainer], None], **rest: Any) -> Fault:
    return Fault(name, during(live), live=live, code=0, **rest)


def _kill_this_process(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


WEIGHTS = "adapter_model.safetensors"
FALLS_BACK = r"checkpoint-\d+ is damaged \(.*{}.*\): going on from checkpoint-\d+\."
FAULTS = [
    Fault("kill -9 at any moment", kill_at_any_moment, code=-9),
    Fault("kill -9 before a checkpoint is sealed", kill_where(agon.runs.folder, "seal"), code=-9),
    Fault("kill -9 before a checkpoint has its name", kill_where(agon.runs.folder, "sync_folder"), code=-9),
    Fault("kill -9 while the metrics are written", kill_where(Run, "add_metrics"), code=-9),
    Fault(
        "kill -9 after the last checkpoint",
        kill_before_the_adapters_are_written,
        code=-9,
        at_end=True,
        quick=True,
    ),
    Fault("kill -9 before the summary", kill_before_the_summary_is_written, code=-9, at_end=True),
    Fault("SIGTERM", signalled(signal.SIGTERM), code=143, says="SIGTERM"),
    Fault("SIGUSR1", signalled(signal.SIGUSR1), code=138, says="SIGUSR1"),
    Fault("SIGTERM twice", signalled(signal.SIGTERM, signal.SIGTERM), code=143, says="Stopped by SIGTERM"),
    Fault("SIGUSR1 in a long round", patience_runs_out, code=138, says="Stopped by SIGUSR1", quick=True),
    Fault("disk full in a checkpoint", disk_is_full(room_for_no_checkpoint), code=1, quick=True),
    Fault("disk full in the duels", disk_is_full(room_for_half_a_round), code=1),
    Fault("disk full while flushing", disk_is_full_while_it_is_flushed, code=1, says="No space left"),
    Fault(
        "optimizer cut off", damaged("optimizer.pt", cut_off), says=FALLS_BACK.format(r"optimizer\.pt has")
    ),
    Fault(
        "bit flipped in a policy",
        damaged(f"B/{WEIGHTS}", flip_a_bit),
        says=FALLS_BACK.format("hash differs"),
        quick=True,
    ),
    Fault(
        "bit flipped in the optimizer", damaged("optimizer.pt", flip_a_bit), says=FALLS_BACK.format("hash")
    ),
    Fault("bit flipped in the manifest", damaged("manifest.json", flip_a_bit), says=FALLS_BACK.format("")),
    Fault("scheduler missing", damaged("scheduler.pt", remove), says=FALLS_BACK.format("missing")),
    Fault("random state missing", damaged("rng_state.pth", remove), says=FALLS_BACK.format("rng_state.pth")),
    Fault("trainer state missing", damaged("trainer_state.json", remove), says=FALLS_BACK.format("missing")),
    Fault("manifest missing", damaged("manifest.json", remove), says=FALLS_BACK.format("manifest.json")),
    Fault("NaN in a policy", damaged(f"A/{WEIGHTS}", write_nan), says=FALLS_BACK.format("not finite")),
    Fault("policies swapped", damaged(f"A/{WEIGHTS}", swap_policies), says=FALLS_BACK.format("hash")),
    Fault(
        "every checkpoint cut off",
        damaged("optimizer.pt", cut_off, how_many=9),
        holds="refused",
        says=r"No checkpoint in .* is whole",
    ),
    Fault("half a line of metrics", add_half_a_line("metrics.jsonl")),
    Fault("half a duel", add_half_a_line("duels/00000.jsonl")),
    survived("judge's worker killed", kill_workers, quick=True),
    survived("judges killed with their server", kill_fork_server),
    Fault(
        "judge broken for a round",
        judge_breaks,
        code=3,
        says=r"The judge failed on \d+ of \d+ answers of this round .*this judge is broken",
        quick=True,
    ),
    survived("NaN in one gradient", nan_gradient, holds="differs"),
    Fault(
        "NaN in every gradient",
        nan_gradients,
        holds="differs",
        code=3,
        says=r"In 3 steps in a row, up to step \d+, the gradient of A and B was not finite",
    ),
    Fault("weights not finite", weights_break, code=3, says="weights of policy A are not finite"),
    survived("engine fails once", raising(RuntimeError("the child died")), says="played again", quick=True),
    survived("memory short while sampling", raising(torch.OutOfMemoryError("CUDA out of memory"))),
    survived("engine answers with an old version", stale_version, says="at version"),
    Fault("engine stays broken", engine_stays_broken, code=3, says="A round could not be played"),
]
