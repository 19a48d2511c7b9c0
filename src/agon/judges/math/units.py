r"""Units after a number: `5\text{ cm}`, `18 eggs`, `90^\circ`, `15\mbox{ cm}^2`.

The rule: a unit on one side only is dropped; units on both sides must be the same one. Nothing is
converted: 1 m is not 100 cm. A word that changes the value (million, dozen, half, squared, or, not) is
no unit, and a text that ends in one is no number.
"""

import re

_SAME = {
    "cm": "centimeter centimetre",
    "mm": "millimeter millimetre",
    "m": "meter metre",
    "km": "kilometer kilometre",
    "in": "inch inche",
    "ft": "foot feet",
    "yd": "yard",
    "mi": "mile",
    "g": "gram gm",
    "kg": "kilogram",
    "lb": "pound",
    "s": "sec second",
    "min": "minute",
    "h": "hr hour",
    "l": "liter litre",
    "ml": "milliliter millilitre",
    "degree": "deg",
    "rad": "radian",
    "dollar": "usd buck",
    "cent": "¢",
    "unit": "",
}
_CANONICAL = {other: unit for unit, others in _SAME.items() for other in others.split()}

_VALUE_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty "
    "seventy eighty ninety hundred hundreds thousand thousands million millions billion billions trillion "
    "dozen dozens score half halves third thirds quarter quarters fourth fourths fifth fifths sixth sixths "
    "seventh sevenths eighth eighths ninth ninths tenth tenths hundredth hundredths thousandth thousandths "
    "squared cubed factorial times plus minus over divided multiplied percent pi root mod modulo base power "
    "or and not no nor neither either but if else otherwise unless except without between from to than "
    "less more most least fewer greater about approximately roughly around almost nearly maybe perhaps "
    "possibly probably wrong incorrect false true yes x y z n"
)
_CHANGES_THE_VALUE = frozenset(_VALUE_WORDS.split())
_TEXT_TAIL = re.compile(r"^(.*[^\s\\])\s*\\text\{([^{}]*)\}\s*(?:\^\{([23])\})?$", re.DOTALL)
_WORD_TAIL = re.compile(r"^([^A-Za-z\\]*\d\)?)( ?)([A-Za-z¢][A-Za-z .\-/¢]*?)(?:\^\{([23])\})?$")


def split_unit(text: str) -> tuple[str, str | None]:
    r"""The number and its unit in one spelling, or the text as it is.

    >>> split_unit(r"15\text{cm}^{2}"), split_unit("3 square feet"), split_unit("5 million")
    (('15', 'cm^2'), ('3', 'ft^2'), ('5 million', None))
    """
    if found := _TEXT_TAIL.match(text):
        number, tail, power = found.groups()
    elif found := _WORD_TAIL.match(text):
        number, space, tail, power = found.groups()
        if not _is_unit(tail, bool(space)):
            return text, None
    else:
        return text, None
    unit = _spelling(tail, power) if "\\text" not in number else None
    return (number.strip(), unit) if unit else (text, None)


def _is_unit(tail: str, after_space: bool) -> bool:
    """Outside `\\text`, letters may be variables: `2i`, `3xy`. Only a known unit may follow the number
    without a space."""
    parts = re.findall(r"[a-z¢]+", tail.lower())
    known = [
        len(part) > 1 and (part in _SAME or part.removesuffix("s") in {*_SAME, *_CANONICAL}) for part in parts
    ]
    return all(known) or (
        after_space and all(is_known or len(part) > 2 for part, is_known in zip(parts, known, strict=True))
    )


def _spelling(words: str, power: str | None) -> str | None:
    parts = re.findall(r"[a-z¢]+", words.lower())
    if not parts or len(parts) > 6 or any(part in _CHANGES_THE_VALUE for part in parts):
        return None
    if parts[0] in ("square", "sq", "cubic", "cu") and len(parts) > 1:
        power = "2" if parts[0] in ("square", "sq") else "3"
        parts = parts[1:]
    singular = [_singular(part) for part in parts]
    return " ".join(singular) + (f"^{power}" if power else "")


def _singular(word: str) -> str:
    word = _CANONICAL.get(word, word)
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    return _CANONICAL.get(word, word)
