"""The tables of a report over many runs: every arm, budgets, use of the GPU, learning rates, transitions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from agon.evaluate.compare import Entrant, refuse_unlike
from agon.evaluate.evaluation import differences
from agon.evaluate.statistics import contrast
from agon.evaluate.tables import LEGEND, RATES, Table, interval, number, p_value, percent
from agon.evaluate.transitions import Transitions
from agon.lab.records import Record

CONTROLS = ("zero-shot", "self-cascade", "moa")
STAGES = ("train", "validation", "test")
SHARES = ("copied right", "copied wrong", "put right")
# Settings in which runs differ without training differently.
ASIDE = ("learning_rate", "output_dir")


def methods_table(entrants: Sequence[Entrant], base: Entrant | None = None) -> Table:
    """Every arm of every run, and once the controls over the bare base: those of `base`, else of the first run."""
    refuse_unlike([*([base] if base else []), *entrants])
    first = (base or entrants[0]).result
    rows = [
        _arm(f"{name} (base)", "", figures)
        for name, figures in first["arms"].items()
        if base is not None or name in CONTROLS
    ]
    for entrant in entrants:
        arms = {name: figures for name, figures in entrant.result["arms"].items() if name not in CONTROLS}
        rows.append(_arm(f"**{entrant.name}**", entrant.arm, arms.pop(entrant.arm)))
        rows += [_arm("", name, figures) for name, figures in arms.items()]
    title = (
        f"{first['task']} {first['split']}: {first['n']} problems, samples per problem: {first['samples']}"
    )
    head = ("run", "arm", "pass@1", "95% interval", "length", "tokens", *(title for title, _ in RATES))
    return Table(
        title, head, tuple(rows), ("The first line of a run is its headline, chosen on validation.", LEGEND)
    )


def _arm(label: str, arm: str, figures: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        label,
        arm,
        percent(figures["pass@1"]),
        interval(figures["ci95"]),
        number(figures["final_length"]),
        number(figures["tokens"]["total"]),
        *(percent(figures.get(name)) for _, name in RATES),
    )


def against_zero_shot(trained: Entrant, zero_shot: Entrant) -> str:
    """A run's headline against the bare base on the same problems, as a line of Markdown."""
    found = contrast(trained.correct, zero_shot.correct)
    low, high = found.interval
    return (
        f"- {trained.name} {trained.arm} - zero-shot: {100 * found.difference:+.1f} points "
        f"[{100 * low:.1f}, {100 * high:.1f}], only the one or the other right: {found.only_first}/"
        f"{found.only_second}, {found.test} p {_equals(found.p)}"
    )


def _equals(p: float) -> str:
    return f"= {p:.1e}" if p >= 1e-300 else p_value(p)


def budget_table(records: Sequence[Record]) -> Table:
    """What each run was given, and what it wrote with it."""
    rows = tuple(
        (
            record.name,
            f"{record.rate:g}",
            f"{record.rollouts // record.config['num_generations']:,}",
            f"{record.rollouts:,}",
            str(record.summary.get("steps", len(record.steps))),
            str(record.config["max_completion_length"]),
            f"{record.written / 1e6:.2f} M",
            number(record.written / record.rollouts if record.rollouts else None),
            f"{record.steps[-1]['num_tokens'] / 1e6:.2f} M" if record.steps else "-",
        )
        for record in records
    )
    head = ("run", "rate", "problems", "rollouts", "steps", "cap", "tokens written", "each", "with prompts")
    return Table(
        "Training budget",
        head,
        rows,
        (
            "rollouts: drafts and challenges together; steps: of the optimizer; cap: most tokens of a completion.",
            "tokens written: all completions sampled in training (each: mean of one); with prompts: and what was "
            "read for them. A policy that learns to be brief writes less for the same rollouts.",
        ),
    )


