r"""Answers in words: `\text{Evelyn}`, yes, `(B)`, "does not exist".

The rules: words are compared letter for letter, without regard to case, `\text`, quotes and final
punctuation; yes is true and no is false; a choice is one capital letter, with or without brackets or "option". Words
never equal a formula, so that `no` is not n times o; only the names of sets do ("all real numbers"). Three
neighbours in the alphabet, or three consonants, are a product: `abc` is `cab` and not `ABC`.
"""

import re

_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_CHOICE = re.compile(r"^(?:option |choice |answer )?[(\[]?([A-Z])[)\].]?$", re.IGNORECASE)
_PROSE = re.compile(r"^[A-Za-z][A-Za-z'’ .,()\-]*$")
_LONG_RUN = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{3,}")
_SHORT = "am an as at be by do go he if in is it me my no of on or so to up us we"
_SHORT_WORDS = frozenset(_SHORT.split())
# Other runs of three letters among symbols are products, as in 2abm.
_THREE_LETTERS = (
    "all and any are arg but can cos cot csc day deg det dim due few for gcd had has her him his how its lcm let "
    "lim log low max may men min mod mph net new nor not now odd off one our out per pct ppm red run say sec see she "
    "sin six sum sup tan ten the top too two use via was way who why won yes yet you"
)
_THREE_LETTER_WORDS = frozenset(_THREE_LETTERS.split())
_MEANS = {"yes": "true", "no": "false"}
_SETS = {
    r"\mathbb{R}": "all real numbers|all reals|all real values|any real number|every real number|all real x"
    "|the set of all real numbers|the set of real numbers|set of all real numbers|set of real numbers"
    "|the real numbers|real numbers|the reals|all real values of x",
    r"\mathbb{Z}": "all integers|the integers|integers|the set of all integers|the set of integers|any integer",
    r"\emptyset": "empty set|the empty set|no solution|no solutions",
    r"(0,\infty)": "positive real numbers|all positive real numbers|positive reals|all positive reals",
    r"(-\infty,0)": "negative real numbers|all negative real numbers|negative reals|all negative reals",
    r"[0,\infty)": "nonnegative real numbers|all nonnegative real numbers|non-negative real numbers"
    "|all non-negative real numbers|all nonnegative reals|all non-negative reals",
}
_SET_NAMES = {name: latex for latex, names in _SETS.items() for name in names.split("|")}
_ALL_BUT = re.compile(
    r"^all real (?:numbers|values)(?: of x)?,? (?:except|excluding|other than|but)(?: for)? (?:x ?= ?)?(.+)$"
)


def named_set(text: str) -> str:
    r"""The LaTeX of a set that is named in words, any other text as it is.

    >>> named_set(r"\text{all reals}"), named_set("all real numbers except 0 and 1"), named_set("x+1")
    ('\\mathbb{R}', '\\mathbb{R}\\setminus\\{0,1\\}', 'x+1')
    """
    if not _LONG_RUN.search(text):
        return text
    plain = unwrapped(text)
    if (found := _ALL_BUT.match(plain)) and not _LONG_RUN.search(found[1].replace(" and ", ",")):
        return r"\mathbb{R}\setminus\{" + re.sub(r",? and ", ",", found[1]) + r"\}"
    return _SET_NAMES.get(plain.lower(), text)


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
    if _is_product(plain) and not _TEXT.search(text):
        return None
    if not long_enough and not (_TEXT.search(text) and len(plain) > 1):
        return None
    spelling = " ".join(re.findall(r"[a-z'’]+", plain.lower()))
    return _MEANS.get(spelling, spelling)


def has_words(text: str) -> bool:
    """Whether there are words among the symbols, so that it must not be read as a formula."""
    if _TEXT.search(text):
        return True
    runs = _LONG_RUN.findall(_COMMAND.sub(" ", text))
    return any(len(run) > 3 or run.lower() in _THREE_LETTER_WORDS for run in runs)


def _is_product(run: str) -> bool:
    """Whether three letters in a row are a product, as in abc and pqr: neighbours in the alphabet, or no vowel."""
    codes = sorted(map(ord, run))
    neighbours = codes[-1] - codes[0] == 2 and len(set(run)) == 3
    return len(run) == 3 and run.isalpha() and (neighbours or not set(run.lower()) & set("aeiou"))


def unwrapped(text: str) -> str:
    """Without `\\text`, quotes and final punctuation."""
    plain = _TEXT.sub(r" \1 ", text)
    plain = " ".join(plain.replace('"', " ").replace("“", " ").replace("”", " ").split()).strip("`.,;:! ")
    return plain[1:-1].strip() if len(plain) > 2 and plain[0] == plain[-1] == "'" else plain


_COMMAND = re.compile(r"\\[A-Za-z]+")
