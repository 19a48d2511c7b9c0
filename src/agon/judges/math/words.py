r"""Answers in words: `\text{Evelyn}`, yes, `(B)`, "does not exist".

The rules: words are compared letter for letter, without regard to case, `\text`, quotes and final
punctuation; yes is true and no is false; a choice is one capital letter, with or without brackets or "option". Words
never equal a formula, so that `no` is not n times o.
"""

import re

_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_CHOICE = re.compile(r"^(?:option |choice |answer )?[(\[]?([A-Z])[)\].]?$", re.IGNORECASE)
_PROSE = re.compile(r"^[A-Za-z][A-Za-z'’ .,()\-]*$")
_LONG_RUN = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{3,}")
_SHORT = "am an as at be by do go he if in is it me my no of on or so to up us we"
_SHORT_WORDS = frozenset(_SHORT.split())
_MEANS = {"yes": "true", "no": "false"}


def choice(text: str) -> str | None:
    r"""The letter of a multiple-choice answer.

    >>> choice(r"\text{(B)}"), choice("Option C"), choice("b"), choice("AB")
    ('B', 'C', None, None)
    """
    found = _CHOICE.match(unwrapped(text))
    return found[1] if found and found[1].isupper() else None


def words(text: str) -> str | None:
    r"""The words of an answer that is in words, in one spelling.

    >>> words(r"\text{Does Not Exist}"), words("x + y"), words("No.")
    ('does not exist', None, 'false')
    """
    plain = unwrapped(text)
    if not _PROSE.match(plain):
        return None
    long_enough = _LONG_RUN.search(plain) or plain.lower() in _SHORT_WORDS
    if not long_enough and not (_TEXT.search(text) and len(plain) > 1):
        return None
    spelling = " ".join(re.findall(r"[a-z'’]+", plain.lower()))
    return _MEANS.get(spelling, spelling)


def has_words(text: str) -> bool:
    """Whether there are words among the symbols, so that it must not be read as a formula."""
    return bool(_TEXT.search(text) or _LONG_RUN.search(_COMMAND.sub(" ", text)))


def unwrapped(text: str) -> str:
    """Without `\\text`, quotes and final punctuation."""
    plain = _TEXT.sub(r" \1 ", text)
    return " ".join(plain.replace('"', " ").replace("“", " ").replace("”", " ").split()).strip("'`.,;:! ")


_COMMAND = re.compile(r"\\[A-Za-z]+")
