"""Parts of a user's own, all in one file of the current folder: trained, evaluated, resumed, compared."""

import json
import textwrap
from pathlib import Path

import pytest

from agon.cli import main
from agon.errors import InputError
from agon.own_parts import is_part, load_part, parts_in
from agon.runs.folder import Run

PARTS = textwrap.dedent(
    '''
    """One user's method, reward term, prompts, dialect and judge."""
    from agon.game import METHODS, Dialect, Method
    from agon.game.prompts import FORM, Prompts
    from dataclasses import replace

    def brevity(own):
        return 0.1 * (own.length < 40)

    eager = replace(METHODS["agon"], draft_reward=(*METHODS["agon"].draft_reward, brevity), roles="fixed")
    terse = Prompts(form={**FORM, ("block", "math"): "Answer."}, plain="{problem} {form}")
    thinking = Dialect("mine", "<think>", "</think>", "block")

    def same(problem, answer):
        return answer.strip() == problem.answer
    '''
)
TRAIN = (
    *("train", "--method", "PARTS:eager", "--dialect", "PARTS:thinking", "--prompts", "PARTS:terse"),
    *("--judge", "PARTS:same", "--challenge_reward", "correctness", "PARTS:brevity"),
    *("--max_steps", "2", "--num_generations", "4", "--per_device_train_batch_size", "8"),
    *("--save_steps", "1", "--final_evaluation", "0", "--judge_workers", "1", "--output_dir", "run"),
    *(
        "--task",
        "gym:chain_sum,min_terms=3,max_terms=3,min_digits=2,max_digits=2,train=8,validation=4,test=4",
    ),
)


def test_every_kind_of_part_is_trained_evaluated_resumed_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "all_my_parts.py").write_text(PARTS)
    monkeypatch.chdir(tmp_path)
    words = [word.replace("PARTS", "all_my_parts") for word in TRAIN]
    assert main(words) == 0, capsys.readouterr().err
    run = Run("run")
    recorded = run.read_environment()["own_parts"]
    named = [f"all_my_parts:{name}" for name in ("brevity", "eager", "same", "terse", "thinking")]
    assert sorted(recorded) == named
    assert {part["file"] for part in recorded.values()} == {str(tmp_path / "all_my_parts.py")}
    assert run.read_config()["method"] == "all_my_parts:eager"
    duels = list(run.duels())
    assert {duel.drafter for duel in duels} == {"A"}  # the roles are fixed
    assert all("brevity" in (duel.draft.terms or {}) for duel in duels)
    assert all(
        set(duel.challenge.terms or ()) == {"correctness", "brevity"} for duel in duels if duel.challenge
    )
    prompt = duels[0].draft.rollout.prompt_length
    assert prompt > 0
    # A resume goes on with the same parts, if whoever asks for it says so.
    (run.folder / "checkpoints" / "checkpoint-2").rename(tmp_path / "last")
    run.write_summary({**run.read_summary(), "finished": False})
    assert main(["train", "--resume", "run"]) == 2
    assert "all_my_parts:eager" in capsys.readouterr().err
    assert main(["train", "--resume", "run", "--trust-run-code"]) == 0, capsys.readouterr().err
    assert run.finished()
    # And so do an evaluation and a comparison.
    assert main(["eval", "run", "--limit", "2"]) == 2
    assert main(["eval", "run", "--limit", "2", "--trust-run-code"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert main(["compare", "run", "run@A", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_run_with_own_parts_says_in_another_folder_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path / "run")
    run.write_config({"model": "embedded", "task": "gsm8k", "method": "parts_elsewhere:mine"})
    run.write_environment({"own_parts": {"parts_elsewhere:mine": {"file": "/home/me/parts_elsewhere.py"}}})
    monkeypatch.chdir(tmp_path)
    for words in (["eval", "run"], ["train", "--resume", "run"]):
        assert main([*words, "--trust-run-code"]) == 2
        said = capsys.readouterr().err
        assert "there is no module 'parts_elsewhere'" in said
        assert "had it from /home/me/parts_elsewhere.py" in said
        assert said.count("\n") == 1


def test_a_run_of_a_relative_file_opens_in_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sums = [(a, b) for a in range(10, 16) for b in range(10, 16)]
    lines = [{"question": f"State the final answer to the following arithmetic problem: {a} + {b} + 10 =",
              "gold": str(a + b + 10)} for a, b in sums]  # fmt: skip
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "sums.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.chdir(tmp_path / "one")
    words = [
        "train",
        "--task",
        "./sums.jsonl,problem=question,answer=gold,judge=exact",
        "--output_dir",
        "run",
    ]
    small = ["--max_steps", "1", "--num_generations", "4", "--per_device_train_batch_size", "4"]
    assert main([*words, *small, "--final_evaluation", "0", "--judge_workers", "1"]) == 0, (
        capsys.readouterr().err
    )
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "two")
    assert main(["extend", "../one/run", "--max_steps", "2"]) == 0, capsys.readouterr().err
    assert main(["eval", "../one/run", "--limit", "1", "--no-controls"]) == 0, capsys.readouterr().err
    (tmp_path / "one" / "sums.jsonl").unlink()
    capsys.readouterr()
    assert main(["eval", "../one/run", "--limit", "2"]) == 2
    assert f"There is no file or folder {tmp_path / 'one' / 'sums.jsonl'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("no_such_module_here:x", "there is no module 'no_such_module_here'"),
        ("json:nothing", "has no 'nothing'"),
        ("json:dumps", "must be a dict, not function"),
    ],
)
def test_a_part_that_is_not_there_is_one_sentence(spec: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load_part(spec, "method", dict)


def test_a_part_of_the_current_folder_comes_before_an_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "this_folder_only.py").write_text("value = 7\nimport broken_import_of_mine\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="broken_import_of_mine"):
        load_part("this_folder_only:value", "judge")
    (tmp_path / "this_folder_too.py").write_text("class Box:\n    value = 7\n")
    assert load_part("this_folder_too:Box.value", "judge", int) == 7


def test_the_parts_of_a_configuration_are_found() -> None:
    named = {
        "method": "agon",
        "judge": "mine:judge",
        "draft_reward": ["form", "mine:term"],
        "task": "gym:chain_sum",
    }
    assert list(parts_in(named)) == [("judge", "mine:judge"), ("draft_reward", "mine:term")]
    assert not is_part("gym:chain_sum,max_terms=3")
