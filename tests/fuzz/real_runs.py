"""Real run folders, finished and half finished, and damage done to them.

A tiny model is trained, extended, evaluated and its checkpoints compared; the half-finished run is the same one as a
kill before its last checkpoint leaves it. One file of a copy is damaged, then a command is played on it with nothing
replaced but the judges, which are started once for all cases, and the server's loop, which ends at once.
"""

import contextlib
import gc
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
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

DONE, HALF, OTHER = "done", "half", "other"
EVALUATION = ("--no-controls", "--limit", "2", "--direction", "AB")
STEPS, EXTENDED = 4, 5
TRAINING = (
    "--per_device_train_batch_size 8 --gradient_accumulation_steps 4 --num_generations 8 --max_completion_length 3 "
    "--save_steps 1 --learning_rate 1e-2 --warmup_steps 0 --gradient_checkpointing false "
    "--judge exact --judge_workers 1 --use_cpu true --seed 1 --save_total_limit 4 --lora_r 4 --torch_threads 1"
)
# The command, the run it is played on, and how often it is drawn: resuming takes longest.
COMMANDS = (
    (("check", DONE), 2),
    (("check", HALF), 2),
    (("train", "--resume", HALF), 3),
    (("train", "--resume", DONE), 1),
    (("extend", DONE, "--max_steps", str(EXTENDED)), 1),
    (("eval", DONE, *EVALUATION), 3),
    (("best", DONE, "--limit", "2"), 1),
    (("compare", DONE, OTHER), 3),
    (("show", DONE), 1),
    (("show", DONE, "--source", "bits-test"), 1),
    (("show", DONE, "--duel", "1.0", "--group"), 1),
    (("view", DONE, "--export", "page.html"), 1),
    (("serve", DONE, "--port", "0"), 2),
    (("export", DONE, "exported"), 1),
)
# Those that take milliseconds, for the quick selection.
QUICK = frozenset(("check", "compare", "show"))
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
    "link",
    "pipe",
    "twice",
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
    def run(self) -> str:
        return HALF if HALF in self.words else DONE


def kind_of(file: str) -> str:
    """What a file of a run is, whichever step, policy or task it belongs to."""
    _, _, rest = file.partition("/")
    return re.sub(r"checkpoint-\d+|(?<=/)[AB](?=/)|(?<=evaluations/)[^/]+|\d{5}", "*", rest)


