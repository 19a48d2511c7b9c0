"""Which direction of the cascade stands for a pair."""

import json
from pathlib import Path

import pytest

from agon.errors import InputError
from agon.evaluate.target import open_target
from agon.serve.routes import chosen_direction, routes
from tests.serve.running import TASK, save_pair


@pytest.fixture
def run(pair_run: Path, tmp_path: Path) -> Path:
    """A copy of the pair's run that may be changed."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.yaml").write_text((pair_run / "config.yaml").read_text())
    (folder / "adapters").symlink_to(pair_run / "adapters")
    (folder / "task.json").write_text(json.dumps({"name": "gym:chain_sum", "spec": TASK}))
    return folder


def validated(run: Path, *rates: tuple[float, float]) -> None:
    lines = [
        {"step": step, "eval_A->B/correct": ab, "eval_B->A/correct": ba}
        for step, (ab, ba) in enumerate(rates)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def evaluated(run: Path, task: str, direction: str, chosen_on: str) -> None:
    folder = run / "evaluations" / f"{task}-test"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"direction": direction, "chosen_on": chosen_on}))


def test_without_any_validation_a_drafts_and_the_reason_says_so(run: Path) -> None:
    chosen = chosen_direction(open_target(str(run)))
    assert chosen.name == "A->B"
    assert chosen.chosen_on.startswith("nothing")


def test_the_last_validation_of_the_training_decides(run: Path) -> None:
    validated(run, (0.9, 0.1), (0.4, 0.5))
    chosen = chosen_direction(open_target(str(run)))
    assert (chosen.name, chosen.chosen_on) == ("B->A", "the validation at step 1")


def test_an_evaluation_that_chose_on_validation_decides_before_that(run: Path) -> None:
    validated(run, (0.9, 0.1))
    evaluated(run, "gsm8k", "A->B", "nothing: the direction was given")
    evaluated(run, "math-500", "B->A", "gym:chain_sum validation, n=200, k=1")
    assert chosen_direction(open_target(str(run))).name == "B->A"


def test_a_bare_model_has_no_pair_to_serve() -> None:
    with pytest.raises(InputError, match="name the folder of a run"):
        chosen_direction(open_target("embedded"))


def test_one_policy_is_served_as_a_cascade_with_itself() -> None:
    assert {name: route.name for name, route in routes(("A",), "A->A").items()} == {
        "agon": "A->A",
        "agon-a": "A",
        "agon-base": "base",
    }


def test_a_run_of_one_policy_has_one_direction(tmp_path: Path) -> None:
    run = save_pair(tmp_path, method="self-refine")
    (tmp_path / "adapters" / "B" / "adapter_config.json").unlink()
    assert chosen_direction(open_target(str(run))).name == "A->A"
