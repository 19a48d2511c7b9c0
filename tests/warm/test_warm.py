"""`agon warm`: a tiny base that boxes its answers learns to think first, and the folder is a plain model."""

import json
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from agon.cli import main
from agon.engines.chat import pick_dialect
from agon.game.dialects import dialect
from agon.game.transcript import split
from agon.runs.folder import Run
from agon.warm.examples import Solution, reasoning
from agon.warm.finetune import marked
from agon.warm.request import WarmRequest
from tests.warm.base import problems, save_base, save_problems, tokenizer

SIZE = ["--problems", "24", "--samples", "4", "--max-tokens", "24", "--limit", "16", "--judge", "exact"]
TRAINING = ["--epochs", "6", "--batch", "8", "--learning-rate", "1e-2", "--rank", "8"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warm")
    save_base(folder / "base", steps=150)
    save_problems(folder / "bits.jsonl")
    return folder


def words(place: Path, out: str = "out") -> list[str]:
    output = ["--output", str(place / out)]
    return ["warm", str(place / "base"), "--task", str(place / "bits.jsonl"), *output, *SIZE, *TRAINING]


@pytest.fixture(scope="module")
def warmed(place: Path) -> dict[str, Any]:
    assert main([*words(place), "--json"]) == 0
    result: dict[str, Any] = json.loads((place / "out" / "warm" / "warm.json").read_text())
    return result


@pytest.mark.usefixtures("warmed")
def test_the_model_is_merged_again_from_what_was_kept(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(place / "out" / "warm", tmp_path / "warm")
    script = Path(__file__).parents[2] / "scripts" / "gpu" / "second_model" / "merge.py"
    monkeypatch.setattr("sys.argv", [str(script), str(place / "base"), str(tmp_path)])
    runpy.run_path(str(script), run_name="__main__")
    for name in ("model.safetensors", "config.json", "chat_template.jinja"):
        assert (tmp_path / name).read_bytes() == (place / "out" / name).read_bytes()


def test_the_base_learns_the_form_from_its_own_solutions(warmed: dict[str, Any]) -> None:
    stages = warmed["stages"]
    assert list(stages) == ["before", "before, new dialect", "after"]
    assert stages["before"]["dialect"] == "boxed"
    assert stages["before"]["well_formed"] > 0.6
    assert stages["before, new dialect"]["well_formed"] < 0.2
    assert stages["after"]["well_formed"] > 0.6
    assert set(warmed["contrasts"]) == {"after - before, zero-shot", "cascade - zero-shot, after"}
    assert 0 <= stages["after"]["leaked"] <= 1
    made = warmed["examples"]
    assert made["drafts"] + made["challenges"] == made["own_words"] + made["lines"] > 8
    assert made["challenges"] > 0
    assert made["own_words"] > 0


def test_the_folder_is_a_plain_model_with_a_card_that_speaks_the_dialect(
    place: Path, warmed: dict[str, Any]
) -> None:
    folder = place / "out"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert pick_dialect(tokenizer) == "think"
    base = AutoTokenizer.from_pretrained(place / "base")
    asked = [{"role": "user", "content": "p1?"}]
    assert tokenizer.apply_chat_template(asked, tokenize=False) == base.apply_chat_template(
        asked, tokenize=False
    )
    AutoModelForCausalLM.from_pretrained(folder)
    assert not list(folder.glob("adapter*"))
    card = (folder / "README.md").read_text()
    assert "taught to speak `think`" in card
    assert f"| after | {100 * warmed['stages']['after']['zero_shot']:.1f} |" in card


def test_every_example_is_well_formed_and_keeps_its_answer_to_itself(
    place: Path, warmed: dict[str, Any]
) -> None:
    examples = json.loads((place / "out" / "warm" / "examples.json").read_text())
    assert len(examples) == warmed["examples"]["drafts"] + warmed["examples"]["challenges"]
    for example in examples:
        found = split(example["completion"], "think")
        assert found.well_formed
        assert found.answer == str(int(example["problem"][1:]) % 2)


@pytest.mark.usefixtures("warmed")
def test_a_challenge_is_what_the_base_wrote_after_reading_the_attempt_that_is_shown(place: Path) -> None:
    work = place / "out" / "warm"
    samples = [json.loads(line) for line in (work / "cascades" / "samples.jsonl").read_text().splitlines()]
    wrote = {(each["problem"], final["shown"], final["text"]) for each in samples for final in each["finals"]}
    challenges = [each for each in json.loads((work / "examples.json").read_text()) if each["shown"]]
    assert challenges
    for each in challenges:
        after = {
            reasoning(Solution(problems(1)[0], 0, text, True, True), dialect("think"))
            for problem, shown, text in wrote
            if (problem, shown) == (each["problem"], each["shown"])
        }
        private = each["completion"].partition("<think>")[2].partition("</think>")[0].strip()
        assert private in after


def test_the_same_command_goes_on_where_it_was_stopped(
    place: Path, warmed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    work = place / "out" / "warm"
    summaries = (work / "summaries.jsonl").read_text().splitlines(keepends=True)
    # Killed while it summarised: the last line was cut, and nothing later was there.
    (work / "summaries.jsonl").write_text("".join(summaries[:5]) + summaries[5][:9])
    kept = (work / "cascades" / "samples.jsonl").read_bytes()
    weights = (place / "out" / "model.safetensors").stat().st_mtime_ns
    assert main([*words(place), "--markdown"]) == 0
    shown = capsys.readouterr().out
    assert (work / "cascades" / "samples.jsonl").read_bytes() == kept, "nothing was sampled twice"
    assert (work / "summaries.jsonl").read_text() == "".join(summaries)
    assert (place / "out" / "model.safetensors").stat().st_mtime_ns == weights, "nothing was trained twice"
    again = json.loads((work / "warm.json").read_text())
    assert again["stages"] == warmed["stages"]
    assert "| after, think |" in shown
    assert "cascade - zero-shot, after:" in shown


def test_a_folder_without_its_weights_gets_them_from_the_adapter(
    place: Path, warmed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place / "out"
    weights = (folder / "model.safetensors").read_bytes()
    for name in ("model.safetensors", "config.json"):
        (folder / name).unlink()
    monkeypatch.setattr("agon.warm.warm.finetune", None)  # nothing is trained
    assert main(words(place)) == 0
    assert (folder / "model.safetensors").read_bytes() == weights
    stored = (folder / "warm" / "adapter" / "adapter_model.safetensors").stat().st_size
    assert stored < len(weights) / 2


@pytest.mark.parametrize(
    "line", ["not JSON", "[]", "7", "{}", '{"solution": "a", "try": "0", "text": 1}', '{"solution": []}']
)
def test_a_damaged_line_of_the_summaries_is_one_sentence(
    line: str, place: Path, warmed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    file = place / "out" / "warm" / "summaries.jsonl"
    before = file.read_text()
    file.write_text(f"{before}{line}\n{before.splitlines()[0]}\n")
    try:
        assert main(words(place)) == 2
    finally:
        file.write_text(before)
    error = capsys.readouterr().err.strip()
    place_of_line = f"Line {len(before.splitlines()) + 1} of {file} is not a summary"
    assert f"agon: {place_of_line}" in error
    assert error.endswith(": remove the line, and the same command goes on.")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["--dialect", "boxed"], "no private reasoning before an <answer> block"),
        (["--dialect", "thinks"], "Unknown dialect 'thinks'"),
        (["--samples", "0"], "--samples must be a whole number of at least 1"),
        (["--engine", "vllm-server"], "by the engine transformers or vllm"),
        (["--task", "no-such-task"], "no-such-task"),
        (["--split", "test"], "test"),
        (["--learning-rate", "0"], "--learning-rate must be a number above 0"),
    ],
)
def test_wrong_input_is_one_sentence(
    place: Path, capsys: pytest.CaptureFixture[str], changed: list[str], said: str
) -> None:
    assert main([*words(place, "wrong"), *changed]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("agon: ")
    assert said in error
    assert not (place / "wrong").exists()


def test_a_run_and_a_model_that_is_in_the_way_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words(place, "base")]) == 2
    assert "already holds a model that no warm-up made" in capsys.readouterr().err
    Run(place / "run").write_config({"model": "embedded", "method": "agon"})
    assert main(["warm", str(place / "run"), *words(place)[2:]]) == 2
    assert "is a run" in capsys.readouterr().err


def test_a_base_that_speaks_the_dialect_already_is_refused(
    place: Path, warmed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["warm", str(place / "out"), *words(place, "twice")[2:]]) == 2
    assert "speaks the dialect 'think' already" in capsys.readouterr().err


def test_too_few_right_solutions_are_one_sentence(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words(place, "few"), "--problems", "1", "--samples", "2"]) == 2
    assert "sample more with --problems or --samples" in capsys.readouterr().err


@pytest.mark.parametrize("template", ["\n\nhi {{ messages }}", "{% if x %}a{% endif %}\n"])
def test_the_note_in_a_template_changes_nothing_that_it_renders(template: str) -> None:
    request = WarmRequest("m", "t", "think")
    noted = marked(template, request)
    assert request.kind.opens in noted
    said = [
        tokenizer().apply_chat_template(
            [{"role": "user", "content": "p"}], chat_template=each, tokenize=False
        )
        for each in (template, noted)
    ]
    assert said[0] == said[1]
