"""`agon extend`, `agon best` and a start from trained adapters."""

import json
from pathlib import Path

import pytest

import agon
from agon.cli import main
from agon.runs.folder import Run

TASK = "gym:chain_sum,min_terms=3,max_terms=3,min_digits=2,max_digits=2,train=16,validation=4,test=4"
SMALL = (
    *("--num_generations", "4", "--per_device_train_batch_size", "8", "--final_evaluation", "0"),
    *(
        "--judge_workers",
        "1",
        "--judge",
        "exact",
        "--save_steps",
        "1",
        "--save_total_limit",
        "5",
        "--task",
        TASK,
    ),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extend") / "run"
    assert main(["train", *SMALL, "--max_steps", "2", "--output_dir", str(folder)]) == 0
    return folder


def test_a_finished_run_goes_on_without_a_gap_and_says_that_it_was_extended(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["extend", str(run), "--max_steps", "2"]) == 2
    assert "must be above the 2 steps" in capsys.readouterr().err
    assert main(["extend", str(run), "--max_steps", "4"]) == 0
    found = Run(run)
    assert [line["step"] for line in found.read_metrics()] == [1, 2, 3, 4]
    assert sorted({duel.step for duel in found.duels()}) == [0, 1, 2, 3]
    assert found.read_extensions() == [{"from": 2, "to": 4}]
    assert (found.read_summary()["steps"], found.finished()) == (4, True)


def test_an_unfinished_run_is_resumed_and_not_extended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Run(tmp_path).write_config({"model": "embedded", "task": TASK, "method": "agon"})
    assert main(["extend", str(tmp_path), "--max_steps", "4"]) == 2
    assert f"agon train --resume {tmp_path}" in capsys.readouterr().err


def test_the_best_checkpoint_is_chosen_on_validation_and_can_be_used(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["best", str(run), "--json", "--use"]) == 0
    found = json.loads(capsys.readouterr().out)
    steps = [row["step"] for row in found["checkpoints"]]
    assert steps == sorted(Run(run).checkpoints())
    assert len(steps) >= 2
    scores = {row["step"]: row["headline"] for row in found["checkpoints"]}
    assert scores[found["best"]] == max(scores.values())
    assert found["split"] == "validation"
    chosen = Run(run).checkpoints()[found["best"]]
    for name in "AB":
        ours, theirs = (folder / name / "adapter_model.safetensors" for folder in (run / "adapters", chosen))
        assert ours.read_bytes() == theirs.read_bytes()


def test_a_run_starts_from_the_adapters_of_another_and_says_so(run: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    words = ["train", *SMALL, "--max_steps", "1", "--output_dir", str(second), "--adapters_from", str(run)]
    assert main(words) == 0
    started = Run(second).read_environment()["adapters_from"]
    assert started["folder"] == str(run)
    with agon.load(run) as first:
        given = first.fingerprints()
    assert started["fingerprints"] == {name: given[name] for name in "AB"}
    assert Run(second).read_summary()["base_fingerprint"] == given["base"]


def test_a_single_adapter_is_given_to_both_policies_which_then_differ_by_noise(
    run: Path, tmp_path: Path
) -> None:
    from agon.policies import Pair
    from agon.policies.base import load_base
    from agon.train.config import AgonConfig
    from agon.train.starting_point import warm_start

    pair = Pair.create(load_base("embedded"))
    args = AgonConfig(output_dir=str(tmp_path), use_cpu=True, adapters_from=str(run / "adapters" / "A"))
    warm_start(pair, args, resumed=False)
    with agon.load(run) as first:
        assert pair.fingerprint("A") == first.fingerprints()["A"]
    weights = {name: dict(pair.weights(name)) for name in "AB"}
    for key, ours in weights["A"].items():
        theirs = weights["B"][key.replace(".A.", ".B.")]
        assert bool((ours == theirs).all()) == ("lora_A" in key)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--adapters_from", "EMPTY"], "has no adapter_config.json"),
        (["--adapters_from", "RUN", "--lora_r", "4"], "has other shapes than policy A"),
    ],
)
def test_adapters_that_do_not_fit_are_one_sentence(
    words: list[str], sentence: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"EMPTY": str(tmp_path), "RUN": str(run)}
    given = [places.get(word, word) for word in words]
    assert main(["train", *SMALL, "--max_steps", "1", "--output_dir", str(tmp_path / "new"), *given]) == 2
    assert sentence in capsys.readouterr().err


def test_a_run_without_checkpoints_has_nothing_to_compare(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    shutil.copytree(run, tmp_path / "bare", ignore=shutil.ignore_patterns("checkpoints"))
    assert main(["best", str(tmp_path / "bare")]) == 2
    assert "no checkpoints to compare" in capsys.readouterr().err
