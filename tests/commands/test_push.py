"""`agon push`: what is uploaded, by a dry run and to a small server that speaks as the Hub does."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import agon
from agon.cli import main
from agon.engines.chat import Chat
from agon.game.problem import Problem
from agon.policies.base import load_tokenizer
from agon.runs.folder import Run

SMALL = (
    *("train", "--max_steps", "1", "--num_generations", "4", "--per_device_train_batch_size", "8"),
    *("--final_evaluation", "4", "--judge_workers", "1", "--judge", "exact"),
    *(
        "--task",
        "gym:chain_sum,min_terms=3,max_terms=3,min_digits=2,max_digits=2,train=8,validation=4,test=6",
    ),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("push") / "run"
    assert main([*SMALL, "--output_dir", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def prepared(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "pair"
    assert main(["push", str(run), "me/pair", "--dry-run", str(folder)]) == 0
    return folder


def test_the_folder_holds_adapters_tokenizer_results_and_no_path_of_this_machine(
    run: Path, prepared: Path
) -> None:
    files = {str(path.relative_to(prepared)) for path in prepared.rglob("*") if path.is_file()}
    assert {"README.md", "config.yaml", "tokenizer.json", "adapters/A/adapter_model.safetensors"} <= files
    assert {"adapters/B/adapter_model.safetensors", "adapters/B/README.md"} <= files
    assert not any(name.startswith(("duels", "checkpoints", "problems")) for name in files)
    assert any(name.endswith("result.json") for name in files)
    for name in files:
        if not name.endswith(".safetensors"):
            assert str(run.parent.parent) not in (prepared / name).read_text("utf-8"), name


def test_the_card_says_how_it_was_trained_and_what_it_scored(run: Path, prepared: Path) -> None:
    card = (prepared / "README.md").read_text("utf-8")
    assert card.startswith("---\nbase_model: embedded\n")
    assert "license: apache-2.0" in card
    assert "| method | `agon`; a challenge earns 2c(b) + c(b)(1-c(a))" in card
    (evaluation,) = Run(run).evaluated("test")
    result = evaluation.read_result()
    for name, figures in result["arms"].items():
        low, high = (100 * end for end in figures["ci95"])
        assert re.search(
            rf"{re.escape(name)}\W+{100 * figures['pass@1']:.1f} \| {low:.1f} to {high:.1f}", card
        )
    assert "<attempt>" in card


def test_the_script_of_the_card_asks_what_agon_asks(prepared: Path) -> None:
    """Its upper part, which needs no vLLM: the prompts are the same, letter for letter."""
    card = (prepared / "README.md").read_text("utf-8")
    (script,) = re.findall(r"```python\n(import re\n.*?)```", card, re.DOTALL)
    names: dict[str, object] = {}
    exec(script.split("# vLLM")[0], names)
    compile(script, "card", "exec")
    chat = Chat(load_tokenizer("embedded"), "think")
    problem = Problem("1", "What is 1 + 2 + 3?", "t")
    draft = "<think>hm</think>One and two, and three.<answer>6</answer>"
    assert names["draft_prompt"](problem.prompt) == chat.render(chat.plain(problem))  # type: ignore[operator]
    asked = names["challenge_prompt"](problem.prompt, draft)  # type: ignore[operator]
    assert asked == chat.render(chat.challenge(problem, "One and two, and three."))


def test_what_was_prepared_opens_as_a_run_again(prepared: Path) -> None:
    with agon.load(prepared) as pair:
        assert pair.policies == ("A", "B")
        assert pair.ask("12 + 34 + 56 =").draft


class Hub(BaseHTTPRequestHandler):
    """As much of the Hub as an upload needs; everything that was committed is kept."""

    committed: dict[str, int] = {}  # noqa: RUF012
    created: list[dict[str, object]] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not body and self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
        if self.path == "/api/repos/create":
            Hub.created.append(json.loads(body))
            self._say({"url": f"http://{self.headers['Host']}/me/pair", "name": "me/pair", "id": "me/pair"})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            self._say(
                {
                    "files": [
                        {"path": each["path"], "uploadMode": "regular", "shouldIgnore": False}
                        for each in files
                    ]
                }
            )
        elif "/commit/" in self.path:
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    Hub.committed[entry["value"]["path"]] = len(entry["value"]["content"])
            host = f"http://{self.headers['Host']}"
            self._say({"commitUrl": f"{host}/me/pair/commit/0", "commitOid": "0" * 40, "success": True})
        else:
            self._say({})

    def do_GET(self) -> None:
        self._say({"id": "me/pair", "sha": "0" * 40, "siblings": []})

    def _say(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_the_hub_is_given_every_file(run: Path, prepared: Path, hub: str) -> None:
    environment = {**os.environ, "HF_ENDPOINT": hub, "HF_HUB_OFFLINE": "0", "HF_TOKEN": "hf_nobody"}
    ended = subprocess.run(
        [sys.executable, "-m", "agon.cli", "push", str(run), "me/pair", "--private"],
        env={**environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"Uploaded to {hub}/me/pair.\n"
    assert Hub.created[0]["visibility"] == "private"
    files = {str(path.relative_to(prepared)) for path in prepared.rglob("*") if path.is_file()}
    assert set(Hub.committed) == files


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere/at/all", "me/pair"], "There is no folder"),
        (["RUN", "me/pair/extra"], "is named OWNER/NAME"),
        (["embedded", "me/pair", "--dry-run", "OUT"], "is not a run"),
    ],
)
def test_what_cannot_be_pushed_is_one_sentence(
    words: list[str], sentence: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"RUN": str(run), "OUT": str(tmp_path / "out")}
    assert main(["push", *(places.get(word, word) for word in words)]) == 2
    assert sentence in capsys.readouterr().err
