"""A task to look at: counts, splits, what was left out and why, prompt lengths, and sample prompts."""

from collections.abc import Callable, Sequence
from textwrap import fill
from typing import Any

from agon.errors import InputError
from agon.game.problem import Problem
from agon.game.prompts import Message, challenger_prompt, plain_prompt
from agon.tasks import BENCHMARKS, Task

BARS = 8
WIDTH = 40
COLUMNS = 79  # of the list of tasks
# Where a rival's attempt would be in a challenger's prompt.
ATTEMPT = "(What the rival wrote after its private reasoning is shown here, its final answer withheld.)"
OTHER_NAMES = {
    "gym:NAME": "a reasoning-gym generator with its parameters: gym:chain_sum,max_terms=3",
    "FILE": "your own .jsonl or .parquet file, or a folder with one file per split",
    "module:object": "a Task, a list of Problems, or a function that returns either",
}


class PromptRenderer:
    """Prompts as a model reads them: through its chat template, or as plain text if no model is named."""

    def __init__(self, model: str | None = None, dialect: str | None = None) -> None:
        self.model = model
        self.dialect = dialect or "think"
        self.prefilled = False
        self.length: Callable[[str], int] = len
        self.unit = "characters"
        self.render: Callable[[list[Message]], str] = lambda messages: messages[-1]["content"]
        if model is not None:
            self._load(model, dialect)

    def _load(self, model: str, dialect: str | None) -> None:
        from agon.engines.chat import Chat
        from agon.policies.base import load_tokenizer

        tokenizer = load_tokenizer(model)
        chat = Chat(tokenizer, dialect)
        self.dialect, self.prefilled = chat.dialect.name, chat.prefilled
        self.render, self.unit = chat.render, "tokens"
        self.length = lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def catalogue() -> dict[str, str]:
    """Every way to name a task, with a description."""
    return {**{name: row.description for name, row in BENCHMARKS.items()}, **OTHER_NAMES}


def catalogue_text() -> str:
    rows = catalogue()
    width = max(map(len, rows))
    return "\n".join(
        fill(description, COLUMNS, initial_indent=f"{name:<{width}}  ", subsequent_indent=" " * (width + 2))
        for name, description in rows.items()
    )


def overview(task: Task, renderer: PromptRenderer, show: int, judge_golds: bool = False) -> dict[str, Any]:
    """Everything about a task as plain values, with `show` sample problems.

    Gold answers are judged if asked for. Those of your own files always are, and the first that its
    judge does not accept is an InputError.
    """
    problems = [problem for part in task.splits.values() for problem in part]
    shown = next((part for part in task.splits.values() if part), ())[:show]
    facts = {
        "task": task.name,
        "judge": task.judge,
        "options": dict(task.options),
        "rows": len(problems) + sum(task.dropped.values()),
        "dropped": dict(task.dropped),
        "kept": len(problems),
        "splits": {
            split: {"problems": len(part), "fingerprint": task.fingerprint(split)}
            for split, part in task.splits.items()
        },
        "notes": list(task.notes),
        "length": {"unit": renderer.unit, **_histogram([renderer.length(each.prompt) for each in problems])},
        "dialect": {"name": renderer.dialect, "model": renderer.model, "prefilled": renderer.prefilled},
        "samples": [_sample(problem, renderer) for problem in shown],
    }
    if judge_golds or task.name not in BENCHMARKS:
        facts["unusable_golds"] = _unusable_golds(task)
    return facts


def as_text(facts: dict[str, Any]) -> str:
    """The overview for a terminal."""
    options = ", ".join(f"{key}={value}" for key, value in facts["options"].items())
    lines = [f"{facts['task']}  (judge: {facts['judge']}; {options})", "", f"{facts['rows']:>8}  rows read"]
    left = facts["rows"]
    for reason, count in facts["dropped"].items():
        left -= count
        lines.append(f"{-count:>8}  {reason}  (leaves {left})")
    for split, part in facts["splits"].items():
        lines.append(f"{part['problems']:>8}  {split}  (fingerprint {part['fingerprint']})")
    lines += ["", *(f"Note: {note}" for note in facts["notes"])]
    if facts.get("unusable_golds"):
        named = ", ".join(facts["unusable_golds"][:3])
        lines.append(f"Note: golds that the judge does not accept: {len(facts['unusable_golds'])} ({named}).")
    lines += [*_bars(facts["length"]), "", _dialect_line(facts["dialect"])]
    for sample in facts["samples"]:
        gold = f"{sample['tests']} tests" if sample["tests"] else f"answer {sample['answer']}"
        lines += ["", f"=== {sample['id']}: {gold}"]
        lines += ["--- the drafter reads", sample["plain"], "--- the challenger reads", sample["challenger"]]
    return "\n".join(lines)


def _sample(problem: Problem, renderer: PromptRenderer) -> dict[str, Any]:
    tests = problem.tests
    return {
        "id": problem.id,
        "answer": problem.answer,
        "tests": 0 if tests is None else len(tests.stdio) + len(tests.asserts),
        "plain": renderer.render(plain_prompt(problem, renderer.dialect)),
        "challenger": renderer.render(challenger_prompt(problem, ATTEMPT, renderer.dialect)),
    }


def _histogram(lengths: Sequence[int]) -> dict[str, Any]:
    """Counts in bins of equal width up to the 99th percentile; the last bin also holds the rest."""
    ordered = sorted(lengths)
    first, top = ordered[0], ordered[(len(ordered) * 99 - 1) // 100]
    step = -(-(top - first + 1) // BARS)
    counts = [0] * BARS
    for length in ordered:
        counts[min((length - first) // step, BARS - 1)] += 1
    ends = {"shortest": first, "median": ordered[len(ordered) // 2], "longest": ordered[-1]}
    return {**ends, "step": step, "counts": counts}


def _bars(length: dict[str, Any]) -> list[str]:
    lines = [f"Prompt length in {length['unit']}: median {length['median']}, longest {length['longest']}"]
    most = max(length["counts"])
    for number, count in enumerate(length["counts"]):
        low = length["shortest"] + number * length["step"]
        label = f"{low}-{low + length['step'] - 1}" if number < BARS - 1 else f"{low}+"
        lines.append(f"{label:>14} {'#' * round(WIDTH * count / most):<{WIDTH}} {count}")
    return lines


def _dialect_line(dialect: dict[str, Any]) -> str:
    if dialect["model"] is None:
        return f"Dialect: {dialect['name']} (name a --model to see its own template)"
    opened = "; the template opens the private block itself" if dialect["prefilled"] else ""
    return f"Dialect: {dialect['name']} for {dialect['model']}{opened}"


def _unusable_golds(task: Task) -> list[str]:
    """The problems whose gold the judge itself does not accept; in your own file, the first one is an error."""
    from agon.judges.pool import JudgePool, check_golds

    # Programs have no gold, and a generator's scorer has accepted its own answer already.
    golds = [each for part in task.splits.values() for each in part if each.domain != "code"]
    if task.judge == "gym" or not golds:
        return []
    with JudgePool(task.judge) as pool:
        bad = check_golds(pool, golds)
    if bad and task.name not in BENCHMARKS:
        first = bad[0]
        reason = first.verdict.detail or first.verdict.reason
        raise InputError(
            f"The answer {first.problem.answer!r} of problem '{first.problem.id}' is not accepted by its own "
            f"judge, {task.judge}: {reason} ({len(bad)} such answers in all)."
        )
    return [each.problem.id for each in bad]
