"""Strings that no sane model writes, for a judge that must survive them all. The same for a seed."""

import random
from collections.abc import Callable, Iterator

_TOKENS = (
    r"\frac \sqrt \left \right \begin{pmatrix} \end{pmatrix} \boxed \text \cup \infty \pm \sum \int \prod \lim "
    r"\sin \log \binom \overline \mathbb \{ \} { } ( ) [ ] ^ _ & \\ $ $$ % ! = < > , ; + - * / | ' . 0 1 2 7 42 "
    r"10^{10} x y n e i \pi \theta \in \neq \leq \to \circ \cdot or and"
)
_LATEX = _TOKENS.split()
_BOMBS = (
    r"10^{10^{10^{10}}}",
    r"9^{9^{9^{9^{9}}}}",
    r"((((((9!)!)!)!)!)!)!",
    r"2^{2^{2^{2^{2^{2}}}}}",
    r"\sum_{n=1}^{10^{9}} n^{n}",
    r"\prod_{n=1}^{\infty} \frac{n!}{n^{n}}",
    r"\int_0^{\infty} e^{-x^{x^{x}}} dx",
    r"\binom{10^{9}}{5 \cdot 10^{8}}",
    r"(x+y+z+w)^{500}",
    r"\sqrt[10^{9}]{10^{10^{9}}}",
    r"\sin(\sin(\sin(\sin(10^{100}))))",
    r"x^{1000000} - (x+1)^{1000000}",
    r"\zeta(\frac{1}{2} + 10^{6} i)",
    r"1e999999999",
    r"0.\overline{" + "9" * 500 + "}",
    "__import__('os').system('touch /tmp/agon-canary')",
    "lambda: exec('while True: pass')",
    "\\text{" * 200 + "}" * 200,
)


def hostile(count: int, seed: int = 0) -> Iterator[str]:
    """A stream of hostile answers."""
    chance = random.Random(seed)
    makers: list[Callable[[random.Random], str]] = [
        _ascii, _unicode, _soup, _soup, _soup, _nested, _digits, _boxes, _repeats, _arithmetic, _bomb, _bytes,
    ]  # fmt: skip
    for _ in range(count):
        yield chance.choice(makers)(chance)


def _length(chance: random.Random) -> int:
    return chance.choice((1, 3, 10, 30, 100, 300, 2000, 20_000))


def _ascii(chance: random.Random) -> str:
    return "".join(chr(chance.randrange(32, 127)) for _ in range(min(_length(chance), 2000)))


def _unicode(chance: random.Random) -> str:
    return "".join(chr(chance.randrange(1, 0x2FFFF)) for _ in range(min(_length(chance), 300)))


def _bytes(chance: random.Random) -> str:
    return "".join(chr(chance.choice((0, 9, 10, 13, 27, 92, 123, 125, 0xD800, 0xFFFF))) for _ in range(50))


def _soup(chance: random.Random) -> str:
    return chance.choice(("", " ")).join(chance.choices(_LATEX, k=chance.randrange(1, 60)))


def _nested(chance: random.Random) -> str:
    depth = chance.choice((5, 20, 50, 200, 5000))
    opening, closing = chance.choice(
        (("(", ")"), ("{", "}"), (r"\frac{1}{", "}"), (r"\sqrt{", "}"), ("[", "]"), ("-(", ")"))
    )
    return opening * depth + "1" + closing * chance.choice((depth, depth - 1, 0))


def _digits(chance: random.Random) -> str:
    number = "".join(chance.choices("0123456789", k=_length(chance)))
    return chance.choice(
        (number, number + "." + number, "1/" + number, number + "!", "2^{" + number + "}", "-" + number)
    )


def _boxes(chance: random.Random) -> str:
    return " ".join(
        rf"\boxed{{{chance.choice(('42', '41', 'x', '', _soup(chance)))}}}"
        for _ in range(chance.randrange(1, 9))
    )


def _repeats(chance: random.Random) -> str:
    return chance.choice(
        (
            r"\text{",
            "$",
            r"\(",
            "1,",
            "x=",
            "1 or ",
            r"\pm",
            r"\cup",
            "'",
            "!",
            "^",
            "_",
            " ",
            "a",
            "&",
            r"\\",
        )
    ) * _length(chance)


def _arithmetic(chance: random.Random) -> str:
    parts = [
        str(chance.randrange(1, 100)) + chance.choice("+-*/^!%.,= ") for _ in range(chance.randrange(1, 40))
    ]
    return "".join(parts) + "1"


def _bomb(chance: random.Random) -> str:
    return chance.choice(_BOMBS) + chance.choice(("", " + 1", " = 42", ", 42", "x"))
