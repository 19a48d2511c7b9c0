"""`agon ask`, `agon export`, and what `agon serve` refuses before it loads anything."""

import ast
import json
import shlex
import socket
import subprocess
from pathlib import Path

import pytest
from safetensors.torch import load_file

from agon.cli import main
from agon.policies import Pair
from agon.policies.base import load_base, load_tokenizer
from tests.serve.running import SUM, save_pair


@pytest.fixture(scope="module")
def pair_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pair(tmp_path_factory.mktemp("pair"), noise=0.05)


def test_ask_prints_the_answer_and_shows_the_draft_aside(
    pair_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ask", str(pair_run), SUM, "--seed", "1"]) == 0
    said = capsys.readouterr()
    assert main(["ask", str(pair_run), SUM, "--seed", "1", "--json"]) == 0
    reply = json.loads(capsys.readouterr().out)
    message = reply["choices"][0]["message"]
    assert said.out == message["content"] + "\n"
    assert message["reasoning"] in said.err
    assert "A->B: A " in said.err
    assert reply["agon"]["choices"][0]["draft"].startswith("<think>")


def test_ask_takes_a_problem_from_standard_input_and_another_model(
    pair_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "problem.txt").write_text(SUM)
    with (tmp_path / "problem.txt").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert main(["ask", str(pair_run), "--model", "agon-b", "--max-tokens", "3", "--json"]) == 0
    reply = json.loads(capsys.readouterr().out)
    assert reply["agon"]["route"] == "B"
    assert reply["usage"]["completion_tokens"] == 3
    assert reply["choices"][0]["finish_reason"] == "length"


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    from agon.printing import plain

    assert plain("2 + 2\n= \x1b[31m4\x07") == "2 + 2\n= \\u001b[31m4\\u0007"


WRONG = {
    "ask {run} hello --model gpt-4o": "The model 'gpt-4o' does not exist; this server has agon, agon-ab",
    "ask {run} ''": "There is no problem to ask",
    "ask embedded hello": "'embedded' is a model without a pair: name the folder of a run",
    "ask {run} hello --engine vlm": "Unknown engine 'vlm': did you mean 'vllm'?",
    "ask {run} hello --direction AC": "Unknown direction 'A->C'",
    "ask {run} hello --direction A": "--direction must be AB or BA, not 'A'",
    "ask {run} hello --temperature 3": "--temperature must be a number of at least 0 and up to 2, not '3'",
    "serve {run} --port 70000": "--port must be a whole number of at least 0 and at most 65535",
    "serve {run} --engine vllm-server --vllm-servers here": "must be addresses such as http://localhost:8001",
    "serve {run} --vllm-servers http://localhost:1": "--vllm-servers is for --engine vllm-server",
    "serve {run} --api-key ' '": "--api-key must be a text of plain characters, not empty",
    "serve {run} --timeout 0": "--timeout must be a number above 0",
    "serve {run} --host nowhere.invalid --port 0": "Cannot listen on nowhere.invalid port 0",
    "serve ./nowhere --port 0": "There is no folder './nowhere'",
    "serve {run} --port {taken}": "choose another --host or --port",
    "export {run} {run}": "is there already: choose a folder that does not exist or is empty",
    "export ./nowhere out": "There is no folder './nowhere'",
    "export {run}": "The following arguments are required: DIR",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_input_ends_in_one_sentence(
    words: str,
    pair_run: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        written = words.format(run=pair_run, taken=taken.getsockname()[1])
        assert main(shlex.split(written)) == 2
    said = capsys.readouterr().err
    assert said.startswith("agon: ")
    assert WRONG[words] in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def exported(pair_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "pair"
    assert main(["export", str(pair_run), str(folder), "--merged"]) == 0
    return folder


def test_the_exported_adapters_are_those_of_the_run(pair_run: Path, exported: Path) -> None:
    for policy in ("A", "B"):
        name = f"adapters/{policy}/adapter_model.safetensors"
        assert (exported / name).read_bytes() == (pair_run / name).read_bytes()
    assert Pair.load(load_base(str(exported / "base")), exported / "adapters").names == ("A", "B")


def test_the_command_line_serves_both_adapters_at_their_rank(exported: Path) -> None:
    script = (exported / "serve.sh").read_text()
    subprocess.run(["sh", "-n", str(exported / "serve.sh")], check=True)
    # What the shell makes of it: an echo in place of vLLM.
    shown = subprocess.run(
        ["sh", "-c", script.replace("exec vllm", "echo vllm"), str(exported / "serve.sh"), "--port", "9"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert shown[:3] == ["vllm", "serve", "base"]
    assert shown[shown.index("--max-lora-rank") + 1] == "16"
    assert f"A={exported}/adapters/A" in shown
    assert f"B={exported}/adapters/B" in shown
    assert shown[-2:] == ["--port", "9"]


def test_the_client_is_thirty_lines_over_the_game(exported: Path) -> None:
    tree = ast.parse((exported / "ask.py").read_text())
    code = ast.unparse(ast.Module([node for node in tree.body if not _is_docstring(node)], []))
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert modules == {"openai", "agon.game"}
    assert "sample(client, 'A', plain_prompt(problem, DIALECT))" in code


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def test_a_merged_policy_is_the_base_plus_its_adapter(exported: Path) -> None:
    base = load_file(exported / "base" / "model.safetensors")
    merged = {policy: load_file(exported / "merged" / policy / "model.safetensors") for policy in ("A", "B")}
    assert merged["A"].keys() == base.keys()
    assert all(weight.equal(base[key]) for key, weight in merged["A"].items())  # A starts as the base
    assert not all(weight.equal(base[key]) for key, weight in merged["B"].items())
    load_base(str(exported / "merged" / "B"))
    assert load_tokenizer(str(exported / "merged" / "B")).chat_template
