r"""Units beside a number: `5\text{ cm}`, `18 eggs`, `\$18`, `90^\circ`, `20 km/h`, `9.8\text{ m}/\text{s}^2`.

The rule: a unit on one side only is dropped; units on both sides must be the same one. Nothing is
converted: 1 m is not 100 cm, and 18 dollars are not 1800 cents. Symbols keep their case (mW is not MW) and
their powers (m/s is not m s).

A scale word is part of the number: 5 million is 5000000, 2 dozen 24. Any other word that changes the value
(half, squared, or, not) is no unit, and a text with one is no number. A lone k, K, M, B or T may be a
scale or a unit, so it is never dropped.
"""

import re
from dataclasses import dataclass

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
    "kg": "kilogram kilo",
    "lb": "pound",
    "oz": "ounce",
    "s": "sec second",
    "min": "minute",
    "h": "hr hour",
    "d": "day",
    "L": "l liter litre",
    "mL": "ml milliliter millilitre",
    "degree": "deg",
    "rad": "radian",
    "dollar": "usd buck",
    "euro": "eur",
    "rupee": "inr rs",
    "cent": "¢",
    "W": "watt",
    "J": "joule",
    "N": "newton",
    "V": "volt",
    "Hz": "hertz",
    "Pa": "pascal",
    "mol": "mole",
    "unit": "",
}
_CANONICAL = {other: unit for unit, others in _SAME.items() for other in others.split()}
_SYMBOL = re.compile(r"[nmcdkMGT]?(?:m|g|s|A|K|mol|L|l|N|J|W|V|Pa|Hz|C|F|T|eV|B|b|Wh|cal|bar|H)")
# Symbols that are units outside `\text` too. Not mg or ms: these are products in physics.
_SYMBOLS = "mW kW MW GW Hz kHz MHz GHz Pa kPa MPa kJ MJ kV mV eV keV MeV GeV nm kWh mol kcal mA kB MB GB"
_NO_PRODUCT = frozenset(_SYMBOLS.split())
_COMPOUNDS = {"mph": "mi/h", "kph": "km/h", "kmph": "km/h", "kmh": "km/h", "mps": "m/s"}
# Outside `\text`, single letters may be variables; these quotients are units all the same.
_QUOTIENTS = "m/s m/s^2 m/s/s m/h m/min g/L g/l g/mol J/K J/kg N/m N/C V/m W/m^2 C/s"
_LETTER_QUOTIENTS = frozenset(_QUOTIENTS.split())

