"""A damaged run folder never ends in a traceback, and never in other adapters without a word."""

import collections
import os
import random
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fuzz.real_runs import EVALUATION, TRAINING, Damaged, RealRuns, kind_of

SEED = int(os.environ.get("AGON_FUZZ_SEED", "0"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRuns]:
    made = RealRuns(tmp_path_factory.mktemp("fuzz"))
    yield made
    made.close()


def faults(runs: RealRuns, count: int, seed: int, quick: bool = False) -> list[str]:
    """What was wrong in so many cases; how many of which kind is printed."""
    rng, found = random.Random(seed), []
    kinds = {name: collections.Counter[str]() for name in ("command", "damage", "file")}
    for _ in range(count):
        case = runs.draw(rng, quick)
        kinds["command"][case.words[0]] += 1
        kinds["damage"][case.damage] += 1
        kinds["file"][kind_of(case.file)] += 1
        fault = runs.fault_of(case)
        if fault:
            found.append(f"{case}\n{fault}")
    print(f"{count} cases from seed {seed}, {len(found)} faults")
    for name, counted in kinds.items():
        print(f"by {name}: {dict(counted.most_common())}")
    return found


def test_undamaged_runs_end_as_they_did(runs: RealRuns) -> None:
    """The reference itself: the half-finished run ends with the finished one's adapters."""
    assert runs.undisturbed(("train", "--resume", "half")) == runs.adapters
    assert runs.adapters.keys() == {"A", "B"}


WEIGHTS = "adapter_model.safetensors"
COMPARE, CHECK, BEST, EXPORT = (
    *(("compare", "done", "other"), ("check", "done"), ("best", "done", "--limit", "2")),
    ("export", "done", "exported"),
)
EVALUATE = ("eval", "done", *EVALUATION)
FOUND: dict[str, tuple[Any, ...]] = {
    "show waits for a pipe": (("show", "done"), "pipe", "done/duels/00000.jsonl"),
    "view waits for a pipe": (("view", "done", "--export", "page.html"), "pipe", "done/duels/00000.jsonl"),
    "check waits for a pipe": (CHECK, "pipe", "done/task.json"),
    "compare reads a device without an end": (COMPARE, "link", "done/task.json"),
    "resume meets a link to itself": (("train", "--resume", "half"), "link", "half/duels/00000.jsonl"),
    "show meets a link to itself": (("show", "done"), "link", "done/duels/00000.jsonl"),
    "a result is written over a folder": (EVALUATE, "folder", "done/evaluations/bits-test/result.json"),
    "samples are a folder": (COMPARE, "folder", "done/evaluations/bits-test/samples.jsonl"),
    "the best is written over a folder": (BEST, "folder", "done/best.json"),
    "a pair is exported without weights": (EXPORT, "folder", f"done/adapters/B/{WEIGHTS}"),
    "a pair is exported with a flipped bit": (EXPORT, "flip", f"done/adapters/B/{WEIGHTS}"),
    "a damaged checkpoint is compared": (BEST, "flip", f"done/checkpoints/checkpoint-3/A/{WEIGHTS}"),
    "a duel's numbers are texts": (
        ("view", "done", "--export", "page.html"),
        "value",
        "done/duels/00000.jsonl",
        2491038093,
    ),
    "a duel's problem is a number": (
        ("train", "--resume", "half"),
        "value",
        "half/duels/00000.jsonl",
        1673215247,
    ),
    "check needs the options of a configuration": (("check", "half"), "swap", "half/config.yaml"),
}


@pytest.mark.parametrize("case", FOUND.values(), ids=FOUND)
def test_what_was_found_once_ends_in_one_sentence(runs: RealRuns, case: tuple[Any, ...]) -> None:
    words, damage, file, seed = (*case, 0)[:4]
    other = f"{file.split('/')[0]}/extensions.json"
    assert runs.fault_of(Damaged(words, damage, file, other, seed)) is None


def test_damaged_adapters_are_no_starting_point(runs: RealRuns) -> None:
    """Neither for another training nor for the Hub."""
    shutil.rmtree(runs.place, ignore_errors=True)
    shutil.copytree(runs.folder / "done", runs.place / "done")
    weights = runs.place / "done" / "adapters" / "A" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00")
    base, problems = str(runs.folder / "base"), str(runs.folder / "bits.jsonl")
    training = ["train", "--model", base, "--task", problems, "--output_dir", "new", *TRAINING.split()]
    with runs.inside(runs.place):
        for words in (
            [*training, "--adapters_from", "done"],
            ["push", "done", "somebody/pair", "--dry-run", "uploaded"],
        ):
            code, said = runs.play(words)
            assert code == 2
            assert "The adapters of" in said
            assert f"A/{WEIGHTS} is not what was written" in said


def test_damaged_runs_are_refused_in_one_sentence_or_end_alike(runs: RealRuns) -> None:
    assert faults(runs, 60, SEED, quick=True) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(14_400)
def test_five_thousand_damaged_runs_are_refused_in_one_sentence_or_end_alike(runs: RealRuns) -> None:
    assert faults(runs, 5_000, SEED + 1) == []
