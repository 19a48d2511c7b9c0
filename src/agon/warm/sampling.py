"""What a warm-up samples: solutions, summaries in the base's own words, and the evaluations before and after.

Everything is kept as it comes and played once: the same command after an interruption samples what is missing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from agon.arena import Arena
from agon.engines.protocol import Request, Sampling, derive_seed
from agon.errors import InputError
from agon.evaluate.arms import CONTROLS, Arm
from agon.evaluate.load import LoadedTarget
from agon.evaluate.metrics import Figures, arm_figures, correctness, grid
from agon.evaluate.split_evaluation import Progress, Settings, SplitEvaluation, first
from agon.evaluate.target import TEMPERATURE, TOP_P
from agon.game.dialects import Dialect
from agon.policies.pair import BASE
from agon.runs.files import keep_lines, whole_lines
from agon.runs.lock import owned
from agon.runs.samples import Sample, SampleKey
from agon.tasks import Task
from agon.warm.examples import ROOM, SUMMARY_TOKENS, Solution, accepted, answer_of, summary_prompt

ZERO_SHOT, SELF_CASCADE = CONTROLS[:2]


@dataclass(frozen=True)
class Split:
    """A part of a task that is played, how often, how, and where it is kept."""

    task: Task
    split: str
    limit: int | None
    samples: int
    sampling: Sampling
    seed: int
    folder: Path
    judge: str | None = None


@dataclass(frozen=True)
class Stage:
    """How a model writes in a dialect: figures of zero-shot and of its cascade with itself."""

    dialect: str
    arms: Mapping[str, Figures]
    correct: Mapping[str, np.ndarray]

    def to_dict(self) -> dict[str, Any]:
        alone, cascade = self.arms[ZERO_SHOT.name], self.arms[SELF_CASCADE.name]
        return {
            "dialect": self.dialect,
            "zero_shot": alone["pass@1"],
            "zero_shot_ci95": alone["ci95"],
            "cascade": cascade["pass@1"],
            "cascade_ci95": cascade["ci95"],
            "well_formed": 1 - alone["malformed"],
            "truncated": alone["truncated"],
            "length": alone["final_length"],
            "leaked": cascade["leaked"],
            "converted": cascade["converted"],
            "corrupted": cascade["corrupted"],
        }


def evaluated(loaded: LoadedTarget, part: Split, progress: Progress) -> Stage:
    """Zero-shot and self-cascade of a model on a split, in the dialect of its chat."""
    arms = (ZERO_SHOT, SELF_CASCADE)
    played = _played(loaded, part, arms, progress)
    ids = [problem.id for problem in first(part.task, part.split, part.limit).problems(part.split)]
    grids = {arm.name: grid(arm, ids, part.samples, played) for arm in arms}
    return Stage(
        loaded.chat.dialect.name,
        {name: arm_figures(answers) for name, answers in grids.items()},
        {name: correctness(answers) for name, answers in grids.items()},
    )


def solutions(loaded: LoadedTarget, part: Split, progress: Progress) -> list[Solution]:
    """Attempts of the base at problems in its own dialect, and what it writes after reading each of them, judged."""
    played = _played(loaded, part, (SELF_CASCADE,), progress)
    found = []
    for problem in first(part.task, part.split, part.limit).problems(part.split):
        for number in range(part.samples):
            sample = played[SELF_CASCADE.name, problem.id, number]
            for attempt in (*sample.drafts, *sample.finals):
                usable = attempt.well_formed and not attempt.truncated
                short = attempt.length <= ROOM * part.sampling.max_tokens
                found.append(
                    Solution(problem, number, attempt.text, attempt.correct, usable, short, attempt.shown)
                )
    return found


def _played(
    loaded: LoadedTarget, part: Split, arms: Sequence[Arm], progress: Progress
) -> dict[SampleKey, Sample]:
    """Play what is missing of a split; a folder that was begun with other settings is refused."""
    target, task = loaded.target, part.task
    judge = part.judge or task.judge
    settings = Settings(
        task=task.name,
        split=part.split,
        split_fingerprint=task.fingerprint(part.split),
        model=target.model,
        weights=loaded.fingerprints(),
        decoding=asdict(part.sampling),
        dialect=loaded.chat.dialect.name,
        prompts=loaded.prompts(),
        summary_limit=None,
        judge=judge,
        engine=loaded.engine.capabilities.name,
        seed=part.seed,
    )
    evaluation = SplitEvaluation(
        problems=first(task, part.split, part.limit).problems(part.split),
        arms=arms,
        samples=part.samples,
        sampling=part.sampling,
        versions=target.versions,
        seed=part.seed,
        folder=part.folder,
        batch=loaded.batch,
    )
    settings.refuse_others(part.folder)
    settings.keep(part.folder)
    if not evaluation.missing_rollouts():
        return evaluation.kept()
    with owned(part.folder, "evaluation"), target.judging(task).open_judge(judge) as pool:
        return evaluation.play(Arena(loaded.engine, loaded.chat, pool), progress)


def summaries(
    loaded: LoadedTarget,
    found: Sequence[Solution],
    kind: Dialect,
    seed: int,
    tries: int,
    file: Path,
    progress: Progress,
) -> dict[str, str]:
    """A summary of each solution in the base's own words: the last of at most `tries`, an accepted one first."""
    known = _read(file)
    keep_lines(file, lambda line: True)  # a line that was cut off
    own = loaded.chat.dialect.name
    for number in range(tries):
        missing = [
            each
            for each in found
            if (each.key, number) not in known
            and not any(
                accepted(known[each.key, before], each, answer_of(each, own) or "")
                for before in range(number)
                if (each.key, before) in known
            )
        ]
        for start in range(0, len(missing), loaded.batch):
            part = missing[start : start + loaded.batch]
            fresh = _asked(loaded, part, kind, seed, number)
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a", encoding="utf-8") as lines:
                for key, text in fresh.items():
                    lines.write(json.dumps({"solution": key, "try": number, "text": text}) + "\n")
            known |= {(key, number): text for key, text in fresh.items()}
            progress(start + len(part), len(missing))
    return {key: text for (key, number), text in sorted(known.items(), key=lambda item: item[0][1])}