class RealRuns:
    """The folder with both runs and a comparison's other side, and what they end with undisturbed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.place = folder / "whole", folder / "damaged"
        self.folder.mkdir(parents=True)
        self._pools: dict[str, JudgePool] = {}
        self._served = ""
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
            self._must([*words, "--max_steps", str(STEPS - 1)])
            self._must(["extend", DONE, "--max_steps", str(STEPS)])
            shutil.copytree(DONE, HALF)
            for path in (Path(HALF) / "adapters", Path(HALF) / "checkpoints" / f"checkpoint-{STEPS}"):
                shutil.rmtree(path)
            for name in ("summary.json", "adapters.json"):
                (Path(HALF) / name).unlink()
            self._must(["eval", DONE, *EVALUATION])
            self._must(["best", DONE, "--limit", "2"])
            shutil.copytree(DONE, OTHER)
        self.files = {run: self._by_kind(run) for run in (DONE, HALF)}
        self.adapters = self._weights(self.folder / DONE)
        self.result = self._result(self.folder / DONE)
        gc.freeze()  # statsmodels collects garbage for every comparison; with torch loaded that takes long
        self._undisturbed: dict[tuple[str, ...], Any] = {}

    def _must(self, words: list[str]) -> None:
        code, said = self.play(words)
        assert code == 0, said

    def _by_kind(self, run: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in sorted((self.folder / run).rglob("*")):
            if path.is_file():
                file = str(path.relative_to(self.folder))
                found.setdefault(kind_of(file), []).append(file)
        return found

    def undisturbed(self, words: tuple[str, ...]) -> Any:
        """What a command comes to without damage."""
        if words in self._undisturbed:
            return self._undisturbed[words]
        file = f"{HALF if HALF in words else DONE}/task.json"
        case = Damaged(words, "none", file, file, 0)
        code, said = self._played(case)
        assert code == 0, said
        self._undisturbed[words] = self._outcome(case)
        return self._undisturbed[words]

    def draw(self, rng: random.Random, quick: bool = False) -> Damaged:
        """A case: every kind of file is as likely as any other; quick ones train and evaluate less often."""
        often = [weight * 8 if quick and words[0] in QUICK else weight for words, weight in COMMANDS]
        words = rng.choices([words for words, _ in COMMANDS], often)[0]
        kinds = self.files[HALF if HALF in words else DONE]
        file, other = (rng.choice(kinds[kind]) for kind in rng.choices(sorted(kinds), k=2))
        if rng.random() < 0.5 and len(kinds[kind_of(file)]) > 1:  # the same file of another step or policy
            other = rng.choice([each for each in kinds[kind_of(file)] if each != file])
        return Damaged(words, rng.choice(DAMAGES), file, other, rng.randrange(2**32))

    def _played(self, case: Damaged) -> tuple[int | None, str]:
        shutil.rmtree(self.place, ignore_errors=True)
        for run in {case.run, OTHER} if OTHER in case.words else {case.run}:
            shutil.copytree(self.folder / run, self.place / run)
        _damage(self.place, case)
        with self.inside(self.place), _in_time():
            return self.play(list(case.words))

    def fault_of(self, case: Damaged) -> str | None:
        """What is wrong with how a command took a damaged run; None if nothing is."""
        self.undisturbed(case.words)  # before the damage
        code, said = self._played(case)
        if code is None or "Traceback" in said:
            return said
        if code == 1 and case.words[0] == "check":
            return None
        if code not in (0, 2):
            return f"exit code {code}: {said}"
        if code == 2:
            lines = [line for line in said.splitlines() if line.startswith("agon: ")]
            return None if len(lines) == 1 else f"not one sentence: {said!r}"
        return self._silent_difference(case, said)

    def _silent_difference(self, case: Damaged, said: str) -> str | None:
        """Other adapters, or other figures of the same ones, without a word."""
        if re.search(r"already finished|agon: (?!serving|agon is|stopped)", said):
            return None
        if case.words[0] == "check" and self._sealed_is_damaged(case):
            return "damage that `agon check` does not find"
        if case.words[0] == "eval" and "samples" in case.file + case.other:
            return None
        if self._outcome(case) != self.undisturbed(case.words):
            return f"other adapters or figures without a word: {said[-300:]!r}"
        return None

    def _outcome(self, case: Damaged) -> Any:
        """What a command comes to: adapters, or figures, by which it is told from another."""
        run = self.place / case.run
        match case.words[0]:
            case "train" | "extend":
                return self._weights(run)
            case "export":
                return self._weights(self.place / "exported")
            case "eval":
                return self._result(run)
            case "best":
                found = json.loads((run / "best.json").read_text())
                return [row["fingerprints"] for row in found["checkpoints"]]
            case "serve":
                return self._served
        return None

    def _sealed_is_damaged(self, case: Damaged) -> bool:
        """Whether weights or the state of a checkpoint are not what they were."""
        sealed = re.compile(r"safetensors$|\.pt$|\.pth$|trainer_state\.json$|adapter_config\.json$")
        touched = [case.file, *([case.other] if case.damage == "swap" else [])]
        return any(
            sealed.search(file)
            and not (
                (self.place / file).is_file()
                and (self.place / file).read_bytes() == (self.folder / file).read_bytes()
            )
            for file in touched
        )

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

        def serve(service: Any, bound: Any, ready: Any) -> None:
            ready()
            self._served = service.fingerprint

        os.chdir(folder)
        try:
            with (
                patch.dict(os.environ, XDG_CACHE_HOME=str(self.folder.with_name("cache"))),
                patch("agon.serve.server.serve", serve),
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


@contextlib.contextmanager
def _in_time(seconds: int = 60) -> Iterator[None]:
    """A command that waits for what never comes, or reads what has no end, is at fault too."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"nothing after {seconds} seconds")

    before, limits = signal.signal(signal.SIGALRM, late), resource.getrlimit(resource.RLIMIT_DATA)
    signal.alarm(seconds)
    # A file without an end fills the memory; here it is an error before the machine has none left.
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, limits)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# What lies where a file was: nothing, a folder, a link out of the run or to itself, a pipe that nobody writes into.
PLACES: dict[str, Callable[[Path], None]] = {
    "delete": lambda path: None,
    "folder": Path.mkdir,
    "link": lambda path: path.symlink_to(("/dev/zero", "/nowhere", path.name)[len(path.name) % 3]),
    "pipe": os.mkfifo,
}


def _damage(folder: Path, case: Damaged) -> None:
    rng, path = random.Random(case.seed), folder / case.file
    content = path.read_bytes()
    if case.damage in PLACES:
        path.unlink()
        PLACES[case.damage](path)
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
    if case.damage == "twice":
        return content * 2
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
