"""A run: one folder with everything that training and evaluating it leave behind.

    config.yaml        the resolved configuration
    environment.json   versions, commit, hardware, seeds
    task.json          the task, its options and the fingerprint of each split
    problems/          the problems themselves, where the task was an object in memory
    extensions.json    how often, from which step to which, the run was extended
    best.json          the checkpoints compared on validation
    metrics.jsonl      one line per logged step, one per validation
    duels/             every duel, one JSON line each, in files of 64 MB
    checkpoints/       whole checkpoints only, each with the hashes of its files in manifest.json
    adapters/A, B      the trained policies, plain PEFT folders with a model card
    adapters.json      the hashes of their files
    summary.json       how the run ended
    evaluations/       one folder per task and split (`agon.runs.evaluations`)
    times.json         seconds of each stage, where a comparison was timed
    note.txt           what a reader of its figures must know, written by a person

Lines are written whole. On a resume, whatever is newer than the checkpoint is cut off, so that the
continued files have no gap and no line twice.
"""

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from agon.errors import InputError
from agon.game.methods import METHODS
from agon.runs.checkpoints import ASIDE, Choice, checkpoints_in, choose, damage, step_of
from agon.runs.duel_log import DuelLog
from agon.runs.evaluations import EvaluationFolder, find_evaluations, folder_name
from agon.runs.files import (
    finite,
    is_signed,
    keep_lines,
    read_json,
    signed,
    sync_file,
    sync_folder,
    whole_lines,
    write_json,
    write_text,
)
from agon.runs.manifest import ADDED, differences, seal, sealed

CONFIG = "config.yaml"
# The files of a run that are small and say all about it but its weights, duels and evaluations.
RECORDS = (
    *(CONFIG, "task.json", "summary.json", "metrics.jsonl", "environment.json", "times.json"),
    *("note.txt", "best.json"),
)
# What resuming, evaluating and comparing read of a run's records, and what each must be.
Kind = tuple[str, Callable[[Any], bool]]
WHOLE: Kind = ("a whole number of at least 0", lambda value: type(value) is int and value >= 0)
COUNT: Kind = ("a whole number of at least 1", lambda value: type(value) is int and value >= 1)
NUMBER: Kind = ("a number", lambda value: type(value) in (int, float) and math.isfinite(value))
TEXT: Kind = ("a text", lambda value: isinstance(value, str) and value != "")
SWITCH: Kind = ("true or false", lambda value: isinstance(value, bool))
MAPPING: Kind = ("a mapping", lambda value: isinstance(value, dict))
CONFIG_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("model", "method", "dialect", "judge", "sandbox", "adapter_dir"), TEXT),
    **dict.fromkeys(("prompts", "system_prompt", "adapters_from"), TEXT),
    **dict.fromkeys(("torch_threads", "summary_limit", "judge_workers", "max_completion_length"), COUNT),
    **dict.fromkeys(("num_generations", "per_device_train_batch_size"), COUNT),
    **dict.fromkeys(("learning_rate", "eval_temperature", "eval_top_p"), NUMBER),
    **dict.fromkeys(("bf16", "trust_remote_code"), SWITCH),
    **dict.fromkeys(("chat_template_kwargs", "model_init_kwargs"), MAPPING),
    "seed": WHOLE,
    "vllm_servers": ("a list", lambda value: isinstance(value, list)),
}
TASK_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("name", "spec", "path", "judge"), TEXT),
    **dict.fromkeys(("options", "sizes", "fingerprints"), MAPPING),
    "seed": WHOLE,
    "stored": SWITCH,
}
SUMMARY_KINDS: dict[str, Kind] = {"finished": SWITCH, "steps": WHOLE, "max_steps": WHOLE}
# The stages of a run that are timed, in their order.
STAGES = ("train", "validation", "test")


def is_run(folder: str | Path) -> bool:
    """Whether a folder holds a run."""
    return (Path(folder) / CONFIG).is_file()