_SCALES = {
    "hundred": 10**2,
    "thousand": 10**3,
    "lakh": 10**5,
    "million": 10**6,
    "crore": 10**7,
    "billion": 10**9,
    "trillion": 10**12,
    "dozen": 12,
}
_VALUE_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty "
    "seventy eighty ninety hundred thousand million billion trillion quadrillion lakh crore mil mio mln mn bn "
    "bln tn myriad googol gross "
    "dozen score half halves third quarter fourth fifth sixth seventh eighth ninth tenth hundredth thousandth "
    "millionth pair couple double triple quadruple twice thrice "
    "squared cubed factorial times plus minus over divided multiplied percent percentage permille permil ppm "
    "ppb bps basis point pp pct pi root mod modulo base power exp e "
    "or and not no nor neither either but if else otherwise unless except without between from to than "
    "less more most least fewer greater about approximately approx roughly around almost nearly circa ca "
    "maybe perhaps possibly probably likely unlikely wrong incorrect false true yes correct right error typo "
    "guess vs versus instead rather originally actually is are was were be equal negative positive opposite "
    "reciprocal inverse below above under off ish max maximum minimum tops remainder x y z n"
)
_CHANGES_THE_VALUE = frozenset(_VALUE_WORDS.split())
_COUNTED = frozenset(["points", "roots", "bases"])  # 5 roots, though root 5 changes a value
_NEVER_DROPPED = frozenset("kKMBTG")
_CURRENCIES = {r"\$": "dollar", "€": "euro", "£": "gbp", "¥": "yen", "₹": "rupee", "₽": "rouble", "₩": "won"}
_SIGN = r"(?:US ?|USD ?)?\\\$|[€£¥₹₽₩]"
_BEFORE = re.compile(
    rf"^([-+]? ?)({_SIGN}|(?:USD|EUR|GBP|INR|Rs)\.? ?(?=\d)) ?(?=[-+.\d\\(])(.*)$", re.DOTALL
)
_AFTER = re.compile(rf"^(.*[\d)}}]) ?({_SIGN})$", re.DOTALL)
_DEGREES = re.compile(r"^(.*[^\s\\])\\degree ?(?:(?:\\text\{ ?)?([CFK])(?: ?\})?)?$", re.DOTALL)
_POWER = r"(?:\^\{-?\d\})?"
_TEXT_TAIL = re.compile(
    rf"^([^A-Za-z]*?|.*?[^\s\\])((?:\s*(?:/|\\cdot)?\s*\\text\{{[^{{}}]*\}}\s*{_POWER})+)$", re.DOTALL
)
_NUMBER = r"(?:[^A-Za-z\\]|\\(?:frac|cdot|sqrt|pi)(?![A-Za-z]))*(?:[\d)}]|\\pi(?= ))"
_WORD_TAIL = re.compile(rf"^({_NUMBER})( ?)([A-Za-z¢][A-Za-z .\-/¢]*?{_POWER})$")
_FACTOR = re.compile(r"([A-Za-zμ¢]+)\.?(?:\^\{(-?\d)\})?|(/)|([*.\-\s]+)|(.)")
_FUNCTION = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc|ln|log|exp|arc)|=|<|>|\\leq|\\geq|\\neq")
_MAX_WORDS = 4


@dataclass(frozen=True)
class Unit:
    """A unit in one spelling, and whether a number without it may be meant."""

    name: str
    may_be_dropped: bool = True


def split_unit(text: str) -> tuple[str, Unit | None]:
    r"""The number and its unit in one spelling, or the text as it is.

    >>> split_unit(r"15\text{cm}^{2}"), split_unit("5 squared")
    (('15', Unit(name='cm^2', may_be_dropped=True)), ('5 squared', None))
    >>> split_unit("5 million dollars")
    ('(5)\\cdot 1000000', Unit(name='dollar', may_be_dropped=True))
    """
    if text.isdigit() or (found := _BEFORE.match(text) or _AFTER.match(text)) is None:
        return _split_tail(text)
    sign, mark, number = (found[1], found[2], found[3]) if found.re is _BEFORE else ("", found[2], found[1])
    currency = next((name for prefix, name in _CURRENCIES.items() if mark.endswith(prefix)), None)
    currency = currency or _singular(mark.strip(" .").lower())
    rest, unit = _split_tail(number.strip())
    if unit is None and re.search(r"\d ?[A-Za-z]{1,2}$", rest):
        return text, None  # `\$5k`, `\$5m`
    name = currency if unit is None or unit.name == currency else f"{currency} {unit.name}"
    return (sign.strip() + rest), Unit(name, unit is None or unit.may_be_dropped)


def changes_the_value(text: str) -> bool:
    """Whether one of the words is no name of anything: not, or, about, half."""
    return any(
        {word, word.removesuffix("s")} & _CHANGES_THE_VALUE
        for word in re.findall(r"[a-z]+", text.replace(r"\text", " ").lower())
    )


def _split_tail(text: str) -> tuple[str, Unit | None]:
    if text.isdigit():
        return text, None
    if found := _DEGREES.match(text):
        if _FUNCTION.search(found[1]) or r"\degree" in found[1]:
            return text, None  # in \sin 10^\circ the degree belongs to the 10
        return found[1].strip(), Unit("degree" + (f" {found[2]}" if found[2] else ""))
    if found := _TEXT_TAIL.match(text):
        number, tail = found.groups()
        if not number.strip() or _FUNCTION.search(number) or r"\text" in number:
            return text, None
    elif found := _WORD_TAIL.match(text):
        number, space, tail = found.groups()
        if not _is_unit(tail, bool(space)) or ("\\" in number and not space):
            return text, None
    else:
        return text, None
    return _with_scale(text, number.strip(), tail)


