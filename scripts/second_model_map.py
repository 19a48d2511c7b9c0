"""What a second model was worth in every setting that was measured: the tables of docs/second-model.md.

    python scripts/second_model_map.py [NAME=FOLDER ...] [--task TASK] [--split validation]

Without settings, those that are committed. For every method of a setting, against `grpo` on the same problems:

- at equal generation: headline against headline, both trained on as many rollouts;
- at equal inference: the headline against the majority of two answers of `grpo`, which cost about as many tokens;
  either of the two, chosen by a verifier, is the ceiling of what two answers can give;
- at equal signal, from the training: how often a policy is right by itself in the last quarter of the steps, against
  `grpo` over as many steps when its adapter had learned from as many rollouts. The problems are others, so the
  interval is over steps.

And where the headline's direction lies in the copying trap: p, how often drafts are right; q, how often the challenger
is right alone; how often it gives the draft's answer, by whether that was right. The band in which competition should
help is q between 2p / (3 - p) and p. Intervals: bootstrap over problems, so they hold for these training runs.
"""

import argparse
import glob
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from scipy import stats

from agon.evaluate.compare import HEADLINE, Entrant, NoEvaluationError, enter_arms, refuse_unlike
from agon.evaluate.draft_effects import DraftEffects, draft_effects, exchanges
from agon.evaluate.intervals import contrast
from agon.judges.pool import JudgePool
from agon.lab.worlds.copying_model import threshold
from agon.reports.tables import Table, interval, markdown, percent, points
from agon.reports.training_tables import accuracies_at, accuracies_in_the_end
from agon.runs.evaluations import EvaluationFolder
from agon.runs.folder import Run, is_run
from agon.runs.records import Record, read_record

SETTINGS = {
    "Qwen2.5-Coder-0.5B, GSM8K, boxed, 3e-4": ("docs/results/qwen2.5-coder-0.5b/runs/*-lr3e-4", "gsm8k"),
    "Qwen2.5-Coder-0.5B, GSM8K, boxed, 1e-4": ("docs/results/*/*/*-lr1e-4", "gsm8k"),
    "Qwen2.5-Coder-0.5B warmed, GSM8K, think": ("docs/results/second-model/[ab]/*-s?", "gsm8k"),
    "The embedded default, sums": ("docs/results/embedded-default/runs/*-s?", "gym:chain_sum"),
}
METHODS = ("self-refine", "coop", "agon", "coop-pooled", "agon-pooled", "agon-paired", "hidden", "shuffled")
HEAD = ("method", "seeds", "pass@1", "- grpo", "95%", "- its majority", "95%", "tokens")
SIGNAL_HEAD = ("method", "signal", "right alone", "grpo by then", "points", "95%")
TRAP_HEAD = ("method", "p", "q", "band from", "copied right", "alone", "copied wrong", "alone")