class Run:
    """The folder of one run: the only reader and writer of its files."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.adapters = self.folder / "adapters"
        self.adapters_manifest = self.folder / "adapters.json"
        self.evaluations = self.folder / "evaluations"
        self.problems = self.folder / "problems"
        # Where a checkpoint is written before it is whole.
        self.staging = self.folder / "checkpoints" / "partial"
        self._duels: DuelLog | None = None

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    def duels(self, max_mb: int = 2048) -> DuelLog:
        """The run's duels, for writing or reading."""
        if self._duels is None:
            self._duels = DuelLog(self.folder / "duels", max_mb * 1024 * 1024)
        return self._duels

    # Records

    def read_config(self) -> dict[str, Any]:
        """The configuration the run was started with."""
        if not is_run(self.folder):
            raise InputError(f"'{self.folder}' is not a run: it has no {CONFIG}.")
        path = self.folder / CONFIG
        try:
            text = path.read_text("utf-8")
            found = yaml.safe_load(text)
        except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
            said = " ".join(str(error).split())
            raise InputError(f"{path} is not YAML ({said}): restore it, or start another run.") from error
        if not isinstance(found, dict) or not found:
            raise InputError(f"{path} holds no options: restore it, or start another run.")
        if not is_signed(text):
            raise InputError(
                f"{path} is not as the run wrote it: restore it, or remove its last line if you changed it on purpose."
            )
        return _checked(found, path, CONFIG_KINDS)

    def read_task(self) -> dict[str, Any]:
        """The task the run was started on, with the fingerprints of its splits."""
        path = self.folder / "task.json"
        return _checked(read_json(path), path, TASK_KINDS)

    def read_environment(self) -> dict[str, Any]:
        return read_json(self.folder / "environment.json")

    def read_summary(self) -> dict[str, Any]:
        """How the run ended; empty while it is going."""
        path = self.folder / "summary.json"
        return _checked(read_json(path), path, SUMMARY_KINDS)

    def read_times(self) -> dict[str, float]:
        """The seconds of each stage (`train`, `validation`, `test`), start of the process included."""
        return read_json(self.folder / "times.json")

    def read_note(self) -> str:
        path = self.folder / "note.txt"
        return " ".join(path.read_text().split()) if path.is_file() else ""

    def read_metrics(self) -> list[dict[str, Any]]:
        path = self.folder / "metrics.jsonl"
        lines = []
        for number, line in enumerate(whole_lines(path), start=1):
            try:
                lines.append({"step": 0, **json.loads(line)})
            except (ValueError, TypeError) as error:
                raise InputError(
                    f"Line {number} of {path} is not a line of metrics ({error}): restore or remove it."
                ) from error
        return lines

    def write_config(self, config: Mapping[str, Any]) -> None:
        write_text(self.folder / CONFIG, signed(yaml.safe_dump(dict(config), sort_keys=True)))

    def write_task(self, task: Mapping[str, Any]) -> None:
        write_json(self.folder / "task.json", task)

    def write_environment(self, environment: Mapping[str, Any]) -> None:
        write_json(self.folder / "environment.json", environment)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        write_json(self.folder / "summary.json", summary)

    def read_extensions(self) -> list[dict[str, int]]:
        """From which step to which the run was extended, first to last."""
        found = read_json(self.folder / "extensions.json").get("extensions", [])
        return found if isinstance(found, list) else []

    def write_extensions(self, extensions: Sequence[Mapping[str, int]]) -> None:
        write_json(self.folder / "extensions.json", {"extensions": [dict(each) for each in extensions]})

    def read_best(self) -> dict[str, Any]:
        """The checkpoints that were compared on validation; empty if none were."""
        return read_json(self.folder / "best.json")

    def write_best(self, found: Mapping[str, Any]) -> None:
        write_json(self.folder / "best.json", found)

    def write_times(self, times: Mapping[str, float]) -> None:
        write_json(self.folder / "times.json", times)

    def write_model_card(self, policy: str, card: str) -> None:
        write_text(self.adapters / policy / "README.md", card)

    def add_metrics(self, line: Mapping[str, Any]) -> None:
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(finite(line), allow_nan=False) + "\n")

    def seal_adapters(self) -> None:
        """Record the hashes of the trained policies, and wait until they are on the disk."""
        seal(self.adapters, self.adapters_manifest)

    def refuse_damaged_adapters(self) -> None:
        """Refuse trained policies that are not as they were sealed; what was added beside them is no matter."""
        found = (
            differences(self.adapters, self.adapters_manifest)
            if sealed(self.adapters, self.adapters_manifest)
            else ()
        )
        for difference in found:
            if not difference.endswith(ADDED):
                raise InputError(
                    f"The adapters of '{self.folder}' are not those that its training wrote ({difference}): "
                    "restore them."
                )

    def finished(self) -> bool:
        """Whether the run has made all its steps."""
        return bool(self.read_summary().get("finished"))

    # Evaluations

    def evaluation(self, task: str, split: str) -> EvaluationFolder:
        """The folder of one evaluation, whether it is there yet or not."""
        return EvaluationFolder(self.evaluations / folder_name(task, split))

    def evaluated(self, split: str) -> list[EvaluationFolder]:
        """The finished evaluations of a split, the one of the run's own task first."""
        own = folder_name(str(self.read_task().get("name", "")), split)
        return sorted(find_evaluations(self.evaluations, split), key=lambda found: found.folder.name != own)

    # Checkpoints and resuming

    def newest_checkpoint(self) -> str | None:
        """The newest whole checkpoint; none if the run was cut off before its first."""
        chosen = self.choose_checkpoint().folder
        return str(chosen) if chosen else None

    def choose_checkpoint(self) -> Choice:
        """The newest whole checkpoint and what was passed over; refuses if there are some and none is whole."""
        return choose(self._all_checkpoints(), self.sealed_since(), self.policies())

    def refuse_damaged(self, checkpoint: Path) -> None:
        """Refuse a checkpoint that was chosen by name and is not whole."""
        wrong = damage(checkpoint, self.sealed_since(), self.policies())
        if wrong:
            raise InputError(f"The checkpoint '{checkpoint}' is damaged ({wrong}): choose another one.")

    def sealed_since(self) -> int | None:
        """The step from which on checkpoints have manifests; None if the run never wrote any."""
        try:
            since = self.read_environment().get("sealed_since")
        except InputError:
            return None
        return since if type(since) is int else None

    def policies(self) -> tuple[str, ...]:
        """The policies that the run's method trains."""
        found = METHODS.get(str(self.read_config().get("method"))) if is_run(self.folder) else None
        return ("A", "B")[: found.policies] if found else ("A",)

    def newest_step(self) -> int:
        """The step of the newest checkpoint, 0 if there is none."""
        found = self._all_checkpoints()
        return step_of(found[-1]) if found else 0

    def checkpoints(self) -> dict[int, Path]:
        """Every whole checkpoint by its step."""
        return {step_of(path): path for path in self._all_checkpoints()}

    def check_resumable(self) -> None:
        """Refuse a folder whose records cannot be read, or whose checkpoints are all damaged."""
        self.read_task()
        self.read_summary()
        self.read_metrics()
        if self.choose_checkpoint().folder is None:
            self._refuse_stray_checkpoints()

    def publish_checkpoint(self, step: int, limit: int | None) -> None:
        """Move a finished checkpoint into its place, then drop the oldest beyond `limit`.

        By then everything that belongs to it is on the disk: its files, and the records up to its step.
        """
        place = self.staging.parent / f"checkpoint-{step}"
        self._sync_records()
        seal(self.staging / place.name)
        if place.exists():
            _set_aside(place)
        (self.staging / place.name).rename(place)
        sync_folder(place.parent)
        for old in place.parent.glob(f"{ASIDE}*"):
            shutil.rmtree(old, ignore_errors=True)
        if limit:
            for old in self._all_checkpoints()[:-limit]:
                # Under another name first: a kill in between must not leave half a checkpoint.
                shutil.rmtree(_set_aside(old), ignore_errors=True)

    def _sync_records(self) -> None:
        for path in (self.folder / "metrics.jsonl", *self.duels().files()):
            if path.is_file():
                sync_file(path)
        for folder in (self.duels().folder, self.folder):
            if folder.is_dir():
                sync_folder(folder)

    def rewind(self, step: int) -> None:
        """Cut off what was recorded after the checkpoint of this step."""
        try:
            keep_lines(self.folder / "metrics.jsonl", lambda line: json.loads(line)["step"] <= step)
            self.duels().rewind(step)
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as error:
            raise InputError(
                f"The metrics or duels of '{self.folder}' are broken ({error!r}): restore or remove them."
            ) from error
        shutil.rmtree(self.staging, ignore_errors=True)
        for newer in self._all_checkpoints():
            # Damaged, or of a course that is given up; it must not count as the newest of the new course.
            if step_of(newer) > step:
                _set_aside(newer)

    def start_over(self) -> None:
        """Remove the records of an earlier attempt that never reached a checkpoint, and of no other."""
        if self._all_checkpoints() or self.read_summary():
            raise InputError(
                f"'{self.folder}' already holds a run: resume it, or choose another output_dir for a new one."
            )
        self._refuse_stray_checkpoints()
        (self.folder / "metrics.jsonl").unlink(missing_ok=True)
        for folder in (self.folder / "duels", self.staging.parent):
            shutil.rmtree(folder, ignore_errors=True)
        self._duels = None

    def _refuse_stray_checkpoints(self) -> None:
        """Where there is no checkpoint but one by another name, starting over would be a loss."""
        for stray in sorted(self.staging.parent.glob("checkpoint-*")):
            raise InputError(
                f"'{self.folder}' has no checkpoint to go on from but '{stray.name}', which is no name of one: "
                "rename it to checkpoint-STEP to go on from it, or move it away to start over."
            )

    def _all_checkpoints(self) -> list[Path]:
        return checkpoints_in(self.staging.parent)


def _set_aside(checkpoint: Path) -> Path:
    aside = checkpoint.with_name(ASIDE + checkpoint.name)
    shutil.rmtree(aside, ignore_errors=True)
    return checkpoint.rename(aside)


def _checked(found: dict[str, Any], path: Path, kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """What was read of a file, if everything in it is what it must be."""
    for name, (allowed, accepts) in kinds.items():
        if found.get(name) is not None and not accepts(found[name]):
            raise InputError(f"{name} in {path} must be {allowed}, not {found[name]!r}.")
    return found