def _with_scale(text: str, number: str, tail: str) -> tuple[str, Unit | None]:
    plain = re.sub(r"\\text\{\s*([^{}]*?)\s*\}\s*", r" \1", tail).replace(r"\cdot", "*")
    first, _, rest = plain.strip().partition(" ")
    scale = _SCALES.get(first.lower().rstrip("s") if first.lower() not in _SCALES else first.lower())
    if scale is not None and "/" not in number:  # 1/2 million is left alone
        number, plain = rf"({number})\cdot {scale}", rest
        if not plain.strip():
            return number, None
        if plain.strip().split()[0].lower() == "of":
            plain = plain.strip()[2:]
    unit = _spelling(plain)
    return (number, unit) if unit else (text, None)


def _is_unit(tail: str, after_space: bool) -> bool:
    r"""Outside `\text`, letters may be variables: `2i`, `3xy`. Only a known unit may follow the number
    without a space; a single letter is a unit only in a quotient, as in km/h."""
    parts = re.findall(r"[A-Za-z¢]+", re.sub(r"\^\{-?\d\}", "", tail))
    if tail.replace("{", "").replace("}", "").replace(" ", "") in _LETTER_QUOTIENTS:
        return after_space
    known = [_is_known(part, after_space) for part in parts]
    if "/" in tail and len(parts[0]) > 1 and known[0]:
        return all(
            len(part) > 2 or part == "h" or _is_known(part) or _SYMBOL.fullmatch(part) for part in parts
        )
    return all(known) or (
        after_space and all(is_known or len(part) > 2 for part, is_known in zip(parts, known, strict=True))
    )


def _is_known(part: str, after_space: bool = True) -> bool:
    lower = part.lower()
    named = {lower, lower.removesuffix("s")} & {*_SAME, *_CANONICAL, *_COMPOUNDS, "sq", "cu"}
    return part == "¢" or (len(part) > 1 and (bool(named) or (after_space and part in _NO_PRODUCT)))


def _spelling(tail: str) -> Unit | None:
    """The factors of a unit with their powers, in one order; None if something in it is no unit."""
    factors: dict[str, int] = {}
    sign, squares, words, droppable = 1, 1, 0, True
    for word, power, slash, space, other in _FACTOR.findall(tail):
        if other:
            return None
        if slash or word.lower() in ("per", "a", "an", "each"):
            sign = -1
        elif space or word.lower() in ("of", "the"):
            continue
        elif word.lower() in ("square", "sq", "cubic", "cu"):
            squares = 2 if word.lower() in ("square", "sq") else 3
        elif word:
            name = _singular(word)
            spelled = {word} if len(word) == 1 else {word.lower(), name.lower()}  # n counts, N is newton
            if word.lower() not in _COUNTED and spelled & _CHANGES_THE_VALUE:
                return None
            droppable &= word not in _NEVER_DROPPED
            words += 1
            for part in _COMPOUNDS.get(name, name).split("/"):
                factors[part] = factors.get(part, 0) + sign * squares * int(power or 1)
                sign = -sign
            sign = squares = 1
    if not factors or words > _MAX_WORDS:
        return None
    name = " ".join(part + (f"^{power}" if power != 1 else "") for part, power in sorted(factors.items()))
    return Unit(name, droppable)


def _singular(word: str) -> str:
    """One spelling of a unit's word. Symbols keep their case: mW, MW."""
    if _SYMBOL.fullmatch(word) or len(word) == 1:
        return _CANONICAL.get(word, word)
    word = word.lower()
    word = _CANONICAL.get(word, word)
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    return _CANONICAL.get(word, word)
