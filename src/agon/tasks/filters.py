"""What is left out of a task, and why: binary answers, duplicates, overlap with evaluation sets.

Texts are compared as tokens of lower-cased ASCII words, numbers and operators; other bytes stand for
themselves. No Unicode table is consulted, since those differ from one Python to the next.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from agon.game.problem import Domain, Problem

# How many tokens in a row two problems may not share. Thirteen is customary for mathematics; the
# statements of programs repeat longer boilerplate ("the first line contains one integer t, the number
# of test cases"): at 13 it costs a quarter of 131 CodeContests problems, at 30 two of them.
NGRAM: dict[Domain, int] = {"math": 13, "code": 30}
# A text shorter than an n-gram counts as found inside another if it has at least this many tokens.
SHORTEST = 8

Gram = tuple[bytes, ...]

_TOKEN = re.compile(rb"[a-z]+|[0-9]+|[\x80-\xff]+|[-+*/=<>^]")
_BINARY = {
    *("yes", "no", "true", "false", "correct", "incorrect", "right", "wrong", "possible", "impossible"),
    *("converges", "diverges", "convergent", "divergent", "even", "odd", "positive", "negative"),
}
_WRAPPER = re.compile(r"\\(?:text|mathrm|mathbf|textbf|boxed)\s*\{([^{}]*)\}")
_ANY_ANSWER = re.compile(
    r"(print|output|find|choose|report|return|display|give)s?\s+(out\s+)?any(\s+one)?(\s+of)?\s"
    r"|any\s+(one\s+)?(of\s+them|such|valid|suitable|correct|possible|appropriate)\b"
    r"|(multiple|several|many|more\s+than\s+one)\s+(\w+\s+)?(answer|solution|output|way|sequence|string|permutation)"
    r"|any\s+(answer|solution|order|arrangement|permutation)"
    r"|(absolute|relative)\s+(or\s+(absolute|relative)\s+)?error"
    r"|special\s+judge|interactive\s+problem|in\s+arbitrary\s+order",
    re.IGNORECASE,
)


def is_binary(answer: str) -> bool:
    r"""Whether an answer is one of two that a coin would find (yes/no, true/false and the like).

    >>> is_binary(r"\text{Yes}."), is_binary("1")
    (True, False)
    """
    return _WRAPPER.sub(r"\1", answer).strip(" .$!\\()").lower() in _BINARY


def has_several_answers(statement: str) -> bool:
    """Whether a programming problem says itself that more than one output is accepted.

    A heuristic over the statement's words; it errs on the side of leaving a problem out.
    """
    return _ANY_ANSWER.search(statement) is not None


def tokens(text: str) -> Gram:
    """A text as comparable tokens.

    >>> tokens("Find $x^2$ if X = 3.")
    (b'find', b'x', b'^', b'2', b'if', b'x', b'=', b'3')
    """
    return tuple(_TOKEN.findall(text.encode("utf-8", "surrogatepass").lower()))


def repeated(problems: Iterable[Problem]) -> list[Problem]:
    """The problems whose statement has stood before; the first of each stays."""
    seen: set[Gram | str] = set()
    again = []
    for problem in problems:
        statement = tokens(problem.prompt) or problem.prompt
        if statement in seen:
            again.append(problem)
        seen.add(statement)
    return again


def overlapping(
    problems: Sequence[Problem], texts: Iterable[str], size: int = NGRAM["math"]
) -> list[Problem]:
    """The problems that share an n-gram with one of the texts, contain one, or stand inside one.

    A text too short to hold an n-gram counts as a whole: inside another one if it has at least
    `SHORTEST` tokens, and otherwise only where it is all of it.
    """
    ours = [tokens(problem.prompt) for problem in problems]
    theirs = [tokens(text) for text in texts]
    our_pieces, their_pieces = _pieces(ours, size), _pieces(theirs, size)
    shared = (our_pieces & their_pieces) | _found(ours, their_pieces, size) | _found(theirs, our_pieces, size)
    if not shared:
        return []
    lengths = {len(gram) for gram in shared if len(gram) >= SHORTEST}
    return [
        problem
        for problem, words in zip(problems, ours, strict=True)
        if words in shared or any(gram in shared for length in lengths for gram in _grams(words, length))
    ]


def _pieces(texts: Iterable[Gram], size: int) -> set[Gram]:
    """What has to be found elsewhere: the n-grams of long texts, and short texts whole."""
    return {gram for words in texts for gram in (_grams(words, size) if len(words) >= size else (words,))}


def _found(texts: Iterable[Gram], pieces: set[Gram], size: int) -> set[Gram]:
    """The short texts among the pieces that stand inside one of the texts."""
    by_start: dict[Gram, list[Gram]] = {}
    for piece in pieces:
        if SHORTEST <= len(piece) < size:
            by_start.setdefault(piece[:SHORTEST], []).append(piece)
    return {
        piece
        for words in texts
        for start, gram in enumerate(_grams(words, SHORTEST))
        for piece in by_start.get(gram, ())
        if words[start : start + len(piece)] == piece
    }


def _grams(words: Gram, size: int) -> Iterator[Gram]:
    return (words[start : start + size] for start in range(len(words) - size + 1))
