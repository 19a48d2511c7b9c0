"""Wrong input by the thousand: options, recipes, tasks, run folders and the arguments of every command.

A case is a command with the files it finds in its folder. What makes it wrong is chosen here by the kind
of an option alone, never by the table that checks it, so that a hole in the table is found.
"""

import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from agon.cli import COMMANDS
from agon.train.option_table import Option, options
from tests.fuzz.run_folder import damaged_runs


@dataclass(frozen=True)
class Case:
    """A command, the files around it, and whether it is wrong for certain."""

    kind: str
    words: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    wrong: bool = True


NOT_NUMBERS = ("abc", "", "nan", "inf", "-inf", "1e999", "0x1F", "1,5", "--", "None", "1 2", "٣x", "1e", "+")
NOT_SWITCHES = ("maybe", "2", "truee", "", "nan", "on/off", "-1")
NOT_MAPPINGS = ("[1]", "{", "5", '{"a": }', "null,", "{'a': 1}", "text")
WRONG_YAML = {
    "number": ("abc", [1], {"a": 1}, True, float("nan"), float("inf"), "", "1 2", "five"),
    "whole": ("abc", [1], {"a": 1}, True, 1.5, float("nan"), "", "1.5", "five"),
    "switch": ("maybe", 3, [True], {"a": 1}, 1.5, ""),
    "choice": (5, ["a"], {"a": 1}, "no-such-name", True, 1.5, ""),
    "mapping": (5, ["a"], "text", True, 1.5),
    "list": (5, {"a": 1}, True, 1.5, [1], [["a"]]),
    "texts": (5, {"a": 1}, True, 1.5, [1], [["a"]]),
    "object": (5, {"a": 1}, "a", ["a"]),
}
# Text that may be anything leaves nothing to be wrong but its kind; these take other kinds too.
FREE = frozenset(("scale_rewards", "include_num_input_tokens_seen", "trackio_static_space_id", "fsdp"))


def cases(seed: int) -> Iterator[Case]:
    """Cases without end, a different kind each time."""
    rng = random.Random(seed)
    makers: list[Callable[[random.Random], Case]] = [
        *(_option_word, _option_word, _option_word, _misspelt, _recipe_value, _recipe_value, _broken_recipe),
        *(_task_file, _task_name, _own_module, damaged_run, damaged_run, damaged_run),
        *(_wrong_argument, _wrong_argument, _garbage),
    ]
    while True:
        yield rng.choice(makers)(rng)


def _option_word(rng: random.Random) -> Case:
    """An option on the command line with a value that it cannot have."""
    free = ("list", "texts")
    option = rng.choice([each for each in options().values() if each.kind not in free])
    return Case("option", ("train", f"--{option.name}", *_wrong_words(rng, option)))


def _wrong_words(rng: random.Random, option: Option) -> tuple[str, ...]:
    if option.kind == "number":
        return (rng.choice([*NOT_NUMBERS, str(-rng.uniform(1.5, 1e9))]),)
    if option.kind == "whole":
        return (rng.choice([*NOT_NUMBERS, "1.5", "1e3", str(-rng.randint(2, 10**9))]),)
    if option.kind == "switch":
        return (rng.choice(NOT_SWITCHES),)
    if option.kind == "mapping":
        return (rng.choice(NOT_MAPPINGS),)
    if option.kind == "choice" or option.choices:
        return (_letters(rng),)
    return ("one", "two")


def _misspelt(rng: random.Random) -> Case:
    """The name of an option with a letter more, less or exchanged."""
    name = rng.choice(list(options()))
    place = rng.randrange(len(name))
    letter = rng.choice(string.ascii_lowercase)
    wrong = rng.choice(
        [name[:place] + letter + name[place:], name[:place] + name[place + 1 :], name + "_" + letter]
    )
    if wrong.replace("-", "_") in options() or wrong.removeprefix("no_") in options() or not wrong:
        wrong = f"{name}_x"
    return Case("name", ("train", f"--{wrong}", "1"))


