"""A completion in stretches: what was private, what its rival read, what was withheld; and two answers, compared.

Everything is worked out from the texts in the log, so it holds for runs of any age.
"""

import difflib

from agon.game.dialects import dialect
from agon.game.markup import WITHHELD
from agon.view.rows import dialect_of

Stretch = tuple[str, str]  # kind and text
LONGEST_DIFF = 20_000  # characters; a comparison takes quadratic time


def stretches(text: str, dialect_name: str | None, shown: str | None) -> list[Stretch]:
    """The text in stretches of kind `private`, `shown`, `withheld` or `public`, in order, nothing left out.

    `shown` is what was made of it for a rival; None if nothing was shown, and then nothing was withheld.

    >>> stretches("<think>2+2</think>It is a sum.<answer>4</answer>", "think", "It is a sum.")
    [('private', '<think>2+2</think>'), ('shown', 'It is a sum.'), ('withheld', '<answer>4</answer>')]
    """
    found: list[Stretch] = []
    for private, part in _private_parts(text, dialect_name or dialect_of(text)):
        if private:
            found.append(("private", part))
        elif shown is None:
            found.append(("public", part))
        else:
            found += _read_parts(part, shown)
    return [stretch for stretch in found if stretch[1]]


def _private_parts(text: str, name: str) -> list[tuple[bool, str]]:
    """As `agon.game.transcript` divides it: private up to the last closing mark, and after one that is opened again."""
    kind = dialect(name)
    if not kind.private:
        return [(False, text)]
    closed = text.rfind(kind.closes)
    begin = closed + len(kind.closes) if closed >= 0 else 0
    reopened = text.find(kind.opens, begin)
    end = reopened if reopened >= 0 else len(text)
    return [(True, text[:begin]), (False, text[begin:end]), (True, text[end:])]


def _read_parts(public: str, shown: str) -> list[Stretch]:
    """Find the pieces of `shown` in the text, one after another; what stands between them was withheld."""
    found: list[Stretch] = []
    at = 0
    pieces = shown.removesuffix(" […]").replace(WITHHELD, "\n").split("\n")
    for piece in filter(None, map(str.strip, pieces)):
        place = public.find(piece, at)
        if place < 0:
            continue
        between = public[at:place]
        if between.strip():
            found.append(("withheld", between))
        elif between:
            found.append(("shown", between))
        found.append(("shown", piece))
        at = place + len(piece)
    rest = public[at:]
    found.append(("withheld" if rest.strip() else "shown", rest))
    return _joined(found)


def _joined(parts: list[Stretch]) -> list[Stretch]:
    joined: list[Stretch] = []
    for kind, text in parts:
        if joined and joined[-1][0] == kind:
            joined[-1] = (kind, joined[-1][1] + text)
        else:
            joined.append((kind, text))
    return joined


def difference(first: str, second: str) -> list[Stretch]:
    """Two answers as stretches that are `same`, `gone` or `new`; line by line where there are several lines.

    >>> difference("x = 35", "x = 32")
    [('same', 'x = 3'), ('gone', '5'), ('new', '2')]
    """
    if len(first) + len(second) > LONGEST_DIFF:
        return [("gone", first), ("new", second)]
    lines = "\n" in first.strip() or "\n" in second.strip()
    before, after = (
        text.splitlines(keepends=True) if lines else list(text.strip()) for text in (first, second)
    )
    found: list[Stretch] = []
    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            found.append(("same", "".join(before[i1:i2])))
        else:
            found += [("gone", "".join(before[i1:i2])), ("new", "".join(after[j1:j2]))]
    return _joined([stretch for stretch in found if stretch[1]])
