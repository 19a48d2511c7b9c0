"""What a sweep is asked to be: its cells, their commands, their budgets, and every wrong word in one sentence."""

import argparse
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from agon.cli import main
from agon.commands.eval import add_arguments
from agon.errors import InputError
from agon.lab.sweep import cell_run, local
from agon.lab.sweep.asked import read_sweep
from agon.lab.sweep.cells import expand, options_of
from agon.lab.sweep.launch import Plan, plan, write_plan
from agon.lab.sweep.local import _least_used, devices, run_here
from agon.lab.sweep.parity import budget
from agon.lab.sweep.processes import Order, last_sentence
from agon.lab.sweep.progress import Row, duration, row_of, seconds_left
from agon.lab.sweep.stages import CellJob, job_for, words_for
from agon.planning.card_fit import SHARED_BY
from agon.runs.folder import Run
from agon.runs.lock import owned
from agon.runs.sweep_folder import DONE, RUNNING, WAITING, Cell, CellState, SweepFolder
from agon.runs.trust import GRANTED_PARTS, Trust, resume_wishes
from agon.train.recipes import parse_recipe

ROOT = Path(__file__).parents[2]
GPU = ROOT / "scripts" / "gpu"


def written(path: Path, **content: Any) -> str:
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(target: str | None, **given: Any) -> list[str]:
    return [cell.name for cell in expand(read_sweep(target, **given))]


def test_a_recipe_with_methods_and_seeds_is_the_sweep_of_that_recipe() -> None:
    sweep = read_sweep("qwen2.5-0.5b-gsm8k", ["--lora_r", "8"], ["grpo", "agon"], [0, 1])
    assert sweep.name == "qwen2.5-0.5b-gsm8k"
    cells = expand(sweep)
    assert [cell.name for cell in cells] == ["grpo-s0", "agon-s0", "grpo-s1", "agon-s1"]
    assert options_of(sweep, cells[-1]) == {**options_of(sweep, cells[0]), "method": "agon", "seed": 1}
    assert (options_of(sweep, cells[0])["lora_r"], options_of(sweep, cells[0])["task"]) == (
        8,
        "gsm8k,train=2000",
    )
    assert names(None) == ["agon-s0"]