def _recipe_value(rng: random.Random) -> Case:
    """A recipe with one value of a wrong kind."""
    option = rng.choice([each for each in options().values() if each.name not in FREE])
    wrong: Any = rng.choice(WRONG_YAML.get(option.kind) or (5, ["a", 1], {"a": 1}, 1.5, True))
    if option.name == "pad_to_multiple_of":
        wrong = [1]
    if option.name == "reward_weights":
        wrong = ["heavy"]
    if wrong == "" and option.kind == "choice":
        wrong = "nothing"
    recipe = {"model": "embedded", "task": "gym:chain_sum", option.name: wrong}
    return Case("recipe", ("train", "mine.yaml"), {"mine.yaml": yaml.safe_dump(recipe).encode()})


def _broken_recipe(rng: random.Random) -> Case:
    """A file that is no recipe at all."""
    good = b"model: embedded\ntask: gym:chain_sum\nlearning_rate: 1.0e-3\n"
    content = rng.choice(
        [
            rng.randbytes(rng.randint(1, 200)) + b"\xff",
            b"- a\n- b\n",
            b"just text\n",
            b"",
            b"null\n",
            b"5\n",
            good + b"key: [1, 2",
            good + b"\tx: 1\n",
            good + b"x: !!python/object/apply:os.system ['true']\n",
            good + b"a: &x [*x]\n",
            b"[" * rng.randint(1, 4000),
            good + f"{_letters(rng)}_{_letters(rng)}: 1\n".encode(),
            good + b"? [1, 2]\n: 3\n",
            good + b"1: 2\n",
            good + b"date: 2020-99-99\n",
        ]
    )
    name = rng.choice(["mine.yaml", "mine.yml", "folder/mine.yaml"])
    return Case("broken recipe", (rng.choice(["train", "plan"]), name), {name: content})


def _task_file(rng: random.Random) -> Case:
    """A file of problems in which something is wrong."""
    row = {"problem": "What is 2 + 2?", "answer": "4"}
    rows: list[Any] = [{**row, "problem": f"What is 2 + {number}?"} for number in range(4)]
    place = rng.randrange(len(rows))
    damage = rng.choice(["json", "list", "column", "empty", "kind", "split", "binary", "nothing", "cut"])
    if damage == "list":
        rows[place] = [1, 2]
    elif damage == "column":
        del rows[place][rng.choice(["problem", "answer"])]
    elif damage == "empty":
        rows[place][rng.choice(["problem", "answer"])] = rng.choice(["", "  "])
    elif damage == "kind":
        rows[place][rng.choice(["problem", "answer"])] = rng.choice([[1], {"a": 1}, None, True])
    elif damage == "split":
        rows[place]["split"] = rng.choice(["tset", 5, "x"])
    content = "".join(json.dumps(each) + "\n" for each in rows).encode()
    if damage == "json":
        content = content.replace(b"{", b"<", 1)
    elif damage == "binary":
        content = rng.randbytes(50) + b"\xff\n" + content
    elif damage == "nothing":
        content = b"\n" * rng.randint(0, 3)
    elif damage == "cut":
        content = content[: rng.randrange(5, 30)]
    # In a folder, a file's name is its split and a column of that name is not read.
    name = "mine.jsonl" if damage == "split" else rng.choice(["mine.jsonl", "folder/train.jsonl"])
    if rng.random() < 0.1:
        name, content = "mine.parquet", rng.randbytes(100)
    return Case("task file", ("tasks", name.split("/")[0]), {name: content})


