r"""A rollout's text, split by its dialect into reasoning, summary and answer.

The rules, for text that may be truncated, empty, doubled, nested or hostile:

- What stands before the *last* closing mark of the private block is private, and so is everything
  after a private block that was opened again. A block that never closes hides the rest of the text.
- The answer is what stands in the `<answer>` block, or all closed boxes as written; for a program,
  the last fenced block (`answers.py`). Two answer blocks that differ are no answer, nor is an empty one.
- A rival sees the summary up to the first `<answer>` tag, without any box and, for a program,
  without the final program and every fenced block that repeats it. Of a solution without a private
  part it sees the lines that compute something.
"""

import re
from dataclasses import dataclass

from agon.game.answers import answer_section
from agon.game.dialects import Dialect, dialect
from agon.game.markup import (
    Span,
    before_answer,
    boxes,
    count_answer_tags,
    cut,
    fences,
)
from agon.game.problem import Domain


@dataclass(frozen=True)
class Transcript:
    """What a rollout wrote: private reasoning, the summary, the answer section, and its form."""

    think: str
    summary: str
    answer: str | None
    well_formed: bool
    domain: Domain = "math"

    def shown(self, limit: int | None = None) -> str:
        """What a rival may read: the summary with the answer withheld, at most `limit` characters of it.

        Tags and control tokens are still in it; `agon.game.prompts` defuses them when it frames it.
        """
        text = before_answer(self.summary)
        spans = list(boxes(text))
        if self.domain == "code":
            spans += _program_blocks(text, self.answer)
        text = cut(text, spans).strip()
        if limit is not None and len(text) > limit:
            text = text[:limit].rstrip() + " […]"
        return text


def split(text: str, dialect_name: str, domain: Domain = "math", prefilled: bool = False) -> Transcript:
    """Split a completion by its dialect.

    `prefilled` says that the chat template has already opened the private block in the prompt, as
    the one of Qwen3.5 does, so that the completion begins inside it.

    >>> split("<think>2+2</think>Adding gives it.<answer>4</answer>", "think").answer
    '4'
    """
    kind = dialect(dialect_name)
    if prefilled and kind.private:
        text = kind.opens + text
    think, public = _split_private(text, kind)
    answer = answer_section(public, kind, domain)
    well_formed = answer is not None and _well_formed(text, public, kind, domain)
    return Transcript(think, _summary(public, kind, domain), answer, well_formed, domain)


def public_part(text: str, dialect_name: str, prefilled: bool = False) -> str:
    """What a completion says to whoever asked: all but its private reasoning.

    >>> public_part("<think>2+2</think>Adding gives it.<answer>4</answer>", "think")
    'Adding gives it.<answer>4</answer>'
    """
    kind = dialect(dialect_name)
    return _split_private(kind.opens + text if prefilled and kind.private else text, kind)[1]


def leaks(shown: str, gold: str) -> bool:
    r"""Whether the gold answer can still be read off the text shown to a rival.

    It looks for the gold as a number or word of its own, ignoring LaTeX spacing and thousands
    separators. A short gold may stand there by coincidence, so the rate is an upper bound.

    >>> leaks("hence x = 1,024 at last", "1024"), leaks("x = 10240", "1024")
    (True, False)
    """
    wanted = _plain(gold)
    if not wanted:
        return False
    pattern = r"\s*".join(re.escape(token) for token in re.findall(r"\d+|[^\W\d]+|\S", wanted))
    before = r"(?<![\w.])" if wanted[0].isalnum() else ""
    after = r"(?!\w|\.\d)" if wanted[-1].isalnum() else ""
    return re.search(before + pattern + after, _plain(shown)) is not None


def _split_private(text: str, kind: Dialect) -> tuple[str, str]:
    if not kind.private:
        return "", text
    private, closed, public = text.rpartition(kind.closes)
    if not closed:
        opened = text.find(kind.opens)
        return (text[opened:], text[:opened]) if opened >= 0 else ("", text)
    public, reopened, tail = public.partition(kind.opens)
    return private.replace(kind.opens, "", 1) + (reopened and tail), public


def _summary(public: str, kind: Dialect, domain: Domain) -> str:
    if kind.answer == "block":
        return before_answer(public)
    return _computations(public) if domain == "math" else public


def _computations(solution: str) -> str:
    """The lines of a solution that compute something, or all of it if none does.

    A model without a private part writes its whole solution down. A rival that is shown all of it
    copies it; one that is shown the computations still has to find out what they are for.
    """
    shown = before_answer(solution)  # before lines go: a tag may stand in two of them
    text = cut(shown, boxes(shown))
    return "\n".join(line.strip() for line in text.split("\n") if "=" in line) or text


def _well_formed(text: str, public: str, kind: Dialect, domain: Domain) -> bool:
    """The paper's format term φ: one private block first, one answer block last, nothing misplaced."""
    if kind.answer == "box":
        found = fences(public) if domain == "code" else boxes(public)
        return all(span.closed for span in found)
    return (
        text.lstrip().startswith(kind.opens)
        and text.count(kind.opens) == 1
        and text.count(kind.closes) == 1
        and count_answer_tags(text) == (1, 1)
        and public.rstrip().lower().endswith("</answer>")
    )


def _program_blocks(text: str, program: str | None) -> list[Span]:
    """The fenced blocks that would show the final program, and one that the text ended in."""
    blocks = list(fences(text))
    final = _bare(program if program is not None else blocks[-1].content if blocks else "")
    return [block for block in blocks if not block.closed or _repeats(block, final)]


def _repeats(block: Span, program: str) -> bool:
    """Whether a fenced block is the program, a part that makes up most of it, or contains it."""
    code = _bare(block.content)
    return program in code or (2 * len(code) > len(program) and code in program)


def _bare(code: str) -> str:
    return "".join(code.split())


def _plain(text: str) -> str:
    """Text without LaTeX spacing, sizing and font commands, for comparing answers as strings."""
    text = re.sub(r"\\(?:[,;!:]|(?:left|right|displaystyle|quad|qquad)(?![A-Za-z]))", " ", text)
    text = re.sub(r"\\(?:text|mathrm|mathbf|operatorname)\s*\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\[dt]frac", r"\\frac", text)
    text = re.sub(r"(?<=\d)(?:,|\{,\})(?=\d{3}(?!\d))", "", text.replace("$", " "))
    return " ".join(text.split()).lower()
