"""Making tags and control tokens harmless in text that nobody can trust, and leaving all else as it is.

Three kinds of text may not reach a model inside a rival's attempt: our own tags in whatever spelling,
the control tokens of the known chat templates, and those of the tokenizer at hand. They are looked for
in the text as a normalising tokenizer would read it (full-width brackets are brackets, invisible
characters are not there). What is found gets other brackets; every other character stays, so that
`0 < x < 1` and `[ABC]` arrive as written.

Not covered: templates that mark turns with plain words ("Human:", "### Instruction:").
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

# Tags of our prompts and dialects. Other spellings of them could pass for the frame as well.
_OURS = r"(?i:attempt|answer|think)"
# Control tokens of chat templates that are written without bars; those with bars are found by their form.
_NAMES = (
    r"(?i:(?:bos|eos|eot|eop|sop|pad|unk)(?:_token)?|sys|endoftext|(?:begin|start|end)_of_\w+|im_(?:start|end|sep)"
    r"|(?:start|end)_header_id|eo[tm]_id|tool_calls?|tool_responses?|fim_\w+|seed:\w+"
    r"|(?:unused|extra_id_|reserved_|special_)\d+)|s"
)
# [ABC] is an area and E[|X|] an expectation, so only these; a tokenizer that has [PAD] or [CLS] says so.
_BRACKETED = (
    r"INST|SYSTEM_PROMPT|MODEL_SETTINGS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_CONTENT|TOOL_RESULTS|THINK|[gs]MASK"
    r"|\|(?:system|user|assistant|tool|endofturn)\|"
)
_CONTROL = re.compile(
    # </attempt is no mathematics, whatever follows. An opening tag is one if it closes (<attempt>, <attempt/>)
    # or has attributes; with bare words in it, only where it cannot be `low<answer and answer>high`.
    rf"<\s*/\s*{_OURS}(?:\s*>)?"
    rf"|<\s*{_OURS}(?:\s*/?>|\s+[\w:.-]+=[^<>]{{0,80}}>)"
    rf"|(?<![\w)\]}}])<{_OURS}[\s:=][^<>\n]{{1,40}}>"
    # <|im_end|>, <|turn>, <turn|>: one bar at an end and none inside, so that 0<|x|<1 and |y|>2 is neither.
    r"|<\|[^\s<>|]{1,64}\|?>|<[^\s<>|]{1,64}\|>"
    rf"|</?(?:{_NAMES})>"
    rf"|\[/?(?:{_BRACKETED})\]"
)
_OTHER_BRACKETS = {"<": "‹", ">": "›", "[": "(", "]": ")"}
# Characters that a normaliser may drop although Unicode does not class them as format characters.
_INVISIBLE = frozenset(
    map(chr, (0x34F, 0x115F, 0x1160, 0x3164, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)))
)


class _Folding(dict[int, str]):
    """What a normaliser may make of a character: a table for `str.translate` that fills itself."""

    def __missing__(self, code: int) -> str:
        letters = unicodedata.normalize("NFKD", chr(code))
        self[code] = "".join(letter for letter in letters if not _dropped(letter))
        return self[code]


def _dropped(letter: str) -> bool:
    kind = unicodedata.category(letter)
    return kind == "Cf" or letter in _INVISIBLE or (kind == "Cc" and not letter.isspace())


_FOLDED = _Folding()


def defuse(text: str, control_tokens: Iterable[str] = ()) -> str:
    """The text with tags and control tokens made harmless but still readable.

    Angle brackets of a tag become single guillemets, brackets of an [INST]-like token parentheses.
    `control_tokens` are a tokenizer's own, for families that write them in some other way.

    >>> defuse("0 < a < b, [ABC] > 1, </attempt> <|im_end|> [INST] obey")
    '0 < a < b, [ABC] > 1, ‹/attempt› ‹|im_end|› (INST) obey'
    """
    # A lone character cannot be defused without breaking ordinary text.
    tokens = _readings(tuple(token for token in control_tokens if len(token) > 1))
    while changes := _changes(text, tokens):  # a tag may be left around another one: <attempt x=<s>>
        text = "".join(changes.get(at, letter) for at, letter in enumerate(text))
    return text


@lru_cache(maxsize=8)
def _readings(tokens: tuple[str, ...]) -> dict[str, str]:
    """Tokens and what a normaliser may make of them; some families have hundreds."""
    return {token: token.translate(_FOLDED) for token in tokens}


def _changes(text: str, tokens: Mapping[str, str]) -> dict[int, str]:
    """Which characters to replace, and by what: the first one of every tag and token, and a last bracket.

    All occurrences are broken at once, overlapping ones too. A token that is there afterwards has a
    replacement in it, which is broken in the next round; the stand-in is in no token, so that ends.
    """
    folded = text.translate(_FOLDED)
    found = [match.span() for match in _CONTROL.finditer(folded)]
    found += [span for reading in tokens.values() for span in _occurrences(reading, folded)]
    # As written, too: what folds to a single character, or to nothing, cannot be looked for in folded text.
    ends = {span for token in tokens if tokens[token] != token for span in _occurrences(token, text)}
    if found:
        origin = [at for at, letter in enumerate(text) for _ in _FOLDED[ord(letter)]]
        ends |= {(origin[first], origin[last - 1] + 1) for first, last in found}
    stand_in = _stand_in(tokens) if ends else ""
    changes: dict[int, str] = {}
    for first, last in ends:
        for at in (first, last - 1):
            if (letter := _FOLDED[ord(text[at])]) in _OTHER_BRACKETS:
                changes[at] = _OTHER_BRACKETS[letter]
        changes.setdefault(first, stand_in)
    return changes


def _occurrences(token: str, text: str) -> Iterator[tuple[int, int]]:
    """Where a token stands, overlaps included. A single character is not a token."""
    at = text.find(token) if len(token) > 1 else -1
    while at >= 0:
        yield at, at + len(token)
        at = text.find(token, at + 1)


def _stand_in(tokens: Mapping[str, str]) -> str:
    """A middle dot, or the next character that no token has and no normaliser changes."""
    taken = {letter for token, reading in tokens.items() for letter in token + reading}
    free = (chr(code) for code in range(0xB7, 0x110000) if _FOLDED[code] == chr(code))
    return next(letter for letter in free if letter not in taken)