def _task_name(rng: random.Random) -> Case:
    """A name that no task has, or an option that its task does not take."""
    known = ["gsm8k", "math-500", "deepmath-hard", "mbpp", "codecontests"]
    name = rng.choice(
        [
            *(f"{each}{rng.choice('xyz')}" for each in known),
            *(f"{each},{_letters(rng)}x=1" for each in known),
            *(f"{each},train={rng.choice(['-1', 'all', '1.5', 'true', '[1]'])}" for each in known),
            *(f"{each},{_letters(rng)}" for each in known),
            f"gym:{_letters(rng)}zz",
            "gym:",
            "gym:chain_sum,min_terms=-3",
            "gym:chain_sum,min_terms=9,max_terms=2",
            f"gym:chain_sum,{_letters(rng)}zz=1",
            "gym:chain_sum,train=0,validation=0,test=0",
            f"{_letters(rng)}_module:thing",
            f"nowhere/{_letters(rng)}.jsonl",
            f"{_letters(rng)}.parquet",
            *("", " ", ",", ":", "gsm8k,", "gsm8k,=1", "a:b:c", "\0"),
        ]
    )
    # Training asks a generator for its parameters only when torch has been loaded.
    command = "tasks" if name.startswith("gym:") else rng.choice(["tasks", "train --task"])
    return Case("task name", (command, name))


def _own_module(rng: random.Random) -> Case:
    """A module of one's own that raises, returns nonsense or is no Python."""
    name = f"mine_{rng.randrange(10**9)}"
    body = rng.choice(
        [
            "1 / 0",
            "raise RuntimeError('broken\\nin two lines')",
            "import no_such_package",
            "def thing(:",
            "import sys; sys.exit(3)",
            "raise KeyError",
            "thing = 5",
            "thing = []",
            "thing = [1, 2]",
            "thing = lambda **given: 1 / 0",
            "def thing(seed): return None",
            "class thing:\n    def __init__(self, seed): raise ValueError('no')",
            "other = 1",
        ]
    )
    words: tuple[str, ...] = rng.choice([("tasks", f"{name}:thing"), ("tasks", f"{name}:thing,x=1")])
    if not body.startswith(("thing = lambda", "def thing(seed", "thing = [", "class")):
        words = rng.choice([words, ("train", "--judge", f"{name}:thing"), ("judge", f"{name}:thing")])
    return Case("own module", words, {f"{name}.py": body.encode()})


def damaged_run(rng: random.Random) -> Case:
    """A run folder with one file damaged; some damage does no harm."""
    words, files = damaged_runs(rng)
    return Case("run folder", words, files, wrong=False)


