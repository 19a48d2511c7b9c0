"""Real run folders, finished and half finished, and damage done to them.

A tiny model is trained for four steps and evaluated; the half-finished run is the same one as a kill before its last
checkpoint leaves it. One file of a copy is damaged, then a command is played on it with nothing replaced but the
judges, which are started once for all cases.
"""

import contextlib
import gc
import io
import json
import os
import random
import re
import shutil
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from agon.cli import main
from agon.judges.judge import Judge
from agon.judges.pool import JudgePool
from agon.runs.settings import RunSettings
from tests.evaluate.tiny import save_base, zero_or_one
from tests.fuzz.run_folder import changed

DONE, HALF = "done", "half"
EVALUATION = ("--no-controls", "--limit", "2", "--direction", "AB")
TRAINING = (
    "--per_device_train_batch_size 8 --gradient_accumulation_steps 4 --num_generations 8 --max_completion_length 3 "
    "--max_steps 4 --save_steps 2 --learning_rate 1e-2 --warmup_steps 0 --gradient_checkpointing false "
    "--judge exact --judge_workers 1 --use_cpu true --seed 1 --save_total_limit 4 --lora_r 4 --torch_threads 1"
)
# The command, the run it is played on, and how often it is drawn: resuming takes longest.
COMMANDS = (
    (("compare", DONE, "other"), 6),
    (("eval", DONE, *EVALUATION), 2),
    (("train", "--resume", HALF), 2),
    (("train", "--resume", DONE), 1),
)
DAMAGES = (
    "flip",
    "flip",
    "flip",
    "bytes",
    "cut",
    "empty",
    "delete",
    "swap",
    "other",
    "folder",
    "value",
    "value",
    "value",
)


@dataclass(frozen=True)
class Damaged:
    """A command, and what was done to which file of the run it is played on."""

    words: tuple[str, ...]
    damage: str
    file: str
    other: str  # that it is exchanged with
    seed: int

    def __str__(self) -> str:
        swapped = f" and {self.other}" if self.damage == "swap" else ""
        return f"{self.damage} of {self.file}{swapped}, then agon {' '.join(self.words)} (seed {self.seed})"

    @property
    def of_a_checkpoint(self) -> bool:
        return "/checkpoints/" in (self.file + self.other if self.damage == "swap" else self.file)


