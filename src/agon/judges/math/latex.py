r"""One spelling for one expression: the normalisation before any comparison of math answers.

Dropped: math delimiters, spacing, sizing and style commands, fonts (`\mathrm{e}` is e), a final full
stop. Unified: `\dfrac` and `\frac12`, `\leq` and `<=`, `*` and `\times`, Unicode and plain-text names
(π, sqrt(2), pi, ⅝, x⁻¹, full-width signs), repeating decimals, percent. Degrees become `\degree`, money
keeps its sign. Nothing here evaluates anything, and everything is linear in time.
"""

import re
import unicodedata

# Pairs: the character, and the LaTeX it stands for.
_NAMES = (
    "÷ / ⁄ / ∕ / π \\pi ∞ \\infty √ \\sqrt ∛ \\sqrt[3] ≤ \\leq ≥ \\geq ≦ \\leq ≧ \\geq ⩽ \\leq ⩾ \\geq ≠ \\neq "
    "≈ \\approx ≡ \\equiv ± \\pm ∓ \\mp ∪ \\cup ∩ \\cap ∈ \\in ∖ \\setminus ∨ \\lor ∧ \\land → \\to ⇒ \\Rightarrow "
    "∅ \\emptyset θ \\theta α \\alpha β \\beta γ \\gamma δ \\delta ε \\varepsilon λ \\lambda μ \\mu µ \\mu ρ \\rho "
    "σ \\sigma τ \\tau φ \\varphi ϕ \\phi ψ \\psi ω \\omega Δ \\Delta Ω \\Omega ℓ \\ell ∠ \\angle △ \\triangle "
    "° ^{\\circ} º ^{\\circ} ℃ ^{\\circ}\\text{C} ℉ ^{\\circ}\\text{F} … \\ldots ⟨ \\langle ⟩ \\rangle ∣ | ∶ : "
    "′ ' ″ '' ＄ \\$ 。 . 、 , "
    "ℝ \\mathbb{R} ℤ \\mathbb{Z} ℕ \\mathbb{N} ℚ \\mathbb{Q} ℂ \\mathbb{C}"
)
_NAMED = _NAMES.split()
_FRACTIONS = "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ", "0123456789+-=()ni", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₙₐₓₖ", "0123456789+-=()naxk", strict=True))
_UNICODE = {
    **{chr(0xFEE0 + code): chr(code) for code in range(0x21, 0x7F)},  # full-width forms of ASCII
    **{chr(code): unicodedata.normalize("NFKC", chr(code)) for code in range(0x1D400, 0x1D800)},  # 𝑥
    **dict.fromkeys("−–—﹣－", "-"),
    **dict.fromkeys("×·⋅∗∙", r"\cdot "),
    **dict.fromkeys("\u00a0\u2009\u200a\u202f\u2002\u2003\u2007\u3000", " "),
    **dict.fromkeys("\u200b\u2060\ufeff", ""),
    **{sign: f"{name} " for sign, name in zip(_NAMED[::2], _NAMED[1::2], strict=True)},
    **{sign: r"\frac{" + unicodedata.normalize("NFKC", sign).replace("⁄", "}{") + "}" for sign in _FRACTIONS},
}
_TRANSLATION = str.maketrans(_UNICODE)
_RAISED_RUN, _LOWERED_RUN = (
    re.compile(f"[{''.join(map(re.escape, table))}]+") for table in (_RAISED, _LOWERED)
)
_FROM_RAISED, _FROM_LOWERED = str.maketrans(_RAISED), str.maketrans(_LOWERED)
_OVERLINED = re.compile("((?:[0-9]\u0305)+)")

