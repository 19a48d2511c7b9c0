"""Text of models for a terminal: nothing in it moves the cursor, changes a colour or the direction of a line."""

import re
import unicodedata

# A terminal obeys the controls of both sets; bidirectional marks reorder what stands beside them.
_KINDS = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_SUSPECT = re.compile(r"[^\n\t\x20-\x7e]")


def plain(text: str) -> str:
    r"""The text with every control and format character written out.

    >>> plain("red: \x1b[31m, title: \x9d0;x\x07, back: \u202e")
    'red: <U+001B>[31m, title: <U+009D>0;x<U+0007>, back: <U+202E>'
    """
    return _SUSPECT.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    letter = found[0]
    return f"<U+{ord(letter):04X}>" if unicodedata.category(letter) in _KINDS else letter