def _wrong_argument(rng: random.Random) -> Case:
    """An argument of a command other than `train` that it cannot have."""
    bad_count = rng.choice(["0", "-3", "1.5", "x", "", "nan", "1e9x"])
    bad_seed = rng.choice(["-1", "1.5", "x", "", str(2**40)])
    templates: list[tuple[str, ...]] = [
        *(("eval", "embedded", "--output", "out", f"--{name}", bad_count) for name in EVAL_COUNTS),
        ("eval", "embedded", "--output", "out", "--seed", bad_seed),
        ("eval", "embedded", "--output", "out", "--temperature", rng.choice(["-1", "nan", "inf", "hot", ""])),
        ("eval", "embedded", "--output", "out", "--top-p", rng.choice(["0", "1.1", "nan", "-1", "x"])),
        ("eval", "embedded", "--output", "out", "--split", _letters(rng)),
        ("eval", "embedded", "--output", "out", "--direction", rng.choice(["AC", "both ways", "BAB", ""])),
        ("eval", "embedded", "--output", "out", "--engine", f"{_letters(rng)}x"),
        ("eval", "embedded", "--output", "file.txt", "--task", "gym:chain_sum"),
        ("eval", "embedded", "--output", "out", "--path", "nowhere", "--task", "gsm8k"),
        ("eval", "embedded", "--output", "out", "--engine", "vllm-server", "--vllm-servers", _letters(rng)),
        ("eval", "embedded", "--task", "gym:chain_sum"),
        ("eval", rng.choice(["file.txt", ".", "nowhere/at/all", "", "./nowhere"]), "--output", "out"),
        ("eval", "embedded", "--output", "out", "--task", f"{_letters(rng)}q"),
        ("eval", "embedded", "--output", "out", "--samples", rng.choice(["0", "1,x", "", "2,3", "-1"])),
        ("eval",),
        ("compare",),
        ("compare", "nowhere", "file.txt"),
        ("compare", ".", "nowhere"),
        ("compare", "file.txt", "file.txt", "--contrast", _letters(rng)),
        ("compare", "a", "b", "--split", _letters(rng)),
        ("show",),
        ("show", rng.choice(["nowhere", "file.txt", ".", "empty", ""])),
        ("show", "nowhere", "--step", _letters(rng)),
        ("view", rng.choice(["nowhere", "file.txt", "empty"]), "--port", bad_count),
        ("view", "empty", "--export", "out.html"),
        ("judge",),
        ("judge", f"{_letters(rng)}q"),
        ("judge", "math", "--workers", bad_count),
        ("judge", "math", "--deadline", rng.choice(["0", "-1", "nan", "inf", "soon", ""])),
        ("judge", "code", "--memory", bad_count),
        ("judge", "math", "--dialect", _letters(rng)),
        ("judge", "code", "--sandbox", _letters(rng)),
        ("judge", "code", "--language", f"{_letters(rng)}q"),
        ("plan",),
        ("plan", f"{_letters(rng)}q"),
        ("plan", "qwen3-0.6b-deepmath", "--gpus", bad_count),
        ("plan", "qwen3-0.6b-deepmath", "--gpu", f"{_letters(rng)}q"),
        ("plan", "qwen3-0.6b-deepmath", "--prompt-tokens", bad_count),
        ("plan", "qwen3-0.6b-deepmath", "--problems", bad_count),
        ("plan", "qwen3-0.6b-deepmath", "--model", f"{_letters(rng)}/{_letters(rng)}"),
        ("tasks", "gsm8k", "--seed", bad_seed if bad_seed != str(2**40) else "-5"),
        ("tasks", "gsm8k", "--show", rng.choice(["-1", "x", "1.5", ""])),
        ("tasks", "gsm8k", "--dialect", f"{_letters(rng)}q"),
        ("tasks", "gsm8k", "--path", "nowhere"),
        ("tasks", "gsm8k", "extra"),
        ("methods", f"{_letters(rng)}q"),
        ("methods", "agon", "coop"),
        ("doctor", "extra"),
        ("doctor", f"--{_letters(rng)}q"),
        ("help", f"{_letters(rng)}q"),
        ("train", "--resume", rng.choice(["nowhere", "file.txt", "."])),
        ("train", "--resume", "nowhere", "--seed", "1"),
        ("train", "a.yaml", "b.yaml"),
        ("train", "--model", f"{_letters(rng)}/{_letters(rng)}"),
        ("train", "--model", rng.choice(["file.txt", "empty", "./nowhere", "a/b/c"]), "--task", "gsm8k"),
        ("train", "--output_dir", rng.choice(["file.txt", "file.txt/run", "\0", "x" * 5000])),
        ("train", "--task_path", "nowhere"),
        ("train", "--report_to", f"{_letters(rng)}q"),
        ("train", "--vllm_servers", rng.choice(["notaurl", "ftp://a", "http://", "localhost:8000"])),
        ("train", "--resume_from_checkpoint", "true"),
    ]
    return Case("argument", rng.choice(templates), {"file.txt": b"text\n", "empty/.keep": b""})


EVAL_COUNTS = ("limit", "rows", "max-tokens", "vllm-kv-cache-bytes", "max-model-len")


def _garbage(rng: random.Random) -> Case:
    """A command with a word that nobody would type."""
    word = rng.choice(
        [
            *("--", "-", "=", "--=", "---", "-x", "--no_", "--no_such=1", "\0", "ü" * 30, "a" * 20_000),
            *("--\0", "-1", "--é=é", "{}", "*", "--1"),
            "".join(rng.choices(string.printable, k=rng.randint(1, 40))).strip() or "@",
        ]
    )
    command = rng.choice([name for name in ("methods", "doctor", "train", "plan") if name in COMMANDS])
    return Case("garbage", (command, word), wrong=word not in ("--", "-1"))


def _letters(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 12)))
