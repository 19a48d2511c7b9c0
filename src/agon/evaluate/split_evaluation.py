"""One split of a task, played for every arm, kept sample by sample, summed up.

Played again with the same settings, only what is missing is sampled; with other settings the folder
is refused. A sample's seed is derived from the evaluation's seed, the task, the problem, the play and
the sample's number alone, so an evaluation that was killed and repeated ends with the same result.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agon.arena import Arena
from agon.engines.protocol import Sampling, derive_seed
from agon.evaluate.arms import Arm, Play, plays_of, without_draft
from agon.evaluate.from_duels import sample_from_duels
from agon.evaluate.metrics import Figures, arm_figures, complementarity, grid
from agon.game.problem import Problem
from agon.runs.evaluations import EvaluationFolder
from agon.runs.samples import Sample, SampleFile, SampleKey, Turn
from agon.tasks import Task

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Settings:
    """What the samples of an evaluation depend on."""

    task: str
    split: str
    split_fingerprint: str
    model: str
    weights: Mapping[str, str]
    decoding: Mapping[str, Any]
    dialect: str
    prompts: str
    summary_limit: int | None
    judge: str
    engine: str
    seed: int

    def refuse_others(self, folder: Path) -> None:
        """Refuse a folder that was begun with other settings."""
        EvaluationFolder(folder).refuse_settings(asdict(self))

    def keep(self, folder: Path) -> None:
        """Write the settings down, or refuse a folder that was begun with others."""
        EvaluationFolder(folder).keep_settings(asdict(self))


@dataclass(frozen=True)
class SplitEvaluation:
    """The problems, the arms and the number of samples of one evaluation, and where it is kept."""

    problems: Sequence[Problem]
    arms: Sequence[Arm]
    samples: int
    sampling: Sampling
    versions: Mapping[str, int]
    seed: int
    folder: Path
    batch: int = 64  # turns between two writes to disk

    def missing_rollouts(self) -> int:
        """Rollouts that are still to be sampled; refused where they could not be added to what is there."""
        file = self._file()
        rollouts = sum(play.rollouts * len(missing) for play, missing in self._missing(file))
        if rollouts:
            file.refuse_packed()
        return rollouts

    def kept(self) -> dict[SampleKey, Sample]:
        """The samples that are there."""
        return self._file().samples

    def play(self, arena: Arena, progress: Progress | None = None) -> dict[SampleKey, Sample]:
        """Sample what is missing and return everything."""
        file = self._file()
        done, total = 0, self.missing_rollouts()
        for play, missing in self._missing(file):
            before = done

            def report(now: int, _: int, before: int = before) -> None:
                if progress:
                    progress(before + now, total)

            played = arena.play(
                [problem for problem, _ in missing],
                play.method,
                drafts=play.drafts,
                sampling=self.sampling,
                versions=self.versions,
                seed=[derive_seed(self.seed, play.name, number) for _, number in missing],
                players=(play.drafter, play.challenger),
                progress=report,
            )
            file.append(
                [
                    sample_from_duels(play.name, number, play.method, duels, arena.chat)
                    for (_, number), duels in zip(missing, played, strict=True)
                ]
            )
            done += play.rollouts * len(missing)
        return file.samples

    def figures(self, played: Mapping[SampleKey, Sample]) -> Figures:
        """The figures of every arm, and how the two policies differ."""
        ids = [problem.id for problem in self.problems]
        grids = {arm.name: grid(arm, ids, self.samples, played) for arm in self.arms}
        plays = plays_of(self.arms)
        arms = {}
        for arm in self.arms:
            separate = without_draft(arm, plays)
            alone = None
            if separate is not None:
                alone = [
                    [played[separate.name, problem, number].drafts[0] for number in range(self.samples)]
                    for problem in ids
                ]
            arms[arm.name] = arm_figures(grids[arm.name], alone)
        figures: Figures = {"arms": arms}
        if "A" in grids and "B" in grids:
            figures["complementarity"] = complementarity(grids["A"], grids["B"])
        return figures

    def _file(self) -> SampleFile:
        return EvaluationFolder(self.folder).sample_file()

    def _missing(self, file: SampleFile) -> Iterator[tuple[Play, list[Turn]]]:
        """What is missing, in batches whose borders do not depend on what is there already.

        All samples of a play share its batches, so that an engine with many rows drains once per batch
        and not once per sample.
        """
        turns = [(problem, number) for number in range(self.samples) for problem in self.problems]
        for play in plays_of(self.arms):
            for start in range(0, len(turns), self.batch):
                missing = file.missing(play.name, turns[start : start + self.batch])
                if missing:
                    yield play, missing


def choose(arms: Mapping[str, Figures], candidates: Sequence[str]) -> str:
    """The candidate with the best pass@1; the first of equals."""
    return max(candidates, key=lambda name: arms[name]["pass@1"])


def first(task: Task, split: str, limit: int | None) -> Task:
    """The task with no more than `limit` problems in a split."""
    problems = task.problems(split)
    if limit is None or limit >= len(problems):
        return task
    return replace(task, splits={**task.splits, split: problems[:limit]})