def test_a_sweep_file_changes_options_for_recipes_and_methods(here: Path) -> None:
    """As a cell of its own could: agon:0:3e-4:num_train_epochs=2 beside three methods at another rate."""
    target = written(
        here / "rates.yaml",
        recipes=[
            {"name": "slow", "options": {"learning_rate": 1e-4}},
            {"name": "twice", "methods": "agon", "seeds": [4], "options": {"num_train_epochs": 2}},
        ],
        methods=["grpo", "agon"],
        seeds=1,
        options={"lora_r": 4},
        overrides={"grpo": {"learning_rate": "3e-4"}},
        controls=True,
    )
    sweep = read_sweep(target)
    cells = {cell.name: options_of(sweep, cell) for cell in expand(sweep)}
    assert list(cells) == ["slow-controls", "slow-grpo-s0", "slow-agon-s0", "twice-controls", "twice-agon-s4"]
    assert [cells[name]["learning_rate"] for name in ("slow-grpo-s0", "slow-agon-s0")] == [3e-4, 1e-4]
    assert (cells["twice-agon-s4"]["num_train_epochs"], cells["twice-agon-s4"]["lora_r"]) == (2, 4)
    assert names(target, methods=["coop"], seeds=[7])[1] == "slow-coop-s7"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a key": (
        {"method": "agon", "seeds": 1},
        "Unknown key in the sweep 'x.yaml': 'method': did you mean 'methods'?",
    ),
    "a key of a recipe": (
        {"recipes": [{"option": {}}]},
        "Unknown key of a recipe in the sweep 'x.yaml': 'option'",
    ),
    "a method": ({"methods": ["argon"]}, "Unknown method 'argon': did you mean 'agon'?"),
    "no methods": ({"methods": 3}, "methods in the sweep 'x.yaml' must be names of methods"),
    "a recipe": ({"recipes": "nosuch"}, "Unknown recipe 'nosuch'"),
    "a recipe's file": ({"recipes": "no/such.yaml"}, "Cannot read the recipe 'no/such.yaml'"),
    "an option": ({"seeds": 1, "options": {"lr": 1}}, "Unknown option in the sweep 'x.yaml': 'lr'"),
    "a value": ({"seeds": 1, "options": {"lora_r": 0}}, "lora_r"),
    "no value": ({"seeds": 1, "options": {"judge": None}}, "judge in the sweep 'x.yaml' has no value"),
    "a cell's own": (
        {"seeds": 1, "options": {"seed": 3}},
        "seed in the sweep 'x.yaml' differs from cell to cell",
    ),
    "seeds": ({"seeds": [0, -1]}, "seeds in the sweep 'x.yaml' must be how many"),
    "a seed twice": ({"seeds": [1, 1]}, "would have one name: the seed 1 is named twice"),
    "a method twice": (
        {"methods": ["agon", "agon"]},
        "would have one name: the method 'agon' is named twice",
    ),
    "a recipe twice": ({"recipes": [{}, {}]}, "would have one name: two recipes are called 'default'"),
    "a group's name": (
        {"recipes": [{"name": "../up"}]},
        "name of a recipe in the sweep 'x.yaml' must be letters",
    ),
    "an override": (
        {"methods": ["agon"], "overrides": {"grpo": {}}},
        "Unknown method in the overrides of the sweep 'x.yaml': 'grpo'",
    ),
    "controls": ({"seeds": 1, "controls": "perhaps"}, "controls in the sweep 'x.yaml' must be yes or no"),
    "what is evaluated": ({"evaluate": {"split": "test"}}, "did you mean 'splits'?"),
    "a split": (
        {"evaluate": {"splits": ["train"]}},
        "Unknown split of evaluate in the sweep 'x.yaml': 'train'",
    ),
    "samples": (
        {"evaluate": {"samples": 0}},
        "samples of evaluate in the sweep 'x.yaml' must be a whole number",
    ),
    "an option of eval": ({"evaluate": {"options": {"limits": 3}}}, "did you mean 'limit'?"),
    "a value of eval": (
        {"evaluate": {"options": {"limit": "3"}}},
        "limit of evaluate in the sweep 'x.yaml' must be",
    ),
    "a value that eval refuses": (
        {"evaluate": {"options": {"top_p": 2}}},
        "--top-p must be a number above 0",
    ),
    "transfer": ({"evaluate": {"splits": ["validation"], "transfer": "math-500"}}, "transfer of evaluate"),
    "controls without test": ({"seeds": 1, "controls": True, "evaluate": False}, "is evaluated on test"),
    "a cell that cannot be": (
        {"methods": ["grpo", "agon"], "overrides": {"agon": {"gradient_accumulation_steps": 1}}},
        "The cell 'agon-s0' cannot be trained: gradient_accumulation_steps must be even",
    ),
    "a task": (
        {"seeds": 1, "options": {"task": "gsm8l"}},
        "The cell 'agon-s0' cannot be trained: Unknown task 'gsm8l'",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_with_a_sweep_is_one_sentence_before_anything_starts(
    what: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, sentence = WRONG[what]
    written(here / "x.yaml", **content)
    assert main(["sweep", "x.yaml"]) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert (said.err.count("\n"), said.out) == (1, "")
    assert sorted(path.name for path in here.iterdir()) == ["x.yaml"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--on", "mars"], "Unknown place for a sweep 'mars': choose one of local, ray, slurm."),
        (["--seeds", "0"], "--seeds must be at least 1"),
        (["--seeds", "2", "2"], "the seed 2 is named twice"),
        (["--method", "coop"], "method in the command line differs from cell to cell: say it with methods."),
        (["--status"], "--status needs the folder of a sweep"),
        (["--status", "nowhere"], "'nowhere' is not a sweep: it has no sweep.yaml that can be read."),
        (["--pack", "."], "'.' is not a sweep"),
        (["."], "'.' is a folder: give the sweep file or recipe"),
        (["--output", "full"], "'full' holds something that is not a sweep: choose another --output."),
        (["--no_such_option", "1"], "Unknown option '--no_such_option'"),
    ],
)
def test_wrong_words_of_the_command_are_one_sentence(
    words: list[str], sentence: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "full").mkdir()
    (here / "full" / "note.txt").write_text("mine")
    assert main(["sweep", *words]) == 2
    assert sentence in capsys.readouterr().err


def planned(here: Path, words: tuple[str, ...] = (), **content: Any) -> Plan:
    target = written(here / "s.yaml", **{"seeds": 1, **content})
    return plan(read_sweep(target, words), here / "out")


def test_a_folder_begun_with_other_options_is_refused_and_more_cells_are_welcome(here: Path) -> None:
    first = planned(here, methods=["grpo"])
    write_plan(first)
    more = planned(here, methods=["agon"], seeds=2)
    write_plan(more)
    cells = more.folder.cells()
    assert [cell.name for cell in cells] == ["grpo-s0", "agon-s0", "agon-s1"]
    with pytest.raises(InputError, match="was begun with another learning_rate for 'default'"):
        planned(here, options={"learning_rate": 1e-5})
    Run(here / "out" / "agon-s0").write_config({"method": "agon"})
    with pytest.raises(InputError, match=r"The cell 'agon-s0' of .* was begun with other options"):
        planned(here, methods=["agon"], overrides={"agon": {"lora_r": 2}})


def test_a_part_of_a_sweep_is_run_by_the_names_of_its_cells(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = written(here / "s.yaml", methods=["grpo", "agon"], seeds=2)
    asked = ["sweep", target, "--only", "agon-s1", "grpo-s0", "--dry-run"]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert "4 cells in sweeps/s, 2 of them to do" in said
    assert re.findall(r"--output_dir \S+/(\S+)", said) == ["grpo-s0", "agon-s1"]
    assert main([*asked[:3], "agon-s1,agon-s2", "--dry-run"]) == 2
    assert "Unknown cell of the sweep 'agon-s2': did you mean 'agon-s1'?" in capsys.readouterr().err
    made = plan(read_sweep(target), here / "out", only=["agon-s1"])
    write_plan(made)
    assert [cell.name for cell in made.chosen] == ["agon-s1"]
    assert [cell.name for cell in made.folder.cells()] == ["grpo-s0", "agon-s0", "grpo-s1", "agon-s1"]
    assert [row_of(made.folder, cell).state for cell in made.cells] == [WAITING] * 4


def test_equal_budgets_are_a_table_and_a_difference_is_a_warning_or_with_strict_a_refusal(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(here, methods=["grpo", "self-refine", "agon", "shared"]).warnings == []
    target = written(
        here / "s.yaml", methods=["grpo", "agon"], seeds=2, overrides={"agon": {"max_completion_length": 32}}
    )
    assert main(["sweep", target, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "differ in the token cap: 32 in agon-s0, agon-s1, 64 in grpo-s0, grpo-s1." in said.err
    assert "rollouts in all" in said.out
    assert said.out.count("10,240") == 2  # one row for each budget
    assert main(["sweep", target, "--dry-run", "--strict"]) == 2
    assert "Without --strict it is a warning" in capsys.readouterr().err


def test_a_budget_counts_problems_passes_rollouts_and_steps(here: Path) -> None:
    options = options_of(sweep := read_sweep(None), expand(sweep)[0])
    assert vars(budget(options)) | {"task": ""} == {
        "task": "", "problems": 640, "passes": 1.0, "rollouts": 16, "cap": 64, "steps": 40,
    }  # fmt: skip
    short = budget({**options, "max_steps": 10})
    assert (short.steps, short.passes, short.all_rollouts) == (10, 0.25, 2560)
    rows = [
        {"problem": f"What is {n} times {n}?", "answer": str(n * n), "split": split}
        for n, split in enumerate(("train", "train", "test"))
    ]
    (here / "own.jsonl").write_text(
        "".join(json.dumps({"id": str(n), **row}) + "\n" for n, row in enumerate(rows))
    )
    assert budget({**options, "task": "own.jsonl"}).problems == 2
    assert budget({**options, "task": "someone/dataset"}).problems is None


def test_agon_understands_the_commands_of_a_cell(here: Path) -> None:
    made = planned(
        here,
        options={
            "task_path": str(here),
            "task": "gsm8k,train=64",
            "model": "embedded",
            "eval_temperature": 0.6,
        },
        methods=["agon"],
        controls=True,
        evaluate={
            "splits": ["validation", "test"],
            "samples": 4,
            "transfer": "math-500",
            "options": {"limit": 9},
        },
    )
    write_plan(made)
    controls, agon = made.jobs()
    assert [stage for stage, _ in controls.stages] == ["test"]
    assert [stage for stage, _ in agon.stages] == ["train", "validation", "test"]
    train = dict(agon.stages)["train"]
    what, config = parse_recipe(train[1], [*train[2:], "--use_cpu", "true"])
    assert (what.task, config.method, config.seed, config.final_evaluation) == (
        "gsm8k,train=64",
        "agon",
        0,
        0,
    )
    assert config.output_dir == str(here / "out" / "agon-s0")
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    test = parser.parse_args(dict(agon.stages)["test"][1:])
    assert (test.task, test.samples, test.limit, test.controls) == (["own", "math-500"], [4, 1], 9, False)
    assert test.path == str(here)
    untrained = parser.parse_args(dict(controls.stages)["test"][1:])
    assert (untrained.target, untrained.task) == ("embedded", ["gsm8k,train=64", "math-500"])
    assert (untrained.temperature, untrained.max_tokens, untrained.controls) == (0.6, 64, True)
    assert untrained.output == here / "out" / "controls"


def test_the_comparison_of_the_results_is_a_sweep_at_its_matched_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    sweep = read_sweep("scripts/gpu/comparison.sweep.yaml")
    cells = expand(sweep)
    assert {"controls", "grpo-s0", "coop-s1", "agon-s2"} <= {cell.name for cell in cells}
    (agon,) = (cell for cell in cells if cell.name == "agon-s0")
    options = options_of(sweep, agon)
    found = budget(options)
    assert (found.problems, found.passes, found.rollouts, found.cap, found.steps) == (1024, 1.0, 16, 512, 32)
    assert (options["model"], options["learning_rate"]) == ("models/qwen2.5-coder-0.5b-instruct", 3e-4)
    words = dict(job_for(sweep, SweepFolder("x"), agon).stages)["test"]
    assert words[words.index("--vllm-kv-cache-bytes") + 1] == "5000000000"
    assert words[words.index("--task") + 1] == "own,math-500"


@pytest.mark.parametrize(
    ("name", "cells", "budgets"),
    [
        ("rates", 14, {(1024, 16, 512, 16)}),
        ("a", 22, {(1024, 16, 512, 32)}),
        ("b", 4, {(1024, 16, 512, 32)}),
        ("c", 10, {(2048, 16, 512, 64), (4096, 16, 512, 128)}),
        ("d_drafter", 1, {(1024, 16, 512, 32)}),
        ("d_candidate", 1, {(1024, 16, 512, 1)}),
        ("d", 4, {(2048, 16, 512, 64)}),
        ("boxed_grpo", 1, {(1024, 16, 512, 32)}),
    ],
)
def test_the_second_model_s_sweeps_have_the_cells_and_budgets_of_their_plan(
    name: str, cells: int, budgets: set[tuple[int, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    sweep = read_sweep(f"scripts/gpu/second_model/{name}.sweep.yaml")
    made = plan(sweep, tmp_path, on="slurm")
    assert len(made.cells) == cells
    assert made.warnings == []
    trained = [budget(options_of(sweep, cell)) for cell in made.cells if cell.name != "controls"]
    assert {(each.problems, each.rollouts, each.cap, each.steps) for each in trained} == budgets


def test_the_sweep_file_that_the_guide_shows_is_one(here: Path) -> None:
    page = (ROOT / "docs" / "sweeps.md").read_text("utf-8")
    (block,) = re.findall(r"```yaml\n(name: rates\n.*?)```", page, re.DOTALL)
    (here / "shown.yaml").write_text(block)
    sweep = read_sweep("shown.yaml")
    made = plan(sweep, here / "out", on="slurm")  # vLLM need not be installed where it is submitted
    assert len(made.cells) == 9 + 1 + 2
    assert made.warnings == []


def granted(here: Path, saved: dict[str, Any], **job: Any) -> list[str]:
    """The words after `train --resume RUN` for a run with this configuration."""
    cell = Cell("agon-s0", "g", "agon", 0, {"method": "agon", "seed": 0})
    made = CellJob(str(here), cell, (("train", ("train", "r.yaml")),), **job)
    assert words_for(made, "train", ("train", "r.yaml")) == ["train", "r.yaml"]  # a new run
    Run(here / "agon-s0").write_config(saved)
    words = words_for(made, "train", ("train", "r.yaml"))
    assert words[:3] == ["train", "--resume", str(here / "agon-s0")]
    assert words_for(made, "test", ("eval", "x"))[:2] == ["eval", "x"]
    return words[3:]


def test_a_training_is_told_what_its_engine_may_evaluate(here: Path) -> None:
    cell = Cell("agon-s0", "g", "agon", 0, {"method": "agon", "seed": 0})
    train, test = ("train", "r.yaml"), ("eval", "agon-s0", "--split", "test", "--engine", "vllm")
    made = CellJob(str(here), cell, (("train", train), ("test", test)))
    told = ["--stages", json.dumps([["test", list(test)]])]
    assert words_for(made, "train", train) == [*train, *told]
    Run(here / "agon-s0").write_config({"model": "m"})
    assert words_for(made, "train", train) == ["train", "--resume", str(here / "agon-s0"), *told]
    slow = CellJob(str(here), cell, (("train", train), ("test", ("eval", "agon-s0"))))
    assert "--stages" not in words_for(slow, "train", train)


class Finished:
    """A process that has done its work."""

    pid = 0

    def poll(self) -> int:
        return 0

    def send_signal(self, sig: int, /) -> None: ...


def test_a_stage_that_the_training_has_evaluated_is_not_started_and_has_its_own_time(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell("agon-s0", "g", "agon", 0, {"method": "agon", "seed": 0})
    words = ("eval", "agon-s0", "--engine", "vllm")
    made = CellJob(str(here), cell, (("train", ("train", "r.yaml")), ("validation", words), ("test", words)))
    started: list[str] = []

    def start(order: Order) -> Finished:
        started.append(order.words[0])
        if order.words[0] == "train":
            made.run.write_config({"model": "m"})
            made.run.write_times({"validation": 3.0})
        return Finished()

    clock = iter(range(0, 1000, 5))
    monkeypatch.setattr(cell_run.time, "time", lambda: next(clock))
    monkeypatch.setattr(cell_run, "starting", [start])
    cell_at_work = cell_run.CellRun(made)
    while (ended := cell_at_work.step()) is None:
        pass
    assert ended.state == DONE, ended.error
    assert started == ["train", "eval"]
    times = made.run.read_times()
    assert times["validation"] == 3.0
    assert times["train"] == times["test"] - 3.0  # the clock moves alike for both


def test_a_resumed_cell_is_granted_what_was_typed_and_nothing_else(here: Path) -> None:
    typed = {
        "model": "m",
        "judge": "mine:judge",
        "draft_reward": ["form", "mine:term"],
        "trust_remote_code": True,
    }
    words = granted(here, {**typed, "task": "theirs:task", "sandbox": "none"}, typed=typed)
    assert words == [
        *("--model", "m", "--judge", "mine:judge", "--draft-reward", "form", "mine:term"),
        *("--trust-remote-code", "true"),
    ]
    trust = Trust("x", False, typed, GRANTED_PARTS)
    wishes = {
        w.part
        for w in resume_wishes({**typed, "task": "theirs:task", "sandbox": "none"})
        if not trust.allows(w)
    }
    assert wishes == {"task", "sandbox"}


def test_a_run_that_asks_for_something_else_than_was_typed_is_not_granted_it(here: Path) -> None:
    assert granted(here, {"model": "m", "judge": "theirs:judge"}, typed={"judge": "mine:judge"}) == []


def test_trust_run_code_is_passed_on(here: Path) -> None:
    assert granted(here, {"model": "m"}, trust_run_code=True) == ["--trust-run-code"]


def test_parts_of_ones_own_are_evaluated_with_trust_only(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "mine.py").write_text("def term(outcome):\n    return 0.0\n")
    target = written(here / "s.yaml", seeds=1, options={"challenge_reward": ["correctness", "mine:term"]})
    assert main(["sweep", target, "--dry-run"]) == 2
    assert "evaluate them with --trust-run-code, or say `evaluate: no`" in capsys.readouterr().err
    assert main(["sweep", target, "--dry-run", "--trust-run-code"]) == 0


@pytest.mark.parametrize(
    "cell",
    [
        {"name": "../../up", "group": "g", "method": "agon", "seed": 0},
        {"name": "a", "group": "/etc", "method": "agon", "seed": 0},
        {"name": "a", "group": "g", "method": "agon", "seed": 0, "options": []},
        {"name": "a", "other": 1},
        "a",
        {"name": 1, "group": "g", "method": "agon", "seed": 0},
    ],
)
def test_a_sweep_that_somebody_else_wrote_names_no_files_outside_itself(
    cell: Any, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "out").mkdir()
    written(here / "out" / "sweep.yaml", asked={}, cells=[cell])
    for words in (["--status"], ["--pack"]):
        assert main(["sweep", "out", *words]) == 2
        assert "are not those of a sweep" in capsys.readouterr().err
    assert sorted(path.name for path in here.iterdir()) == ["out"]


@pytest.mark.parametrize("state", ['{"state": 3}', '{"job": []}', '{"more": "x"}', "[]", "no json"])
def test_a_broken_state_is_one_sentence(state: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(planned(here))
    (here / "out" / "agon-s0.state.json").write_text(state)
    assert main(["sweep", "--status", "out"]) == 2
    assert "agon-s0.state.json" in capsys.readouterr().err


def test_cells_share_devices_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 3")
    assert devices() == ["2", "3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert devices() == []
    assert _least_used(["2", "3"], ["2", "2", "3"]) == "3"
    assert _least_used(["0"], []) == ""


@pytest.mark.parametrize(
    ("cards", "parallel", "said", "told"),
    [
        (["0"], 5, None, {SHARED_BY: "5"}),
        (["0"], None, None, {SHARED_BY: "1"}),
        (["0", "1"], 3, None, {SHARED_BY: "2", "CUDA_VISIBLE_DEVICES": "0"}),
        (["0"], 2, "7", {SHARED_BY: "7"}),  # two cells of this sweep, and others beside it
        (["0"], 5, "2", {SHARED_BY: "5"}),
        ([], 2, None, {}),
    ],
)
def test_a_cell_is_told_how_many_share_its_card(
    cards: list[str],
    parallel: int | None,
    said: str | None,
    told: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if said:
        monkeypatch.setenv(SHARED_BY, said)

    class Started:
        def __init__(self, job: CellJob, environment: dict[str, str]) -> None:
            self.job = job
            assert environment == told

        def step(self) -> CellState:
            return CellState(DONE)

    monkeypatch.setattr(local, "CellRun", Started)
    ended: list[str] = []
    job: Any = "a cell"
    run_here([job], lambda job, state: ended.append(state.state), lambda: None, parallel, cards=cards)
    assert ended == [DONE]


@pytest.mark.parametrize(
    ("log", "code", "sentence"),
    [
        ("step 1/2\nagon: The task is not there.\n", 2, "The task is not there."),
        (
            "Traceback (most recent call last):\n  File x\nValueError: broken\nleaked semaphores\n",
            1,
            "ValueError: broken",
        ),
        (
            "agon: old\nTraceback (most recent call last):\n  File x\nRuntimeError: no\n",
            1,
            "RuntimeError: no",
        ),
        ("step 1/2\n", -9, "It was ended by SIGKILL."),
        ("", 3, "It left with exit code 3."),
    ],
)
def test_why_a_stage_failed_is_its_last_sentence(log: str, code: int, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("agon: of an earlier attempt\n" + log)
    assert last_sentence(tmp_path / "log", len("agon: of an earlier attempt\n"), code) == sentence


def test_progress_is_the_state_and_the_last_steps(tmp_path: Path) -> None:
    folder, cell = SweepFolder(tmp_path), Cell("grpo-s0", "g", "grpo", 0, {"max_steps": 9})
    assert (row_of(folder, cell).state, row_of(folder, cell).step) == (WAITING, 0)
    folder.write_recipe("g", {"task": "gsm8k", "num_generations": 4})
    run = folder.run(cell)
    run.write_config({})
    for step in range(1, 6):
        run.add_metrics({"step": step, "loss": 0.1, "draft/correct": step / 10, "time/step": 20.0 - step})
    run.add_metrics({"step": 5, "eval_best": 0.5})
    folder.write_state(cell, CellState(RUNNING, "train", spent=30.0))
    assert row_of(folder, cell).state == WAITING  # its sweep was killed
    with owned(folder.lock(cell)):
        row = row_of(folder, cell)
    assert (row.state, row.where, row.step, row.steps) == (RUNNING, "running in train", 5, 9)
    assert row.right == pytest.approx(0.35)
    assert (row.pace, row.seconds) == (16.5, 30.0)
    # A training that has come to its end evaluates on the engine that it has.
    run.write_summary({"finished": True, "steps": 9, "seconds": 1.0})
    with owned(folder.lock(cell)):
        assert row_of(folder, cell).where == "running in train"
        run.evaluations.mkdir()
        assert row_of(folder, cell).where == "running in evaluation"
        assert seconds_left([row_of(folder, cell)], 1) == 4 * 16.5
    # Its folder gone, a finished cell is to be done again.
    folder.write_state(cell, CellState(DONE))
    assert row_of(folder, cell).state == DONE
    (tmp_path / "grpo-s0").rename(tmp_path / "aside")
    assert row_of(folder, cell).state == WAITING


def test_the_time_left_is_estimated_from_steps_and_from_what_is_done() -> None:
    def row(
        state: str, seconds: float, method: str | None = "agon", step: int = 0, train: float = 0.0
    ) -> Row:
        stage, times = "train" if state == RUNNING else "", {"train": train} if train else {}
        pace = 8.0 if step else None
        name = f"{method}-{state}"
        return Row(name, "g", method, 0, state, stage, step, 10, None, pace, seconds, times, "", "")

    assert seconds_left([row(WAITING, 0.0)], 1) is None
    assert seconds_left([row(RUNNING, 30.0)], 1) is None  # its engine starts
    # Five steps of 8 s are left of ten, and another one waits: the 10 s of its start come with it.
    assert seconds_left([row(RUNNING, 50.0, step=5)], 1) == 40.0
    assert seconds_left([row(RUNNING, 50.0, step=5), row(WAITING, 0.0, "grpo")], 1) == 40.0 + 90.0
    # The untrained model, which is evaluated soon, says nothing about trainings.
    untrained = row(DONE, 5.0, method=None)
    assert seconds_left([untrained, row(RUNNING, 50.0, step=5), row(WAITING, 0.0, "grpo")], 1) == 130.0
    assert seconds_left([untrained, row(WAITING, 0.0)], 1) is None
    # A finished cell of the same method says more than one of another, and how long evaluations take.
    done = [row(DONE, 110.0, "grpo", train=90.0), row(DONE, 140.0, "coop", train=110.0)]
    rows = [*done, row(RUNNING, 50.0, step=5), row(WAITING, 0.0, "grpo")]
    assert seconds_left(rows, 1) == (40.0 + 25.0) + 110.0
    assert seconds_left(rows, 2) == 110.0
    assert [duration(each) for each in (None, 59.0, 3661.0)] == ["…", "0:59", "1:01:01"]


def test_a_packed_sweep_has_everything_but_weights(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = planned(here, methods=["agon"], seeds=[0, 1, 10])
    write_plan(made)
    for path in (
        "agon-s1/adapters/A/adapter_model.safetensors",
        "agon-s1/adapters/A/adapter_config.json",
        "agon-s1/metrics.jsonl",
        "agon-s1.log",
        "agon-s1.train.out",
        "agon-s10/metrics.jsonl",
    ):
        (here / "out" / path).parent.mkdir(parents=True, exist_ok=True)
        (here / "out" / path).write_text("{}")
    (here / "out" / "agon-s1" / "link").symlink_to("/etc/hostname")
    assert main(["sweep", "--pack", "out", "--out", "packed"]) == 0
    packed = sorted(path.name for path in (here / "packed").iterdir())
    assert packed == ["agon-s1.tgz", "agon-s10.tgz", "default.recipe.yaml", "sweep.yaml"]
    with tarfile.open(here / "packed" / "agon-s1.tgz") as archive:
        files = {member.name for member in archive.getmembers() if not member.isdir()}
    assert files == {
        "agon-s1/adapters/A/adapter_config.json",
        "agon-s1/metrics.jsonl",
        "agon-s1.log",
        "agon-s1.train.out",
    }