_FUNCTIONS = "sqrt|exp|ln|log|sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|sinh|cosh|tanh"
# Applied in order; each is a pattern without nested repetition.
_RULES: list[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\s+", " "),
        (r"\\\\(?:\[[^\]]*\])?", r" \\cr "),
        (r"^\s*\*\*|\*\*\s*$", ""),
        (r"\\(?:pounds|textsterling)(?![A-Za-z])", "£"),
        (r"\\(?:euro|texteuro)(?![A-Za-z])", "€"),
        (r"\\textdollar(?![A-Za-z])", r"\\$"),
        (r"^([^$]*)(?<!\\)\$(?= ?\d)([^$]*)$", r"\1\\$\2"),  # one dollar sign alone is money: $18
        (r"(?<!\\)\$+", ""),
        (r"(?<!\\)\\[()]", " "),
        (r"(?<!\\)\\[\[\]]", " "),
        (r",?\\!\s*(?=\d{3})|\{,\}(?=\d{3})", ","),
        (r"\\!", ""),
        (r"^\s*~\s*(?=\d)", r"\\approx "),
        (r"\\(?:[,;: ]|(?:quad|qquad|thinspace|medspace|thickspace|enspace|space)(?![A-Za-z]))|~", " "),
        (r"\\(?:left|right|[bB]igg?[lrm]?|middle)(?![A-Za-z])\s*\.?(?!\d)", ""),
        (r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|rm|bf|it)(?![A-Za-z])", ""),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\[dt]binom(?![A-Za-z])", r"\\binom"),
        (r"\\(?:mathbb|Bbb|mathds)\s*\{?\s*([A-Z])(?![A-Za-z])\s*\}?|\\(?:mathbf|boldsymbol|bm)\s*\{\s*([RZ])\s*\}",
         r"\\mathbb{\1\2}"),
        # An upright letter after a space, a number or a slash is a unit: 5\,\mathrm{N}, \mathrm{~m}/\mathrm{s}.
        (r"\\mathrm\s*\{\s+([A-Za-z])\s*\}", r"\\text{\1}"),
        (r"(\d)\s*\\mathrm\s*\{([NJWVACFTHLmgshl])\}(?=\s*(?:$|[/^\\]))", r"\1\\text{\2}"),
        (r"(/\s*)\\mathrm\s*\{([smhgL])\}(?=\s*(?:$|\^))", r"\1\\text{\2}"),
        (r"\\(?:mathrm|mathit|mathbf|mathsf|boldsymbol|bm|rm|operatorname)\s*\{\s*(\w)\s*\}", r"\1"),
        (r"\\(?:mathrm|mbox|hbox|textrm|textbf|textit|texttt|textsf|textup|mathsf|mathbf|mathit)\s*\{", r"\\text{"),
        (r"\\text\s*\{\s*", r"\\text{"),
        (r"\\lbrace(?![A-Za-z])", r"\\{"),
        (r"\\rbrace(?![A-Za-z])", r"\\}"),
        (r"\\lbrack(?![A-Za-z])", "["),
        (r"\\rbrack(?![A-Za-z])", "]"),
        (r"\\[lr]?vert(?![A-Za-z])", "|"),
        (r"\\(?:leqslant|leqq|le)(?![A-Za-z])|<=|=<", r"\\leq "),
        (r"\\(?:geqslant|geqq|ge)(?![A-Za-z])|>=", r"\\geq "),
        (r"\\(?:not\s*=|ne(?![A-Za-z]))|!=", r"\\neq "),
        (r"\\lt(?![A-Za-z])", "<"),
        (r"\\gt(?![A-Za-z])", ">"),
        (r"\\(?:varnothing)(?![A-Za-z])|\\\{\s*\\\}", r"\\emptyset "),
        (r"\\(?:simeq|thickapprox)(?![A-Za-z])", r"\\approx "),
        (r"\*\*", "^"),
        (r"\\(?:times|ast|cdotp)(?![A-Za-z])|\*", r"\\cdot "),
        (r"(?<=\d)\s*[xX]\s*(?=10\s*\^)", r"\\cdot "),  # 1.5 x 10^3
        (r"\\div(?![A-Za-z])", "/"),
        (r"\\lg(?![A-Za-z])", r"\\log_{10}"),
        (r"\\(?:infin|inf)(?![A-Za-z])|(?<![A-Za-z\\])(?:infinity|infty|inf|oo)(?![A-Za-z])", r"\\infty "),
        (r"(?<![A-Za-z\\])pi(?![A-Za-z])", r"\\pi "),
        (rf"(?<![A-Za-z\\])({_FUNCTIONS})(?=\s*\()", r"\\\1"),
        (r"\\in(?![A-Za-z])\s*([RZNQ])(?![A-Za-z_{(^])", r"\\in \\mathbb{\1}"),
        (r"\s*\(\s*([a-z](?:, ?[a-z])*)\s*\\in(?![A-Za-z])([^()]*)\)\s*$", r", \1 \\in \2"),
        (r"\\%", "%"),
        (r"\s*(?:\\text\{)?\b(?:percent|per cent)\b(?:\s*\})?", "%"),
        (r"\s*(?:\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|\\degree(?![A-Za-z]))\s*", r"\\degree "),
        (r"(\.\d*)\\(?:bar|overline|dot)\s*(?:\{\s*(\d+)\s*\}|(\d))(?!\d*\\dot)", r"\1\\overline{\2\3}"),
        (r"(\.\d*)\\dot\s*\{?(\d)\}?(\d*)\\dot\s*\{?(\d)\}?", r"\1\\overline{\2\3\4}"),
        (r"(\d\.\d*)\((\d+)\)(?![\d.])", r"\1\\overline{\2}"),
        (r"\s+", " "),
    ]
]  # fmt: skip

