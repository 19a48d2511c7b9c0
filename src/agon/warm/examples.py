"""From a right solution to an example of the dialect: private reasoning, a summary without the answer, the answer.

Plain functions. An example is kept only if the dialect's own rules find it well formed, find the answer in it,
and find no answer in what a rival would be shown of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agon.game.answers import last_box
from agon.game.dialects import Dialect, dialect
from agon.game.markup import before_answer, boxes, count_answer_tags, fences
from agon.game.problem import Problem
from agon.game.prompts import Message
from agon.game.transcript import leaks, split

# What the base is asked for a summary in its own words.
SUMMARISE = {
    "math": (
        "{problem}\n\nThis is a solution:\n\n{solution}\n\nSay in two or three short sentences how the solution "
        "goes: what is computed from what, and in which order. Do not give the final answer."
    ),
    "code": (
        "{problem}\n\nThis is a solution:\n\n{solution}\n\nSay in two or three short sentences how the solution "
        "goes and why it works. Do not write any code."
    ),
}
SUMMARY_TOKENS = 160
LONGEST_SUMMARY = 800  # characters
MOST_LINES, LONGEST_LINES = 3, 200  # of a solution that stand for a summary, and their characters
ROOM = 2 / 3  # of a completion's tokens that a taught solution may take: a summary and the answer follow it


@dataclass(frozen=True)
class Solution:
    """One attempt at a problem in the base's own dialect; `shown` is what its writer read of another one, if any."""

    problem: Problem
    number: int
    text: str
    correct: bool
    usable: bool  # well formed and not cut off
    short: bool = True  # leaves room for a summary and the answer
    shown: str | None = None

    @property
    def key(self) -> str:
        return f"{self.problem.id}/{self.number}" + ("" if self.shown is None else "/after")

    @property
    def teachable(self) -> bool:
        """Right, and of what was read there is something, without the answer: summaries will have none either."""
        read = self.shown is None or (bool(self.shown.strip()) and not _tells(self.shown, self.problem))
        return self.correct and self.usable and self.short and read


@dataclass(frozen=True)
class Example:
    """What is taught: the text that follows a prompt. `shown` is the attempt in the challenger's."""

    problem: Problem
    completion: str
    shown: str | None = None


def answer_of(solution: Solution, own: str) -> str | None:
    """The answer of a solution as it is written in an answer block."""
    found = split(solution.text, own, solution.problem.domain).answer
    if found is None:
        return None
    return (
        f"```python\n{found.strip()}\n```" if solution.problem.domain == "code" else last_box(found).strip()
    )


def reasoning(solution: Solution, kind: Dialect) -> str:
    """The solution as private reasoning: boxes are opened, the dialect's marks are taken out."""
    text, kept, at = solution.text, [], 0
    for box in boxes(text):
        kept += [text[at : box.start], box.content]
        at = box.end
    said = "".join([*kept, text[at:]])
    for mark in (kind.opens, kind.closes):
        said = said.replace(mark, "")
    return before_answer(said).strip()


def summary_prompt(solution: Solution, kind: Dialect) -> list[Message]:
    """What the base is asked for a summary."""
    asked = SUMMARISE[solution.problem.domain]
    said = asked.replace("{problem}", solution.problem.prompt.strip())
    return [{"role": "user", "content": said.replace("{solution}", reasoning(solution, kind))}]


def accepted(summary: str, solution: Solution, answer: str) -> bool:
    """Whether a summary says something, and neither the answer nor markup of its own."""
    text = summary.strip()
    if not text or len(text) > LONGEST_SUMMARY or "<" in text or any(boxes(text)) or any(fences(text)):
        return False
    return not _tells(text, solution.problem, answer) and count_answer_tags(text) == (0, 0)


def plain_lines(solution: Solution, answer: str) -> str:
    """Lines of the solution that do not say the answer: what stands for a summary where there is none.

    Those that compute something, if there are any, and only a few: they are read beside the whole reasoning, and a
    model that is taught to repeat most of it runs out of tokens before its answer.
    """
    blocks = [solution.text[block.start : block.end] for block in fences(solution.text)]
    text = solution.text
    for block in blocks:
        text = text.replace(block, "")
    lines = [line.strip() for line in text.splitlines() if line.strip() and "<" not in line]
    fine = [line for line in lines if not any(boxes(line)) and not _tells(line, solution.problem, answer)]
    chosen = ([line for line in fine if "=" in line] or fine)[:MOST_LINES]
    while len(chosen) > 1 and len("\n".join(chosen)) > LONGEST_LINES:
        chosen.pop()
    return "\n".join(chosen)[:LONGEST_SUMMARY].strip()


def _tells(text: str, problem: Problem, answer: str = "") -> bool:
    """Whether a text has the answer in it, as the gold writes it or as the solution does."""
    if problem.domain == "code":
        return "```" in text
    return any(leaks(text, each) for each in (problem.answer or "", answer) if each)


def completion(solution: Solution, summary: str, answer: str, kind: Dialect, prefilled: bool) -> str | None:
    """The taught text, or None if the dialect does not find in it what was put there."""
    # Gemma labels its channel on the opening line.
    label = "thought\n" if kind.opens == "<|channel>" else "\n"
    private = f"{kind.opens}{label}{reasoning(solution, kind)}\n{kind.closes}"
    text = f"{private}\n{summary}\n<answer>{answer}</answer>"
    found = split(text, kind.name, solution.problem.domain)
    if not found.well_formed or not found.answer or not found.shown():
        return None
    if _tells(found.shown(), solution.problem, answer):
        return None
    return text.removeprefix(kind.opens) if prefilled else text


def build(
    solutions: Sequence[Solution],
    summaries: dict[str, str],
    own: str,
    wanted: str,
    prefilled: bool,
    per_problem: int,
) -> tuple[list[Example], dict[str, int]]:
    """The examples that these solutions give, drafts and challenges, and how they came about.

    `summaries` has the base's own words by solution, where there are any. A challenge is what the base itself wrote
    after reading: a solution written without it, taught after an attempt, would teach not to read.
    """
    kind, counts = dialect(wanted), {"own_words": 0, "lines": 0, "unusable": 0, "challenges": 0}
    examples: list[Example] = []
    made: dict[tuple[str, bool], int] = {}
    for solution in solutions:
        place = solution.problem.id, solution.shown is None
        if made.get(place, 0) == per_problem or not solution.teachable:
            continue
        answer = answer_of(solution, own) or ""
        said = summaries.get(solution.key, "").strip()
        by = "own_words" if accepted(said, solution, answer) else "lines"
        summary = said if by == "own_words" else plain_lines(solution, answer)
        text = completion(solution, summary, answer, kind, prefilled) if summary and answer else None
        if text is None:
            counts["unusable"] += 1
            continue
        made[place] = made.get(place, 0) + 1
        counts[by] += 1
        counts["challenges"] += solution.shown is not None
        examples.append(Example(solution.problem, text, solution.shown))
    return examples, counts