@dataclass(frozen=True)
class Measured:
    """A run: how it was trained, all arms of its evaluation, and what its headline's challenger did with the drafts."""

    record: Record
    arms: dict[str, Entrant]
    effects: DraftEffects | None

    @property
    def headline(self) -> Entrant:
        return self.arms[HEADLINE]

    @property
    def tokens(self) -> float:
        return float(self.headline.result["arms"][self.headline.arm]["tokens"]["total"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("settings", nargs="*", help="NAME=FOLDER: runs of one setting, with * in the folder")
    parser.add_argument("--task", default="gsm8k", help="of the settings that are named (gsm8k)")
    parser.add_argument("--split", default="test", choices=("validation", "test"))
    arguments = parser.parse_args()
    named = {
        name: (pattern, arguments.task)
        for name, _, pattern in (each.partition("=") for each in arguments.settings)
    }
    with JudgePool("math") as pool:
        for name, (pattern, task) in (named or SETTINGS).items():
            runs = read(pattern, task, arguments.split, pool)
            print(markdown(worth(name, runs)), end="\n\n")
            print(markdown(equal_signal(name, runs)), end="\n\n")
            print(markdown(trap(name, runs)), end="\n\n")


def read(pattern: str, task: str, split: str, pool: JudgePool) -> dict[str, list[Measured]]:
    """The runs of a setting by method; those without an evaluation are left out."""
    found: dict[str, list[Measured]] = defaultdict(list)
    for folder in sorted(filter(is_run, glob.glob(pattern))):
        try:
            arms = enter_arms(folder, task, split)
        except NoEvaluationError:
            continue
        evaluation = Run(folder).evaluation(task, split)
        found[arms[HEADLINE].method].append(
            Measured(read_record(Path(folder)), arms, reading(evaluation, arms[HEADLINE], pool))
        )
    if "grpo" not in found:
        raise SystemExit(
            f"No evaluated run of grpo in {pattern}: there is nothing to hold the others against."
        )
    refuse_unlike([run.headline for runs in found.values() for run in runs])
    return found


def reading(evaluation: EvaluationFolder, headline: Entrant, pool: JudgePool) -> DraftEffects | None:
    """What became of the drafts in the headline's direction; None for a method that reads none."""
    played = exchanges(headline.result, evaluation.read_samples()).get(headline.arm)
    return draft_effects(played, evaluation.read_settings()["dialect"], pool) if played else None


def worth(name: str, runs: dict[str, list[Measured]]) -> Table:
    alone = side(runs["grpo"])
    majority = np.concatenate([run.arms["majority"].correct for run in runs["grpo"]], axis=1)
    either = fmean(run.headline.result["arms"]["majority"]["either"] for run in runs["grpo"])
    rows: list[tuple[str, ...]] = [
        ("grpo", str(len(runs["grpo"])), percent(float(alone.mean())), "", "", "", "", tokens(runs["grpo"]))
    ]
    for method in (method for method in METHODS if method in runs):
        correct = side(runs[method])
        against = [contrast(correct, other) for other in (alone, majority)]
        cells = [cell for one in against for cell in (points(one.difference), interval(one.interval))]
        rows.append(
            (method, str(len(runs[method])), percent(float(correct.mean())), *cells, tokens(runs[method]))
        )
    note = (
        f"grpo's majority of two: {percent(float(majority.mean()))}; either of two, if a verifier chooses: "
        f"{percent(either)}. Tokens are generated ones of one answer."
    )
    return Table(name, HEAD, tuple(rows), (note,))


def equal_signal(name: str, runs: dict[str, list[Measured]]) -> Table:
    alone = [run.record for run in runs["grpo"]]
    whole = fmean(record.rollouts_with_signal for record in alone)
    rows = []
    for method in (method for method in METHODS if method in runs):
        records = [run.record for run in runs[method]]
        signal = fmean(record.rollouts_with_signal for record in records)
        right = np.concatenate([accuracies_in_the_end(record) for record in records])
        then = np.array([each for steps in accuracies_at(signal, alone) for each in steps])
        cells = ["", "", ""]
        if len(then) > 1:
            apart = stats.ttest_ind(right, then, equal_var=False).confidence_interval(0.95)
            difference = float(right.mean() - then.mean())
            cells = [percent(float(then.mean())), points(difference), interval((apart.low, apart.high))]
        rows.append((method, percent(signal / whole), percent(float(right.mean())), *cells))
    note = (
        "signal: rollouts that an adapter learned from, in percent of grpo's. right alone: drafts in the last quarter "
        "of the steps; grpo by then: over the quarter that ends where its adapter had learned from as many. "
        "95%: over steps."
    )
    return Table(f"{name}: at equal signal, in training", SIGNAL_HEAD, tuple(rows), (note,))


def trap(name: str, runs: dict[str, list[Measured]]) -> Table:
    rows = []
    for method in (method for method in METHODS if method in runs):
        read_by = [run for run in runs[method] if run.effects is not None]
        if not read_by:
            continue
        drafter, challenger = zip(*(run.headline.arm.split("->") for run in read_by), strict=True)
        p = fmean(
            float(run.arms[policy].correct.mean()) for run, policy in zip(read_by, drafter, strict=True)
        )
        q = fmean(
            float(run.arms[policy].correct.mean()) for run, policy in zip(read_by, challenger, strict=True)
        )
        effects = [run.effects for run in read_by if run.effects is not None]
        shares = [
            mean([getattr(each, share) for each in effects])
            for share in ("copied_right", "alone_after_right", "copied_wrong", "alone_after_wrong")
        ]
        rows.append((method, *map(percent, (p, q, threshold(p), *shares))))
    note = (
        "The headline's direction, mean over seeds. copied: finals with the draft's answer, of right and of wrong "
        "drafts; alone: how often the same policy gives that answer without reading."
    )
    return Table(f"{name}: drafts and copying", TRAP_HEAD, tuple(rows), (note,))


def side(runs: Sequence[Measured]) -> np.ndarray:
    return np.concatenate([run.headline.correct for run in runs], axis=1)


def tokens(runs: Sequence[Measured]) -> str:
    return f"{fmean(run.tokens for run in runs):.0f}"


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


if __name__ == "__main__":
    main()