_GROUP = r"((?:[^{}]|\{[^{}]*\})*)"
# `{10 \choose 3}`. Quadratic in the number of braces, so only tried where the command stands.
_INFIX = [
    (name, re.compile(rf"\{{{_GROUP}\\{name}(?![A-Za-z])\s*{_GROUP}\}}"), replacement)
    for name, replacement in (("choose", r"\\binom{\1}{\2}"), ("over", r"\\frac{\1}{\2}"))
]
_LEAD_IN = re.compile(
    r"^(?:(?:so|thus|hence|therefore|finally)\b,? )?(?:the |my |our )?(?:final |correct )?answer"
    r"(?: is\b| ?[:=]| )[: ]*",
    re.IGNORECASE,
)
_POWER_IN_TEXT = re.compile(r"\\text\{([^{}]*)\^\{(-?\d)\}\s*\}")
_FINAL_MARK = re.compile(r"(?<![.,;:])[.,;:]$")  # not the dots of 0.33...
_PLAIN_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_ONE_ARGUMENT = re.compile(r"\\sqrt(?![A-Za-z])|[\^_]")
_FRACTION = re.compile(r"\\(?:frac|binom)(?![A-Za-z])")
# 2^1.5 is 2^{1.5} and √12 is \sqrt{12}; an index has no decimal point.
_DIGITS = {
    "^": re.compile(r"-?(?:\d*\.\d+|\d+)"),
    "_": re.compile(r"-?\d+"),
    r"\sqrt": re.compile(r"\d+(?:\.\d+)?"),
}
_ARGUMENT = re.compile(r"\\[A-Za-z]+|[^\\\s{}]")
_MAX_DEPTH = 30