def signal_table(records: Sequence[Record]) -> Table:
    """How much each adapter had to learn from, and where `grpo` stood when its one adapter had had as much."""
    alone = [record for record in records if record.method == "grpo"]
    rows = []
    for record in records:
        signal = record.signal()
        last = record.steps[-max(1, len(record.steps) // 4) :]
        had = fmean(sums[-1] for sums in signal.values())
        rows.append(
            (
                record.name,
                str(len(signal)),
                f"{record.rollouts / len(signal):,.0f}",
                f"{had:,.0f}",
                percent(had * len(signal) / record.rollouts),
                *(percent(_mean(last, f"{role}/correct")) for role in ("draft", "challenge")),
                *(percent(_mean(last, f"duel/{what}")) for what in ("converted", "corrupted")),
                percent(_right_by(alone, had)) if record.method != "grpo" else "",
            )
        )
    head = ("run", "adapters", "rollouts each", "with signal", "share")
    right = ("drafts right", "challenges right", "conv.", "corr.", "grpo by then")
    return Table(
        "Training signal",
        (*head, *right),
        tuple(rows),
        (
            "with signal: rollouts of an adapter, mean over the adapters, in groups that did not all earn the same; "
            "the others change nothing.",
            "right, conv., corr.: of training, over the last quarter of the steps, in percent. grpo by then: right "
            "rollouts of the runs of grpo over a quarter of the steps that ends where their adapter had had that much "
            "signal.",
        ),
    )


def _right_by(alone: Sequence[Record], signal: float) -> float | None:
    """How much grpo got right by the time its adapter had learned from so many rollouts, mean over runs."""
    found = []
    for record in alone:
        sums = record.signal()["A"]
        reached = next((place for place, so_far in enumerate(sums) if so_far >= signal), None)
        if reached is not None:
            start = max(0, reached + 1 - max(1, len(record.steps) // 4))
            found.append(fmean(step["draft/correct"] for step in record.steps[start : reached + 1]))
    return fmean(found) if found else None


def gpu_table(records: Sequence[Record]) -> Table:
    """Seconds of every stage, and how the steps used the card."""
    rows = [(*_seconds(record), *_steps(record)) for record in records]
    seconds = {stage: sum(record.times.get(stage, 0.0) for record in records) for stage in STAGES}
    hours = sum(seconds.values()) / 3600
    rows.append(("all", "", *(number(seconds[stage]) for stage in STAGES), f"{hours:.2f}", *[""] * 5))
    cards = sorted({card for record in records if (card := record.environment.get("gpu"))})
    head = ("run", "started in", *(f"{stage} s" for stage in STAGES), "hours")
    return Table(
        f"GPU use{': ' if cards else ''}{', '.join(cards)}",
        (*head, "s a step", "sampling", "tokens/s", "GB training", "GB sampling"),
        tuple(rows),
        (
            "Seconds are of whole processes; started in: what training took before its first step. test: every "
            "test evaluation in one process.",
            "Several runs shared one card at a time, so the card was held for fewer hours than the runs took in all, "
            "and each was slower than it would be alone.",
            "s a step: mean; sampling: its share of that; tokens/s: written while sampling, median over steps; GB: "
            "the most that PyTorch had allocated in the training process.",
        ),
    )


def _seconds(record: Record) -> tuple[str, ...]:
    times = [record.times.get(stage) for stage in STAGES]
    training, inside = record.times.get("train"), record.summary.get("seconds")
    started = training - inside if training is not None and inside is not None else None
    hours = sum(time for time in times if time is not None) / 3600
    return record.name, number(started), *(number(time) for time in times), f"{hours:.2f}"


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
    """Runs that differ in their learning rate: validation where it was played, and how training began and ended."""
    rows = []
    for record, entrant in runs:
        quarter = max(1, len(record.steps) // 4)
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
        (*head, "formed, last", "no signal, last"),
        tuple(rows),
        (
            "validation: pass@1 of the headline; the rest is of training, over the first and the last quarter of the "
            "steps, in percent but for length. no signal: problems of which all rollouts earned the same.",
            *_other_settings([record for record, _ in runs]),
        ),
    )


def _other_settings(records: Sequence[Record]) -> list[str]:
    """What else differs between the runs, so that nobody has to take the rate's word for it."""
    plain = [{key: value for key, value in one.config.items() if key not in ASIDE} for one in records]
    changed = {text.split(" is ")[0] for other in plain[1:] for text in differences(plain[0], other)}
    return [f"Settings that differ besides the rate: {', '.join(sorted(changed))}."] if changed else []


def _mean(steps: Sequence[Mapping[str, Any]], what: str) -> float | None:
    """The mean of a figure over steps; None for one that these runs do not have."""
    return fmean(step[what] for step in steps) if steps and what in steps[0] else None


@dataclass(frozen=True)
class Crossing:
    """A run, a direction of it, and what became of its drafts."""

    run: str
    direction: str
    counts: Transitions
    # Of wrong drafts, the share that the final's policy gets right without reading them.
    solved_alone: float | None


def transitions_table(title: str, crossings: Sequence[Crossing]) -> Table:
    """What finals did with the drafts they read, and how often they gave the draft's own answer."""
    rows = tuple(
        (
            each.run,
            each.direction,
            *(str(count) for count in (counts.right_right, counts.right_wrong)),
            *(str(count) for count in (counts.wrong_right, counts.wrong_wrong, counts.repeated)),
            *(percent(share) for share in (counts.copied_right, counts.alone_after_right)),
            *(percent(share) for share in (counts.copied_wrong, counts.alone_after_wrong)),
            *(percent(share) for share in (counts.put_right, each.solved_alone)),
        )
        for each in crossings
        for counts in (each.counts,)
    )
    arrows = tuple(f"{one}→{other}" for one in ("right", "wrong") for other in ("right", "wrong"))
    return Table(
        title,
        ("run", "direction", *arrows, "same error", *(word for what in SHARES for word in (what, "alone"))),
        rows,
        (
            "Counts of samples, draft→final. same error: of wrong→wrong, those with the draft's own answer.",
            "copied: finals with the draft's answer, in percent of right drafts, and of wrong drafts that gave an "
            "answer. alone: how often the same policy gives that answer without reading the draft.",
            "put right: of wrong drafts, those whose final is right. alone: the same policy's own answers to those "
            "problems that are right.",
        ),
    )
