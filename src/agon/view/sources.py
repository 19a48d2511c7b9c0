"""Where duels to look at come from: the log of a training, or the samples of an evaluation, both as duels.

A sample of an evaluation holds several attempts; each answer after a draft is shown as one duel, and an
answer without a draft as a duel without a challenge.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from agon.errors import InputError
from agon.game.dialects import DIALECTS
from agon.game.duel import Duel, Entry
from agon.game.methods import METHODS, Method
from agon.game.problem import Problem
from agon.game.rollout import Rollout
from agon.game.transcript import leaks
from agon.game.verdict import Verdict
from agon.runs.evaluations import EvaluationFolder
from agon.runs.files import refuse_unless_file
from agon.runs.folder import Run, is_run
from agon.runs.lean import evaluations_in
from agon.runs.places import unpack
from agon.runs.samples import Attempt, Sample

TRAINING = "training"


@dataclass(frozen=True)
class Seen:
    """A duel as it is shown; `play` names the arm of an evaluation, and is empty in training."""

    duel: Duel
    play: str = ""
    leaked: bool = False


@dataclass(frozen=True)
class Source:
    """One series of duels that may still grow."""

    name: str
    kind: Literal["training", "evaluation"]
    dialect: str | None
    method: Method | None = None
    run: Run | None = None
    evaluation: EvaluationFolder | None = None
    task: str = ""

    @property
    def folder(self) -> Path:
        found = self.evaluation.folder if self.evaluation else self.run.folder if self.run else Path()
        return found.resolve()

    def files(self, cache: Path | None) -> list[Path]:
        """The files of lines, in the order they were written; a packed one is unpacked into the cache."""
        if self.evaluation is None:
            return [path for path in self.run.duels().files() if path.is_file()] if self.run else []
        plain, packed = self.evaluation.sample_places()
        if plain is not None:
            return [plain]
        if packed is None or cache is None:
            return []
        target = cache / f"unpacked-{packed.stat().st_mtime_ns}.jsonl"
        if not target.exists():
            unpack(packed, target)
        return [target]

    def read(self, line: bytes) -> list[Seen]:
        """The duels of one line. Raises what a broken line makes `json` or a record raise."""
        if self.evaluation is not None:
            found = duels_of(Sample.from_json(line.decode()), self.task)
            for seen in found:
                check_kinds(seen.duel)
            return found
        duel = Duel.from_json(line.decode())
        check_kinds(duel)
        return [Seen(duel, leaked=duel.shown is not None and leaked(duel.shown, duel.problem.answer))]


def leaked(shown: str, gold: str) -> bool:
    """As `leaks` says; a third of the time of an index is spent there, and most texts need less.

    Without TeX and thousands separators, a gold of one word is there as written or not at all.
    """
    plain = gold.isascii() and gold.isalnum() and "\\" not in shown and "," not in shown
    if plain and gold.lower() not in shown.lower():
        return False
    return leaks(shown, gold)


def check_kinds(duel: Duel) -> None:
    """Raise ValueError where a value of a line is of another kind than what is shown of it."""
    texts: list[Any] = [duel.problem.id, duel.problem.prompt, duel.problem.answer or "", duel.shown or ""]
    numbers: list[Any] = [duel.step, duel.index, duel.opponent or 0]
    for entry in (duel.draft, duel.challenge):
        if entry is not None:
            rollout, verdict = entry.rollout, entry.verdict
            texts += [
                rollout.text,
                rollout.policy,
                rollout.finish_reason,
                verdict.detail or "",
                verdict.reason,
            ]
            numbers += [rollout.length, rollout.version, rollout.prompt_length or 0]
            numbers += [entry.reward, entry.advantage or 0, verdict.seconds or 0]
            dict(entry.terms or {})
    if not all(isinstance(text, str) for text in texts) or not all(
        isinstance(number, int | float) for number in numbers
    ):
        raise ValueError("a value of another kind")


BROKEN = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)


def duels_of(sample: Sample, task: str) -> list[Seen]:
    """The attempts of a sample as duels; the number of the sample stands where training has the step."""
    problem = Problem(id=sample.problem, prompt="", task=task)
    base = Duel(problem, _entry(sample.drafts[0]), step=sample.number)
    if not sample.finals:
        return [
            Seen(replace(base, draft=_entry(draft), index=index), sample.play)
            for index, draft in enumerate(sample.drafts)
        ]
    return [
        Seen(
            replace(
                base,
                draft=_entry(sample.drafts[min(final.read or 0, len(sample.drafts) - 1)]),
                index=index,
                shown=final.shown,
                challenge=_entry(final),
            ),
            sample.play,
            bool(final.leaked),
        )
        for index, final in enumerate(sample.finals)
    ]


def _entry(attempt: Attempt) -> Entry:
    rollout = Rollout(
        attempt.text,
        attempt.length,
        "length" if attempt.truncated else "stop",
        attempt.policy,
        version=0,
        prompt_length=attempt.prompt_length,
    )
    verdict = Verdict(bool(attempt.correct), attempt.reason)  # type: ignore[arg-type]
    return Entry(rollout, verdict, bool(attempt.well_formed))


@dataclass(frozen=True)
class Opened:
    """A run, or a folder of evaluations, with its sources."""

    name: str
    folder: Path

    @property
    def run(self) -> Run:
        return Run(self.folder)

    @property
    def trained(self) -> bool:
        return is_run(self.folder)

    @cached_property
    def config(self) -> dict[str, Any]:
        return self.run.read_config() if self.trained else {}

    @property
    def method(self) -> Method | None:
        return METHODS.get(str(self.config.get("method")))

    def sources(self) -> dict[str, Source]:
        """The sources by name, the training first. Read anew each time: an evaluation may have begun."""
        found: list[Source] = []
        for path in self.run.duels().files():
            if path.is_symlink() or path.exists():  # not one that was removed meanwhile
                refuse_unless_file(path)
        # A copy without its duels has nothing to list; a run that is going may have none yet.
        if self.trained and (self.run.duels().files() or not self.run.finished()):
            found.append(
                Source(TRAINING, "training", _known(self.config.get("dialect")), self.method, self.run)
            )
        for folder in evaluations_in(self.folder):
            evaluation = EvaluationFolder(folder)
            settings = evaluation.read_settings()
            found.append(
                Source(
                    folder.name,
                    "evaluation",
                    _known(settings.get("dialect")),
                    evaluation=evaluation,
                    task=str(settings.get("task", "")),
                )
            )
        return {source.name: source for source in found}


def _known(dialect: Any) -> str | None:
    return dialect if dialect in DIALECTS else None


def open_runs(folders: Sequence[str | Path]) -> list[Opened]:
    """The runs to look at, with names that tell them apart."""
    opened: list[Opened] = []
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise InputError(f"There is no run '{folder}': expected the folder of a run.")
        if not is_run(folder) and not any(evaluations_in(folder)):
            raise InputError(
                f"'{folder}' holds neither a run nor evaluations: give a folder that `agon train` or "
                "`agon eval --output` wrote."
            )
        name, number = folder.resolve().name, 1
        while name in {run.name for run in opened}:
            number += 1
            name = f"{folder.resolve().name} ({number})"
        opened.append(Opened(name, folder))
    return opened
