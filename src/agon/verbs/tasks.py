"""List the tasks, or look into one: counts, splits, what was left out and why, and samples.

agon tasks
agon tasks gsm8k --show 2
agon tasks deepmath-hard --path data/ --model Qwen/Qwen3-0.6B
agon tasks gym:chain_sum,min_terms=2,max_terms=3
agon tasks problems.jsonl --json
"""

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any

from agon.errors import InputError
from agon.game.dialects import DIALECTS
from agon.game.problem import Problem
from agon.game.prompts import Message, challenger_prompt, plain_prompt
from agon.tasks import BENCHMARKS, Task, load_task

BARS = 8
WIDTH = 40
ATTEMPT = "(What the rival wrote after its private reasoning stands here, its final answer withheld.)"
OTHER_WAYS = {
    "gym:NAME": "a reasoning-gym generator with its parameters: gym:chain_sum,max_terms=3",
    "FILE": "your own .jsonl or .parquet file, or a folder with one file per split",
    "module:object": "a Task, a list of Problems, or a function that returns either",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a task, with options after commas")
    parser.add_argument("--path", help="a local copy of the benchmark instead of the Hub")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the split (default 0)")
    parser.add_argument("--show", type=int, default=1, metavar="N", help="samples to show (default 1)")
    parser.add_argument("--model", metavar="ID", help="a model whose chat template renders the prompts")
    parser.add_argument("--dialect", choices=sorted(DIALECTS), help="instead of the one the template implies")
    parser.add_argument(
        "--golds", action="store_true", help="judge the gold answers of a benchmark too (a file's always are)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(arguments: argparse.Namespace) -> int:
    if arguments.name is None:
        print(json.dumps(_catalogue(), indent=2) if arguments.json else _catalogue_text())
        return 0
    if arguments.show < 0:
        raise InputError(f"--show is a number of samples, not {arguments.show}.")
    task = load_task(arguments.name, arguments.path, arguments.seed)
    reader = _Reader(arguments.model, arguments.dialect)
    facts = describe(task, reader, arguments.show)
    if arguments.golds or task.name not in BENCHMARKS:
        facts["unusable_golds"] = _bad_golds(task)
    print(json.dumps(facts, indent=2, ensure_ascii=False) if arguments.json else as_text(facts))
    return 0


class _Reader:
    """How a model sees a prompt: through its chat template, or as plain text where none is named."""

    def __init__(self, model: str | None, dialect: str | None) -> None:
        self.model = model
        self.dialect = dialect or "think"
        self.prefilled = False
        self.length: Callable[[str], int] = len
        self.unit = "characters"
        self.render: Callable[[list[Message]], str] = lambda messages: messages[-1]["content"]
        if model is not None:
            self._load(model, dialect)

    def _load(self, model: str, dialect: str | None) -> None:
        from transformers import AutoTokenizer

        from agon.engines.chat import Chat

        try:
            tokenizer = AutoTokenizer.from_pretrained(model)
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"The tokenizer of '{model}' cannot be loaded: {reason}") from error
        chat = Chat(tokenizer, dialect)
        self.dialect, self.prefilled = chat.dialect.name, chat.prefilled
        self.render, self.unit = chat.render, "tokens"
        self.length = lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def describe(task: Task, reader: _Reader, show: int) -> dict[str, Any]:
    """All that the verb prints, as plain values."""
    problems = [problem for part in task.splits.values() for problem in part]
    kept = len(problems)
    shown = next((part for part in task.splits.values() if part), ())[:show]
    return {
        "task": task.name,
        "judge": task.judge,
        "options": dict(task.options),
        "rows": kept + sum(task.dropped.values()),
        "dropped": dict(task.dropped),
        "kept": kept,
        "splits": {
            split: {"problems": len(part), "fingerprint": task.fingerprint(split)}
            for split, part in task.splits.items()
        },
        "notes": list(task.notes),
        "length": {"unit": reader.unit, **_histogram([reader.length(each.prompt) for each in problems])},
        "dialect": {"name": reader.dialect, "model": reader.model, "prefilled": reader.prefilled},
        "samples": [_sample(problem, reader) for problem in shown],
    }


def _sample(problem: Problem, reader: _Reader) -> dict[str, Any]:
    tests = problem.tests
    return {
        "id": problem.id,
        "answer": problem.answer,
        "tests": 0 if tests is None else len(tests.stdio) + len(tests.asserts),
        "plain": reader.render(plain_prompt(problem, reader.dialect)),
        "challenger": reader.render(challenger_prompt(problem, ATTEMPT, reader.dialect)),
    }


def _histogram(lengths: Sequence[int]) -> dict[str, Any]:
    """Counts over equal stretches up to the 99th percentile; the last one holds the tail."""
    ordered = sorted(lengths)
    first, top = ordered[0], ordered[(len(ordered) * 99 - 1) // 100]
    step = -(-(top - first + 1) // BARS)
    counts = [0] * BARS
    for length in ordered:
        counts[min((length - first) // step, BARS - 1)] += 1
    ends = {"shortest": first, "median": ordered[len(ordered) // 2], "longest": ordered[-1]}
    return {**ends, "step": step, "counts": counts}


def as_text(facts: dict[str, Any]) -> str:
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


def _catalogue() -> dict[str, str]:
    return {**{name: row.about for name, row in BENCHMARKS.items()}, **OTHER_WAYS}


def _catalogue_text() -> str:
    rows = _catalogue()
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {about}" for name, about in rows.items())


def _bad_golds(task: Task) -> list[str]:
    """Golds that the judge itself does not accept. In a file of yours, the first one ends the verb."""
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
