r"""One spelling for one expression: the normalisation before any comparison of math answers.

Dropped: math delimiters, spacing, sizing and style commands, fonts (`\mathrm{e}` is e), a final full
stop. Unified: `\dfrac` and `\frac12`, `\leq` and `<=`, `*` and `\times`, Unicode and plain-text names
(π, sqrt(2), pi), degrees, percent. Nothing here evaluates anything, and everything is linear in time.
"""

import re

# Pairs: the character, and the LaTeX it stands for.
_NAMES = (
    "÷ / ⁄ / ∕ / π \\pi ∞ \\infty √ \\sqrt ≤ \\leq ≥ \\geq ≠ \\neq ≈ \\approx ± \\pm ∪ \\cup ∩ \\cap ∈ \\in "
    "∅ \\emptyset θ \\theta α \\alpha β \\beta γ \\gamma λ \\lambda μ \\mu φ \\varphi ω \\omega ° ^{\\circ} "
    "ℝ \\mathbb{R} ℤ \\mathbb{Z} ℕ \\mathbb{N} ℚ \\mathbb{Q} ℂ \\mathbb{C} "
    "½ \\frac{1}{2} ⅓ \\frac{1}{3} ⅔ \\frac{2}{3} ¼ \\frac{1}{4} ¾ \\frac{3}{4}"
)
_NAMED = _NAMES.split()
_UNICODE = {
    **dict.fromkeys("−–—﹣－", "-"),
    **dict.fromkeys("×·⋅∗∙", r"\cdot "),
    **dict.fromkeys("\u00a0\u2009\u200a\u202f\u2002\u2003\u2007", " "),
    **dict.fromkeys("\u200b\u2060\ufeff", ""),
    **{sign: f"{name} " for sign, name in zip(_NAMED[::2], _NAMED[1::2], strict=True)},
    **{chr(0xFF10 + digit): str(digit) for digit in range(10)},
    **{raised: f"^{{{plain}}}" for raised, plain in zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True)},
    **{lowered: f"_{{{plain}}}" for lowered, plain in zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True)},
}
_TRANSLATION = str.maketrans(_UNICODE)

_FUNCTIONS = "sqrt|exp|ln|log|sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|sinh|cosh|tanh"
# Applied in order; each is a pattern without nested repetition.
_RULES: list[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\s+", " "),
        (r"\\\\(?:\[[^\]]*\])?", r" \\cr "),
        (r"^\s*\*\*|\*\*\s*$", ""),
        (r"\\\$|[€£¥₹]|\\pounds\b|\\euro\b", ""),
        (r"\$+", ""),
        (r"(?<!\\)\\[()]", " "),
        (r"(?<!\\)\\[\[\]]", " "),
        (r",?\\!\s*(?=\d{3})|\{,\}(?=\d{3})", ","),
        (r"\\!", ""),
        (r"\\(?:[,;: ]|(?:quad|qquad|thinspace|medspace|thickspace|enspace|space)(?![A-Za-z]))|~", " "),
        (r"\\(?:left|right|[bB]igg?[lrm]?|middle)(?![A-Za-z])\s*\.?(?!\d)", ""),
        (r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|rm|bf|it)(?![A-Za-z])", ""),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\[dt]binom(?![A-Za-z])", r"\\binom"),
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
        (r"\\div(?![A-Za-z])", "/"),
        (r"\\lg(?![A-Za-z])", r"\\log_{10}"),
        (r"\\(?:infin|inf)(?![A-Za-z])|(?<![A-Za-z\\])(?:infinity|infty|inf|oo)(?![A-Za-z])", r"\\infty "),
        (r"(?<![A-Za-z\\])pi(?![A-Za-z])", r"\\pi "),
        (rf"(?<![A-Za-z\\])({_FUNCTIONS})(?=\s*\()", r"\\\1"),
        (r"\\%", "%"),
        (r"\s*(?:\\text\{)?\b(?:percent|per cent)\b(?:\s*\})?", "%"),
        (r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|\\degree(?![A-Za-z])", r"\\text{degrees}"),
        (r"\s+", " "),
    ]
]  # fmt: skip

_LEAD_IN = re.compile(
    r"^(?:(?:so|thus|hence|therefore|finally)\b,? )?(?:the |my |our )?(?:final |correct )?answer"
    r"(?: is\b| ?[:=]| )[: ]*",
    re.IGNORECASE,
)
_ONE_ARGUMENT = re.compile(r"\\sqrt(?![A-Za-z])|[\^_]")
_FRACTION = re.compile(r"\\(?:frac|binom)(?![A-Za-z])")
_EXPONENT = re.compile(r"-?\d+")
_ARGUMENT = re.compile(r"\\[A-Za-z]+|[^\\\s{}]")
_MAX_DEPTH = 30


def normalise(text: str) -> str:
    r"""The expression in its one spelling.

    >>> normalise(r"$\dfrac12\,\mathrm{e}^{2}$.")
    '\\frac{1}{2} e^{2}'
    """
    text = text.translate(_TRANSLATION)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = _LEAD_IN.sub("", text.strip(), count=1)
    text = _brace_arguments(text)
    return text.strip().rstrip(".,;:").strip()


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
    if at == len(text) or text[at] == "[":  # \sqrt[3]{2}
        return text[start:at], at
    if text[at] == "{" or (text[at] == "(" and not command.startswith((r"\frac", r"\binom"))):
        end = matching(text, at)
        if end is None:
            return text[start:at], at
        return "{" + _brace_arguments(text[at + 1 : end], depth + 1) + "}", end + 1
    digits = _EXPONENT.match(text, at) if command in ("^", "_") else None
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
