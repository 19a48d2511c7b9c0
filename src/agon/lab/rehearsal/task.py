"""The problems of a rehearsal: those of the recipe's task if they are at hand, else made up."""

from dataclasses import dataclass, replace

from agon.engines.chat import Chat
from agon.errors import InputError
from agon.game.problem import Problem
from agon.game.prompts import plain_prompt
from agon.lab.rehearsal.coin import COIN
from agon.lab.rehearsal.engine import Writer
from agon.planning.recipe_plan import training_problems
from agon.tasks import Task, load_task
from agon.tasks.benchmarks import BENCHMARKS

# Tokens of a made-up prompt, the chat template and the instructions included; as `agon plan` assumes.
PROMPT_TOKENS = 400


@dataclass(frozen=True)
class Prompts:
    """The task that is played, where its prompts come from, and how many problems the recipe trains on."""

    task: Task
    source: str
    recipe_problems: int


def find_prompts(name: str, path: str | None, seed: int, chat: Chat, needed: int) -> Prompts:
    """The recipe's own problems, or `needed` made-up ones where a benchmark cannot be reached."""
    try:
        task = load_task(name, path=path, seed=seed)
    except InputError:
        if path is not None or name.split(",")[0] not in BENCHMARKS:
            raise
        made = Task(name, COIN, {"train": made_up(chat, needed)})
        return Prompts(made, f"made up, {PROMPT_TOKENS} tokens each", training_problems(name))
    return Prompts(replace(task, judge=COIN), f"the task {task.name}", len(task.problems("train")))


def made_up(chat: Chat, count: int) -> list[Problem]:
    """Problems that differ from their first word on, so that no engine reuses one for another."""
    empty = Problem("0", "", "rehearsal")
    around = len(chat.encode(plain_prompt(empty, chat.dialect.name)))
    writer = Writer(chat)
    return [
        Problem(str(number), writer.text(f"{number}", PROMPT_TOKENS - around), "rehearsal")
        for number in range(count)
    ]
