"""Two small evaluated runs as files, and damage done to one of them."""

import io
import json
import random
import zipfile
from functools import cache
from typing import Any

import yaml

from agon.train.option_table import defaults

RUN = "runs/one"
TASK = "gym:chain_sum"
TORCH_FILES = ("optimizer.pt", "scheduler.pt", "rng_state.pth")
SPEC = f"{TASK},train=8,validation=2,test=2"


@cache
def two_runs() -> dict[str, bytes]:
    """Every file of two runs that differ in their method alone."""
    files: dict[str, bytes] = {}
    for folder, method in ((RUN, "agon"), ("runs/two", "coop")):
        for name, content in one_run(method).items():
            files[f"{folder}/{name}"] = content
    return files


def one_run(method: str) -> dict[str, bytes]:
    """The files of a run that was stopped after two steps and evaluated."""
    own = {"method": method, "model": "embedded", "task": SPEC, "seed": 0, "output_dir": RUN}
    task: dict[str, Any] = {
        "name": TASK,
        "spec": SPEC,
        "judge": "gym",
        "path": None,
        "seed": 0,
        "options": {"seed": 0},
        "sizes": {"train": 8, "validation": 2, "test": 2},
        "fingerprints": {},
        "dropped": {},
        "notes": [],
    }
    result = {
        "task": TASK,
        "split": "test",
        "direction": "A->B",
        "headline": "A->B",
        "chosen_on": "nothing",
        "model": "embedded",
        "method": method,
        "policies": ["A", "B"],
        "directions": "both",
        "n": 2,
        "samples": 1,
        "fingerprint": "f",
        "decoding": {"temperature": 0.6},
        "engine": "transformers",
        "seed": 0,
        "arms": {"A->B": {}, "B->A": {}, "A": {}, "B": {}},
        "problems": ["p0", "p1"],
    }
    evaluation = "evaluations/gym-chain_sum-test"
    state = {"global_step": 2, "max_steps": 8, "log_history": []}
    adapter = {"peft_type": "LORA", "r": 8}
    return {
        "config.yaml": yaml.safe_dump({**defaults(), **own}).encode(),
        "task.json": json.dumps(task).encode(),
        "summary.json": json.dumps({"finished": False, "steps": 2, "max_steps": 8}).encode(),
        "metrics.jsonl": b"".join(
            json.dumps({"step": step, "loss": 0.1}).encode() + b"\n" for step in (1, 2)
        ),
        "environment.json": b"{}",
        "checkpoints/checkpoint-2/trainer_state.json": json.dumps(state).encode(),
        **{f"checkpoints/checkpoint-2/{name}": _torch_file() for name in TORCH_FILES},
        **{f"checkpoints/checkpoint-2/{name}/adapter_model.safetensors": _weights() for name in "AB"},
        **{f"adapters/{name}/adapter_config.json": json.dumps(adapter).encode() for name in "AB"},
        **{f"adapters/{name}/adapter_model.safetensors": b"w" for name in "AB"},
        f"{evaluation}/result.json": json.dumps(result).encode(),
        f"{evaluation}/settings.json": b"{}",
        f"{evaluation}/samples.jsonl": b"".join(_samples(method)),
    }


def _torch_file() -> bytes:
    """A file as torch writes it, as far as can be told without reading the pickle in it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("archive/data.pkl", b"p")
    return made.getvalue()


def _weights() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(8)


def _samples(method: str) -> list[bytes]:
    attempt = {
        "policy": "A",
        "text": "1",
        "length": 1,
        "prompt_length": 1,
        "truncated": False,
        "well_formed": True,
        "correct": method == "agon",
        "reason": "correct",
    }
    final = {**attempt, "policy": "B", "read": 0, "shown": "", "leaked": False}
    lines = []
    for play in ("A->B", "B->A"):
        for problem in ("p0", "p1"):
            sample = {"play": play, "problem": problem, "number": 0, "drafts": [attempt], "finals": [final]}
            lines.append(json.dumps(sample).encode() + b"\n")
    return lines


COMMANDS = (
    ("train", "--resume", RUN),
    ("eval", RUN),
    ("eval", RUN, "--task", SPEC),
    ("compare", RUN, "runs/two"),
    ("compare", "runs/two", RUN, "--json"),
)


WRONG: tuple[Any, ...] = (
    *([], {}, [1], {"a": 1}, -5, 1.5, "", "text", None, True, [[]], "\u0000", 10**30),
    *(0, float("nan"), float("inf"), 1e-300, "\ud800", "../..", "/dev/zero", "A" * 5000),
)


def damaged_runs(rng: random.Random) -> tuple[tuple[str, ...], dict[str, bytes]]:
    """A command on two runs, one of which has a file deleted, cut, overwritten or changed in one value."""
    files = dict(two_runs())
    name = rng.choice(sorted(name for name in files if name.startswith(RUN)))
    content = files[name]
    damage = rng.choice(["delete", "empty", "cut", "bytes", "flip", "other", "value", "value", "value"])
    if damage == "delete":
        del files[name]
    elif damage == "empty":
        files[name] = b""
    elif damage == "cut":
        files[name] = content[: rng.randrange(len(content) + 1)]
    elif damage == "bytes":
        files[name] = rng.randbytes(rng.randint(1, 60))
    elif damage == "flip":
        place = rng.randrange(len(content))
        files[name] = content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]
    elif damage == "other":
        files[name] = rng.choice(
            [b"[]", b"5", b"null", b'"text"', b"{}", b"- a\n", b"\n", b"{}\n", b"[[]]\n"]
        )
    else:
        files[name] = changed(rng, name, content)
    return rng.choice(COMMANDS), files


def changed(rng: random.Random, name: str, content: bytes) -> bytes:
    """The file with one value of another kind, or without it."""
    if name.endswith(".yaml"):
        return yaml.safe_dump(_replaced(rng, yaml.safe_load(content))).encode()
    if name.endswith(".json"):
        return json.dumps(_replaced(rng, json.loads(content))).encode()
    if name.endswith(".jsonl"):
        lines = content.splitlines()
        place = rng.randrange(len(lines))
        lines[place] = json.dumps(_replaced(rng, json.loads(lines[place]))).encode()
        return b"\n".join(lines) + b"\n"
    return rng.randbytes(10)


def _replaced(rng: random.Random, value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        return rng.choice([[], {}, 5, "text", None])
    key = rng.choice(sorted(value))
    if isinstance(value[key], dict) and value[key] and rng.random() < 0.5:
        return {**value, key: _replaced(rng, value[key])}
    if rng.random() < 0.3:
        return {other: each for other, each in value.items() if other != key}
    wrong: Any = rng.choice(WRONG)
    return {**value, key: wrong}