def normalise(text: str) -> str:
    r"""The expression in its one spelling.

    >>> normalise(r"$\dfrac12\,\mathrm{e}^{2}$.")
    '\\frac{1}{2} e^{2}'
    """
    if _PLAIN_NUMBER.fullmatch(text):  # most answers: nothing to unify
        return text
    if not text.isascii():
        text = _without_unicode(text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    for name, infix, replacement in _INFIX:
        if "\\" + name in text:
            text = infix.sub(replacement, text)
    text = _LEAD_IN.sub("", text.strip(), count=1)
    text = _POWER_IN_TEXT.sub(r"\\text{\1}^{\2}", _brace_arguments(text))
    return _FINAL_MARK.sub("", text.strip()).strip()


def _without_unicode(text: str) -> str:
    text = _RAISED_RUN.sub(lambda found: f"^{{{found[0].translate(_FROM_RAISED)}}}", text)
    text = _LOWERED_RUN.sub(lambda found: f"_{{{found[0].translate(_FROM_LOWERED)}}}", text)
    text = _OVERLINED.sub(lambda found: r"\overline{" + found[0].replace("\u0305", "") + "}", text)
    return text.translate(_TRANSLATION)


def squeeze(text: str) -> str:
    """Without white space, except where it keeps two numbers or two words apart."""
    return re.sub(r"(?<!\d)(?<![A-Za-z]) | (?![\dA-Za-z])", "", text)


def _brace_arguments(text: str, depth: int = 0) -> str:
    r"""Put braces around arguments that lack them: `\frac12`, `\sqrt2`, `x^2`, `x^(n+1)`."""
    parts: list[str] = []
    at = 0
    while at < len(text):
        command = _FRACTION.match(text, at)
        found = command or _ONE_ARGUMENT.match(text, at)
        if found is None or depth > _MAX_DEPTH:
            parts.append(text[at])
            at += 1
            continue
        parts.append(found[0])
        at = found.end()
        for _ in range(2 if command else 1):
            argument, at = _argument(text, at, found[0], depth)
            parts.append(argument)
    return "".join(parts)


def _argument(text: str, at: int, command: str, depth: int) -> tuple[str, int]:
    """The argument at a position, in braces, and where it ends; no braces if there is no argument."""
    start = at
    while at < len(text) and text[at] == " ":
        at += 1
    if command == r"\sqrt" and text[at : at + 1] == "[" and (index_end := matching(text, at)):
        radicand, end_of_radicand = _argument(text, index_end + 1, command, depth)
        return text[at : index_end + 1] + radicand, end_of_radicand
    if at == len(text) or text[at] == "[":
        return text[start:at], at
    if text[at] == "{" or (text[at] == "(" and not command.startswith((r"\frac", r"\binom"))):
        end = matching(text, at)
        if end is None:
            return text[start:at], at
        return "{" + _brace_arguments(text[at + 1 : end], depth + 1) + "}", end + 1
    digits = _DIGITS[command].match(text, at) if command in _DIGITS else None
    if digits is not None:  # 2^10 is meant as 2^{10}, whatever TeX makes of it
        return "{" + digits[0] + "}", digits.end()
    token = _ARGUMENT.match(text, at)
    if token is None:
        return text[start:at], at
    if token[0] == "-" and (after := _ARGUMENT.match(text, token.end())):  # x^-n
        return "{-" + after[0] + "}", after.end()
    return "{" + token[0] + "}", token.end()


def matching(text: str, at: int) -> int | None:
    """Where the bracket opened at a position is closed; brackets of any kind nest."""
    depth = 0
    for index in range(at, len(text)):
        if text[index] in "([{":
            depth += 1
        elif text[index] in ")]}":
            depth -= 1
            if depth == 0:
                return index
    return None


def split_top(text: str, separator: re.Pattern[str]) -> list[str]:
    r"""The parts of a text between separators, except those inside brackets or environments."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        found = separator.match(text, at) if depth == 0 else None
        if found and found.end() > at:
            parts.append(text[start : found.start()].strip())
            at = start = found.end()
            continue
        if text.startswith(r"\begin", at):
            depth += 1
        elif text.startswith(r"\end", at):
            depth -= 1
        elif text.startswith((r"\langle", r"\lfloor", r"\lceil"), at):
            depth += 1
        elif text.startswith((r"\rangle", r"\rfloor", r"\rceil"), at):
            depth -= 1
        depth += (text[at] in "([{") - (text[at] in ")]}")
        at += 1
    return [*parts, text[start:].strip()]