def _read(file: Path) -> dict[tuple[str, int], str]:
    known = {}
    for number, line in enumerate(whole_lines(file), start=1):
        try:
            solution, tried, text = itemgetter("solution", "try", "text")(json.loads(line))
            if (type(solution), type(tried), type(text)) != (str, int, str):
                raise TypeError("a value of another kind")
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"Line {number} of {file} is not a summary ({type(error).__name__}: {error}): remove the line, and the "
                "same command goes on."
            ) from error
        known[solution, tried] = text
    return known


def _asked(
    loaded: LoadedTarget,
    part: Sequence[Solution],
    kind: Dialect,
    seed: int,
    number: int,
) -> dict[str, str]:
    """One summary each; one that was cut off counts as none."""
    prompts = loaded.chat.encode_all([summary_prompt(each, kind) for each in part])
    short = Sampling(SUMMARY_TOKENS, TEMPERATURE, TOP_P)
    loaded.engine.submit(
        [
            Request(each.key, prompt, BASE, 0, short, derive_seed(seed, "summary", each.key, number))
            for each, prompt in zip(part, prompts, strict=True)
        ]
    )
    said: dict[str, str] = {}
    while len(said) < len(part):
        finished = loaded.engine.collect()
        if not finished:
            raise RuntimeError(f"The engine returned {len(said)} of {len(part)} summaries and stopped.")
        for done in finished:
            rollout = done.rollout
            said[done.request.key] = "" if rollout.truncated else loaded.chat.decode(rollout.token_ids)
    return {each.key: said[each.key] for each in part}
