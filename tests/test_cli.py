"""The command line: fast to answer, and one sentence for bad input."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import psutil
import pytest

from agon import __version__
from agon.cli import COMMANDS, main
from agon.train.recipes import find_recipe, shipped_recipes

AGON = [sys.executable, "-m", "agon.cli"]


def agon(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*AGON, *words], capture_output=True, text=True, check=False)


def cpu_seconds(*words: str) -> float:
    """What a call takes of a processor: how long it waits for one is no affair of ours."""
    process = subprocess.Popen([*AGON, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def test_help_answers_in_under_half_a_second() -> None:
    assert min(cpu_seconds("--help") for _ in range(3)) < 0.5


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    said = capsys.readouterr().out
    assert all(re.search(rf"^  {command} ", said, re.MULTILINE) for command in COMMANDS)


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_the_version_is_the_packages(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out == f"agon {__version__}\n"


@pytest.mark.parametrize("command", ["methods", "doctor"])
def test_a_command_describes_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: agon {command}")


BAD = [
    (["metods"], "agon: Unknown command 'metods': did you mean 'methods'?\n"),
    (["methods", "argon"], "agon: Unknown method 'argon': did you mean 'agon'?\n"),
    (["methods", "--jsn"], "agon: Unknown option '--jsn': did you mean '--json'?\n"),
    (["doctor", "--jason"], "agon: Unknown option '--jason': did you mean '--json'?\n"),
]


@pytest.mark.parametrize(("words", "sentence"), BAD)
def test_bad_input_is_one_sentence_with_the_nearest_right_value(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", sentence)


def test_bad_input_ends_the_process_with_code_2_and_no_traceback() -> None:
    ended = agon("methods", "cop")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "agon: Unknown method 'cop': did you mean 'coop'?\n"


def test_a_name_like_no_other_is_answered_with_the_whole_list() -> None:
    ended = agon("methods", "zzzzzz")
    assert ended.returncode == 2
    assert "choose one of agon, agon-density, agon-paired, agon-pooled, coop" in ended.stderr


def test_options_that_exclude_each_other_are_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["methods", "--json", "--markdown"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--method", "argon"], "Unknown method 'argon': did you mean 'agon'?"),
        (["--lerning_rate", "1e-5"], "Unknown option '--lerning_rate': did you mean '--learning_rate'?"),
        (["nowhere.yaml"], "Cannot read the recipe 'nowhere.yaml': No such file or directory."),
        (["--resume", "nowhere"], "'nowhere' is not a run: it has no config.yaml."),
        (["bad.yaml", "--seed", "1"], "'lerning_rate': did you mean 'learning_rate'?"),
    ],
)
def test_training_refuses_bad_input_in_one_sentence(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text("task: gsm8k\nlerning_rate: 1.0e-5\n")
    assert main(["train", *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.startswith("agon: ")
    assert said.count("\n") == 1


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = " ".join(AGON) + " methods --json | head -1"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("[\n", "")


HEAVY = {"torch", "transformers", "trl", "datasets", "numpy", "peft", "accelerate", "scipy", "reasoning_gym"}
AT_ONCE = [
    ["train", "--help"],
    ["help", "train"],
    ["train", "nowhere.yaml"],
    ["train", "--lerning_rate", "1"],
    ["train", "--learning_rate", "-1"],
    ["train", "--model", "Qwen/Qwen3-0.6B"],
    ["train", "--resume", "nowhere"],
    ["plan", "nowhere.yaml"],
    ["eval", "embedded", "--limit", "0"],
    ["eval", "--help"],
    ["compare", "--help"],
]


def test_help_and_wrong_words_are_answered_before_anything_heavy_is_loaded() -> None:
    """All in one process that ends without torch: the answer to a typo took 7 s when it had to be loaded."""
    code = (
        "import sys\nfrom agon.cli import main\n"
        f"for words in {AT_ONCE!r}: main(words)\n"
        f"print('heavy:', *({HEAVY!r} & {{name.split('.')[0] for name in sys.modules}}))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "heavy:"
    assert len(ended.stderr.splitlines()) == sum("help" not in " ".join(words) for words in AT_ONCE)


@pytest.mark.parametrize(("words", "most"), [(("train", "--help"), 2.0), (("train", "nowhere.yaml"), 1.0)])
def test_the_first_answers_are_quick(words: tuple[str, ...], most: float) -> None:
    assert min(cpu_seconds(*words) for _ in range(3)) < most


def test_the_first_line_of_a_training_is_there_within_a_second(tmp_path: Path) -> None:
    """Before torch is loaded, and in a second of a processor. The first of three tries that is quick ends it."""
    seconds = []
    for number in range(3):
        words = ["train", "--output_dir", str(tmp_path / str(number)), "--max_steps", "1"]
        process = subprocess.Popen([*AGON, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Training embedded on gym:chain_sum with agon, in ")
        used = psutil.Process(process.pid).cpu_times()
        seconds.append(used.user + used.system)
        process.kill()
        process.communicate()
        if seconds[-1] < 1:
            break
    assert min(seconds) < 1


def test_a_recipe_of_the_package_is_found_by_name_and_by_its_old_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "qwen3-0.6b-deepmath" in shipped_recipes()
    by_name = find_recipe("qwen3-0.6b-deepmath")
    assert (
        by_name == find_recipe("recipes/qwen3-0.6b-deepmath.yaml") == find_recipe("qwen3-0.6b-deepmath.yaml")
    )
    own = tmp_path / "recipes" / "qwen3-0.6b-deepmath.yaml"
    own.parent.mkdir()
    own.write_text("task: gsm8k\n")
    assert find_recipe("recipes/qwen3-0.6b-deepmath.yaml").resolve() == own.resolve()


def test_every_file_of_the_package_that_is_no_python_ships_in_the_wheel() -> None:
    root = Path(__file__).parents[1]
    package = root / "src" / "agon"
    globs = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["agon"]
    shipped = {path for glob in globs for path in package.glob(glob)}
    files = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert files - shipped == set()
    assert len([path for path in shipped if path.parent.name == "recipes"]) >= 7
