r"""From what a rollout made public to the one answer it gives; the only place where answers are extracted.

- `answer_section`: where the answer stands, by dialect and domain. For a program, the program itself.
- `final_answer`: the answer of a section. The last box counts; boxes that differ are a hedge and score
  zero; a box that never closes is no answer; a section without a box is taken whole.
- `program`: the program of a section, which may be fenced.

On the way of a rollout each step runs once: `agon.game.transcript` finds the section (and the program),
the judges take the final answer from it. The code judge calls `program` too, for people who hand it a
fenced program; one that comes from a transcript passes through unchanged.
"""

import re
from collections.abc import Callable, Sequence

from agon.game.dialects import Dialect
from agon.game.markup import Span, answer_blocks, boxes, fences
from agon.game.problem import Domain
from agon.game.verdict import Verdict

# `final_answer` compares every box with the last one; more different boxes than this are a hedge anyway.
_MAX_BOXES = 10
# How people mark a block of sample input or output.
_NO_PROGRAM = {"output", "input", "stdin", "stdout", "text", "txt", "plaintext", "plain", "console", "result"}
_NO_PROGRAM |= {"terminal", "shell", "bash", "sh", "json", "log", "none", "example", "sample", "pycon"}
# What is printed has digits, capitals, brackets, several words; what is a program has a line that begins as
# a statement does, or assigns or calls something.
_PRINTED = re.compile(r"[\dA-Z\"'\[\]: ]|\b(?:yes|no|true|false|possible|impossible)\b")
_CODE = re.compile(
    r"^[ \t]*(?:(?:import|from|def|class|for|while|if|with|try|async|return|print|@)\b"
    r"|[\w.\[\]]+ ?(?:=[^=]|\((?!.*\) *(?:=|->))))",
    re.MULTILINE,
)


def answer_section(public: str, kind: Dialect, domain: Domain) -> str | None:
    r"""The answer section of a rollout's public text, or None if there is no answer.

    In a dialect with answer blocks it is the content of the block; otherwise all closed boxes as
    written or, for a program, the last closed fenced block that is one.

    >>> from agon.game.dialects import dialect
    >>> answer_section(r"2 + 2 is \boxed{4}.", dialect("boxed"), "math")
    '\\boxed{4}'
    """
    if kind.answer == "block":
        contents = {block.content.strip() for block in answer_blocks(public)}
        if len(contents) != 1:  # none, or a hedge
            return None
        section = contents.pop()
        if domain == "code":
            section = program(section)
    elif domain == "code":
        blocks = [fence for fence in fences(public) if fence.closed]
        section = _program_block(public, blocks).content if blocks else ""
    else:
        section = " ".join(public[box.start : box.end] for box in boxes(public) if box.closed)
    return section if section.strip() else None


def final_answer(section: str, same: Callable[[str, str], bool]) -> str | Verdict:
    r"""The answer of a section, or the verdict that there is none. `same` decides if boxes differ.

    >>> final_answer(r"so \boxed{41}, or \boxed{42}", str.__eq__).detail
    'The answer section holds 2 boxes that differ.'
    """
    found = list(boxes(section))
    if not found:
        return section.strip() or Verdict(False, "no-answer", "The answer section is empty.")
    if not found[-1].closed:
        return Verdict(False, "no-answer", "The last box never closes.")
    last = found[-1].content.strip()
    contents = dict.fromkeys(box.content.strip() for box in found)
    if len(contents) > _MAX_BOXES or not all(same(other, last) for other in contents if other != last):
        return Verdict(False, "wrong", f"The answer section holds {len(contents)} boxes that differ.")
    return last or Verdict(False, "no-answer", "The box is empty.")


def last_box(section: str) -> str:
    r"""What the last box of a section holds, or the whole section if it has no box.

    >>> last_box(r"\boxed{41} \boxed{42}"), last_box("42")
    ('42', '42')
    """
    *_, last = (section, *(box.content for box in boxes(section)))
    return last


def program(section: str) -> str:
    """The program of a section: its last fenced block that is one, or all of it.

    A block of sample output after the program is none: it is marked as such, or looks like no program.

    A fence inside a triple-quoted string is part of the program, so a program that has already been
    taken out of its fence stays as it is.

    >>> program("As follows:\\n```python\\nprint(42)\\n```")
    'print(42)\\n'
    """
    blocks = list(fences(section))
    if not blocks or _inside_string(section[: blocks[0].start]):
        return section
    return _program_block(section, blocks).content


def _program_block(text: str, blocks: Sequence[Span]) -> Span:
    """The last block that is marked as a program or, unmarked, looks like one; else the last that is not
    marked as something else; else the last."""
    marks = [text[block.start :].partition("\n")[0].strip("`~ \t").split(" ")[0].lower() for block in blocks]
    programs = [
        block
        for block, mark in zip(blocks, marks, strict=True)
        if (mark.startswith("py") and mark not in _NO_PROGRAM)
        or (not mark and (_CODE.search(block.content) or not _PRINTED.search(block.content)))
    ]
    unknown = [block for block, mark in zip(blocks, marks, strict=True) if mark not in _NO_PROGRAM]
    return (programs or unknown or list(blocks))[-1]


def _inside_string(before: str) -> bool:
    """Whether a text ends inside a triple-quoted string. Counted, not parsed: Python's parser is not
    safe with hostile text in this process."""
    return any(before.count(quotes) % 2 for quotes in ('"""', "'''"))