class RealRuns:
    """The folder with both runs and a comparison's other side, and what they end with undisturbed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.place = folder / "whole", folder / "damaged"
        self.folder.mkdir(parents=True)
        self._pools: dict[str, JudgePool] = {}
        with self.inside(self.folder):
            save_base(Path("base"))
            rows = [
                {"id": each.id, "problem": each.prompt, "answer": each.answer, "split": split}
                for number, each in enumerate(zero_or_one(32))
                for split in (("validation", "test")[number % 2] if number < 8 else "train",)
            ]
            Path("bits.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            base, problems = str(Path("base").absolute()), str(Path("bits.jsonl").absolute())
            words = ["train", "--model", base, "--task", problems, "--output_dir", DONE, *TRAINING.split()]
            assert self.play(words)[0] == 0
            shutil.copytree(DONE, HALF)
            for path in (Path(HALF) / "adapters", Path(HALF) / "checkpoints" / "checkpoint-4"):
                shutil.rmtree(path)
            (Path(HALF) / "summary.json").unlink()
            assert self.play(["eval", DONE, *EVALUATION])[0] == 0
            shutil.copytree(DONE, "other")
        self.files = {
            run: sorted(
                str(path.relative_to(self.folder))
                for path in (self.folder / run).rglob("*")
                if path.is_file()
            )
            for run in (DONE, HALF)
        }
        self.adapters = self._weights(self.folder / DONE)
        self.result = self._result(self.folder / DONE)
        gc.freeze()  # statsmodels collects garbage for every comparison; with torch loaded that takes long
        # Whether checkpoints say what they hold; without that, flipped bits in one are trained on.
        self.manifest = any("manifest" in name for name in self.files[HALF])

    def draw(self, rng: random.Random, quick: bool = False) -> Damaged:
        """A case; quick ones are comparisons more often."""
        often = [weight * 4 if quick and words[0] == "compare" else weight for words, weight in COMMANDS]
        words = rng.choices([words for words, _ in COMMANDS], often)[0]
        run = HALF if HALF in words else DONE
        file, other = rng.choices(self.files[run], k=2)
        return Damaged(words, rng.choice(DAMAGES), file, other, rng.randrange(2**32))

    def fault_of(self, case: Damaged) -> str | None:
        """What is wrong with how a command took a damaged run; None if nothing is."""
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.folder, self.place)
        _damage(self.place, case)
        with self.inside(self.place):
            code, said = self.play(list(case.words))
        if code is None:
            return said
        if code not in (0, 2):
            return f"exit code {code}: {said}"
        if code == 2:
            lines = [line for line in said.splitlines() if line.startswith("agon: ")]
            return None if len(lines) == 1 else f"not one sentence: {said!r}"
        return self._silent_difference(case, said)

    def _silent_difference(self, case: Damaged, said: str) -> str | None:
        """Other adapters, or other figures of the same ones, without a word."""
        if re.search(r"already finished|agon: ", said):
            return None
        if case.words[0] == "train" and self._weights(self.place / case.words[2]) != self.adapters:
            return f"other adapters without a word: {said[-300:]!r}"
        evaluated = case.words[0] == "eval" and "samples" not in case.file + case.other
        if evaluated and self._result(self.place / DONE) != self.result:
            return f"other figures without a word: {said[-300:]!r}"
        return None

    def play(self, words: list[str]) -> tuple[int | None, str]:
        """The exit code and what was said; no code but a traceback where an error came through."""
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                return main(words), said.getvalue()
        except (Exception, SystemExit):
            return None, traceback.format_exc()

    @contextlib.contextmanager
    def inside(self, folder: Path) -> Iterator[None]:
        """Work in a folder, with judges that are kept from one case to the next."""
        home = os.getcwd()
        opened = RunSettings.open_judge

        def kept(settings: RunSettings, judge: str | Judge) -> JudgePool:
            if str(judge) not in self._pools:
                self._pools[str(judge)] = opened(settings, judge)
            settings.trust.refuse(())
            return self._pools[str(judge)]

        os.chdir(folder)
        try:
            with (
                patch.object(RunSettings, "open_judge", kept),
                patch.object(JudgePool, "close", lambda _: None),
                patch.object(JudgePool, "__exit__", lambda *_: None),
            ):
                yield
        finally:
            os.chdir(home)

    def close(self) -> None:
        gc.unfreeze()
        for pool in self._pools.values():
            pool.close()

    @staticmethod
    def _weights(run: Path) -> dict[str, bytes]:
        return {path.parent.name: path.read_bytes() for path in run.glob("adapters/*/*.safetensors")}

    @staticmethod
    def _result(run: Path) -> Any:
        return json.loads((run / "evaluations" / "bits-test" / "result.json").read_text())["arms"]


def _damage(folder: Path, case: Damaged) -> None:
    rng, path = random.Random(case.seed), folder / case.file
    content = path.read_bytes()
    if case.damage in ("delete", "folder"):
        path.unlink()
        if case.damage == "folder":
            path.mkdir()
    elif case.damage == "swap":
        other = folder / case.other
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
    else:
        path.write_bytes(_other(rng, case, content))


def _other(rng: random.Random, case: Damaged, content: bytes) -> bytes:
    if case.damage == "none":
        return content
    if case.damage == "empty":
        return b""
    if case.damage == "bytes":
        return rng.randbytes(rng.randint(1, 200))
    if case.damage == "cut":
        return content[: rng.randrange(len(content) + 1)]
    if case.damage == "flip" and content:
        place = rng.randrange(len(content))
        return content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]
    if case.damage == "value":
        # A value is changed where it stands: the signature of a configuration stays as it was.
        mark = content.rfind(b"# sha256")
        signature = content[mark:] if mark >= 0 else b""
        try:
            return changed(rng, case.file, content) + signature
        except (ValueError, yaml.YAMLError, IndexError):
            return b"{}"
    return rng.choice([b"[]", b"5", b"null", b'"text"', b"{}", b"- a\n", b"\n", b"{}\n", b"[[]]\n"])
