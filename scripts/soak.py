"""The soak: a long tiny run with a fault every few steps, drawn by seed, against the undisturbed one.

    OMP_NUM_THREADS=1 python scripts/soak.py                      500 steps, a fault every 20
    OMP_NUM_THREADS=1 python scripts/soak.py --steps 60 --seed 3

Three runs of the same setting: undisturbed; with faults of every kind of `tests/faults/table.py`, which end processes,
damage files and break parts; and with those faults that one process survives. A step that a fault makes a run skip is
skipped in the undisturbed run as well. All three must end with the same metrics, duels and adapters, `agon check` must
find nothing, and the memory of a process at the last step must be within 5% of that at a tenth of the way. What was
done and measured is printed; the exit code is 1 if anything does not hold.
"""

import argparse
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from transformers import TrainerCallback

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from agon.runs.check import check_run  # noqa: E402
from agon.train.trainer import AgonTrainer  # noqa: E402
from tests.faults.scene import Ended, Prepare, Scene, at_step  # noqa: E402
from tests.faults.table import FAULTS, Fault  # noqa: E402
from tests.train.records import records  # noqa: E402

MOST_GROWTH = 0.05
Plan = list[tuple[int, Fault]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agon-soak-") as folder:
        return soak(Path(folder), arguments.steps, arguments.every, arguments.seed)


def soak(folder: Path, steps: int, every: int, seed: int) -> int:
    plan = draw(steps, every, seed)
    survived = [(step, fault) for step, fault in draw(steps, every, seed + 1) if fault.live]
    options = {"max_steps": steps, "save_steps": 5}
    wrong: list[str] = []

    def scene(name: str) -> Scene:
        made = Scene(folder / name, seed, options)
        skipped = [
            step for step, fault in {**dict(plan), **dict(survived)}.items() if fault.holds == "differs"
        ]
        made.always = [lambda trainer: remember_memory(trainer, folder / f"{name}-memory")]
        made.always += [skip(step) for step in skipped]
        return made

    whole = scene("undisturbed")
    took = timed(lambda: whole.train())
    print(f"undisturbed: {steps} steps in {took:.0f} s")
    disturbed = scene("disturbed")
    took = timed(lambda: disturb(disturbed, plan, wrong))
    print(f"disturbed: {len(plan)} faults in {took:.0f} s")
    for name, times in sorted(Counter(fault.name for _, fault in plan).items()):
        print(f"  {times} x {name}")
    alive = scene("one-process")
    alive.also = [live(step, fault) for step, fault in survived if fault.holds != "differs"]
    took = timed(lambda: expect(alive.train(), 0, "", wrong))
    print(f"one process: {len(survived)} faults in {took:.0f} s")
    expected = records(whole.folder)
    for each in (whole, disturbed, alive):
        wrong += [f"{each.folder.name}: {finding}" for finding in check_run(each.folder).findings]
        found = records(each.folder)
        wrong += [f"{each.folder.name}: {part} differ" for part in found if found[part] != expected[part]]
    for name in ("undisturbed", "one-process"):
        early, late = memory(folder / f"{name}-memory", steps // 10), memory(folder / f"{name}-memory", steps)
        print(
            f"memory of {name}: {early:.1f} MB at step {steps // 10}, {late:.1f} MB at step {steps}", end=""
        )
        print(f" ({late / early - 1:+.1%})")
        if late > early * (1 + MOST_GROWTH):
            wrong.append(f"{name}: memory grew by {late / early - 1:.1%}")
    print("\n".join(f"WRONG: {each}" for each in wrong) or "All equal, every check clean.")
    return 1 if wrong else 0


def draw(steps: int, every: int, seed: int) -> Plan:
    """A fault in each stretch of so many steps, the last of them at the end."""
    chance = random.Random(seed)
    usable = [fault for fault in FAULTS if fault.holds != "refused" and not fault.at_end]
    usable = [fault for fault in usable if fault.holds == "exact" or fault.live]
    deck: list[Fault] = []
    plan: Plan = []
    for start in range(every, steps, every):
        if not deck:  # every fault once before any comes again
            deck = chance.sample(usable, len(usable))
        plan.append((start + chance.randrange(2, every - 4), deck.pop()))
    return [*plan, (steps, chance.choice([fault for fault in FAULTS if fault.at_end]))]


def disturb(scene: Scene, plan: Plan, wrong: list[str]) -> None:
    """Do every fault of the plan; those that a process survives to the next one that begins."""
    says = ""
    for step, fault in plan:
        if fault.live:
            if fault.holds != "differs":
                scene.also.append(live(step, fault))
            continue
        scene.step = step
        ended = fault.do(scene)
        expect(ended, fault.code, says, wrong)
        # A damaged checkpoint is spoken of by the process that comes after.
        says = fault.says if fault.code is None else ""
        if fault.code is not None and not re.search(fault.says, ended.said):
            wrong.append(f"{fault.name} did not say {fault.says!r} but {ended.said[-500:]!r}")
    expect(scene.train(), 0, says, wrong)


def expect(ended: Ended, code: int | None, says: str, wrong: list[str]) -> None:
    if code is not None and ended.code != code:
        wrong.append(f"exit code {ended.code} instead of {code}: {ended.said[-500:]}")
    if says and ended.said and not re.search(says, ended.said):
        wrong.append(f"{says!r} was not said: {ended.said[-500:]!r}")


def live(step: int, fault: Fault) -> Prepare:
    """Does a fault to a process when it comes to a step."""

    def prepare(trainer: AgonTrainer) -> None:
        act = fault.live
        assert act is not None
        at_step(trainer, step, lambda: act(trainer))

    return prepare


def skip(step: int) -> Prepare:
    fault = next(fault for fault in FAULTS if fault.holds == "differs" and fault.live)
    return live(step, fault)


def remember_memory(trainer: AgonTrainer, file: Path) -> None:
    process = psutil.Process()

    class Memory(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            with file.open("a") as lines:
                lines.write(f"{state.global_step} {process.memory_info().rss}\n")

    trainer.add_callback(Memory())


def memory(file: Path, step: int) -> float:
    """The process's resident megabytes at the end of a step."""
    lines = (line.split() for line in file.read_text().splitlines())
    return next(int(size) / 1e6 for number, size in lines if int(number) == step)


def timed(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main())
