"""How runs were trained, as tables: budget, training signal, GPU use, and what the learning rate did."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from agon.evaluate.compare import Entrant
from agon.reports.tables import Table, interval, number, percent
from agon.runs.differences import differences
from agon.runs.folder import STAGES
from agon.runs.records import Record

# Settings in which runs of several learning rates differ in any case.
EXPECTED = ("learning_rate", "output_dir")


def budget_table(records: Sequence[Record]) -> Table:
    """What each run was given to train with, and how many tokens it generated."""
    rows = tuple(
        (
            record.name,
            f"{record.rate:g}",
            f"{record.rollouts // record.config['num_generations']:,}",
            f"{record.rollouts:,}",
            str(record.summary.get("steps", len(record.steps))),
            str(record.config["max_completion_length"]),
            f"{record.sampled_tokens / 1e6:.2f} M",
            number(record.sampled_tokens / record.rollouts if record.rollouts else None),
            f"{record.steps[-1]['num_tokens'] / 1e6:.2f} M" if record.steps else "-",
        )
        for record in records
    )
    head = ("run", "rate", "problems", "rollouts", "steps", "cap", "tokens generated", "each", "with prompts")
    return Table(
        "Training budget",
        head,
        rows,
        (
            "rollouts: drafts and challenges together; steps: optimizer steps; cap: longest completion allowed, in "
            "tokens.",
            "tokens generated: all completions sampled in training (each: mean of one); with prompts: prompt tokens "
            "added. A policy that learns to write shorter answers generates fewer tokens for the same rollouts.",
        ),
    )


def signal_table(records: Sequence[Record]) -> Table:
    """How many useful rollouts each adapter got, and how good `grpo` was when its adapter had got as many."""
    single_policy = [record for record in records if record.method == "grpo"]
    rows = []
    for record in records:
        last = record.steps[-_quarter(record) :]
        useful = record.rollouts_with_signal
        then = accuracies_at(useful, single_policy)
        by_then = fmean(map(fmean, then)) if then else None
        rows.append(
            (
                record.name,
                str(len(record.signal())),
                f"{record.rollouts_each:,.0f}",
                f"{useful:,.0f}",
                percent(useful / record.rollouts_each),
                *(percent(_mean(last, f"{role}/correct")) for role in ("draft", "challenge")),
                *(percent(_mean(last, f"duel/{what}")) for what in ("converted", "corrupted")),
                percent(by_then) if record.method != "grpo" else "",
            )
        )
    head = ("run", "adapters", "rollouts each", "with signal", "share")
    right = ("drafts right", "challenges right", "conv.", "corr.", "grpo by then")
    return Table(
        "Training signal",
        (*head, *right),
        tuple(rows),
        (
            "with signal: rollouts of an adapter, mean over the adapters, in groups whose rewards were not all equal; "
            "the other groups change nothing.",
            "right, conv., corr.: in training, over the last quarter of the steps, in percent. grpo by then: right "
            "rollouts of the grpo runs, over the quarter of the steps that ends where their adapter had got as many "
            "rollouts with signal.",
        ),
    )


def accuracies_at(signal: float, records: Sequence[Record]) -> list[list[float]]:
    """For each single-policy run: its accuracy in the steps, a quarter of all, that end where its adapter had learned
    from so many rollouts."""
    found = []
    for record in records:
        reached = next((place for place, total in enumerate(record.signal()["A"]) if total >= signal), None)
        if reached is not None:
            start = max(0, reached + 1 - _quarter(record))
            found.append([step["draft/correct"] for step in record.steps[start : reached + 1]])
    return found


def accuracies_in_the_end(record: Record) -> list[float]:
    """The accuracy of drafts, in the last quarter of the steps."""
    return [step["draft/correct"] for step in record.steps[-_quarter(record) :]]


def _quarter(record: Record) -> int:
    """A quarter of a run's steps, at least one."""
    return max(1, len(record.steps) // 4)


def gpu_table(records: Sequence[Record]) -> Table:
    """Seconds of every stage, and how the steps used the GPU."""
    rows = [(*_seconds(record), *_steps(record)) for record in records]
    seconds = {stage: sum(record.times.get(stage, 0.0) for record in records) for stage in STAGES}
    hours = sum(seconds.values()) / 3600
    rows.append(("all", "", *(number(seconds[stage]) for stage in STAGES), f"{hours:.2f}", *[""] * 5))
    gpus = sorted({gpu for record in records if (gpu := record.environment.get("gpu"))})
    head = ("run", "start-up s", *(f"{stage} s" for stage in STAGES), "hours")
    return Table(
        f"GPU use{': ' if gpus else ''}{', '.join(gpus)}",
        (*head, "s per step", "sampling", "tokens/s", "GB training", "GB sampling"),
        tuple(rows),
        (
            "Seconds are those of whole processes; start-up: training before its first step; test: all test "
            "evaluations in one process.",
            "Where several runs share a GPU, it is in use for fewer hours than the runs add up to, and each run is "
            "slower than it would be alone.",
            "s per step: mean; sampling: its share of a step; tokens/s: generated while sampling, median over steps; "
            "GB: peak memory that PyTorch had allocated in the training process.",
        ),
    )


def _seconds(record: Record) -> tuple[str, ...]:
    times = [record.times.get(stage) for stage in STAGES]
    process, steps = record.times.get("train"), record.summary.get("seconds")
    start_up = process - steps if process is not None and steps is not None else None
    hours = sum(time for time in times if time is not None) / 3600
    return record.name, number(start_up), *(number(time) for time in times), f"{hours:.2f}"


def _steps(record: Record) -> tuple[str, ...]:
    steps = record.steps
    if not steps:
        return ("-",) * 5
    step, sampling = (fmean(line[f"time/{what}"] for line in steps) for what in ("step", "sampling"))
    peaks = [
        max((line[f"memory/{phase}"] for line in steps if f"memory/{phase}" in line), default=None)
        for phase in ("training", "sampling")
    ]
    return (
        number(step, 1),
        f"{sampling / step:.0%}",
        f"{median(line['time/tokens_per_second'] for line in steps):,.0f}",
        *(number(peak, 1) for peak in peaks),
    )


def rates_table(runs: Sequence[tuple[Record, Entrant | None]]) -> Table:
    """Runs that differ in their learning rate: validation where there is one, and how training began and ended."""
    rows = []
    for record, entrant in runs:
        quarter = _quarter(record)
        ends = record.steps[:quarter], record.steps[-quarter:]
        figures = entrant.result["arms"][entrant.arm] if entrant else {}
        rows.append(
            (
                f"{record.rate:g}",
                record.name,
                percent(figures.get("pass@1")),
                interval(figures["ci95"]) if figures else "",
                *(percent(_mean(end, "draft/correct")) for end in ends),
                *(number(_mean(end, "draft/length")) for end in ends),
                percent(_mean(ends[1], "draft/well_formed")),
                percent(_mean(ends[1], "draft/dropped_groups")),
            )
        )
    first = runs[0][1].result if runs[0][1] else {}
    where = f"; validation: {first['n']} problems, samples per problem: {first['samples']}" if first else ""
    head = (
        "rate",
        "run",
        "validation",
        "95% interval",
        "right, 1st",
        "right, last",
        "length, 1st",
        "length, last",
    )
    return Table(
        f"Learning rates{where}",
        (*head, "well formed, last", "no signal, last"),
        tuple(rows),
        (
            "validation: pass@1 of the headline; the other columns are of training, over the first and the last "
            "quarter of the steps, in percent except length. no signal: problems whose rollouts all got the same "
            "reward.",
            *_other_settings([record for record, _ in runs]),
        ),
    )


def _other_settings(records: Sequence[Record]) -> list[str]:
    """What else differs between the runs: an effect may not be the learning rate's."""
    plain = [{key: value for key, value in one.config.items() if key not in EXPECTED} for one in records]
    changed = {words.split(" is ")[0] for other in plain[1:] for words in differences(plain[0], other)}
    return (
        [f"Settings that differ besides the learning rate: {', '.join(sorted(changed))}."] if changed else []
    )


def _mean(steps: Sequence[Mapping[str, Any]], what: str) -> float | None:
    """The mean of a figure over steps; None for one that these runs do not have."""
    return fmean(step[what] for step in steps) if steps and what in steps[0] else None
