"""Three math judges on real golds, rewritten so that they stay right and changed so that they become wrong.

    python scripts/judges_differential.py ../shared/data                 # 300 golds, about three minutes
    python scripts/judges_differential.py ../shared/data --golds 1500 --only ours

Every gold of GSM8K, MATH, MATH-500 and DeepMath that is drawn is rewritten (spacing, `\\dfrac`, boxes, order
of a sum, decimals, a unit or a name on one side, sympy's own printing) and changed (negated, a number
or a sign altered, in bars, hedged, brackets or order swapped). Each answer goes to our judge, to bare
math-verify and to an equality by sympy alone. One JSON object: for each kind of rewriting how many answers
there were and how many verdicts of each judge were not what the kind says, and the answers that ours got wrong.

A rewriting is right and a change wrong by construction, so a disagreement is an error of a judge or, rarely, of
the generator; look at it. The exit status is 1 if ours accepted an answer that was made to be wrong.
"""

import argparse
import json
import logging
import random
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.game.problem import Problem
from agon.judges.math.latex import split_top
from agon.judges.math.rationals import read_rational
from agon.judges.math.symbolic import parse
from agon.judges.pool import JudgePool

Judge = Callable[[str, str], bool]
_SECONDS = 3
_FILES = (
    ("gsm8k/test.jsonl", "answer"),
    ("math/train.jsonl", "answer"),
    ("math500/test.jsonl", "answer"),
    ("deepmath_5k/train.jsonl", "final_answer"),
)
_PLAIN = re.compile(r"^[^=<>,;:]*$")
# What sympy prints differently from how it was written: functions without a name of their own, the letter I.
_MISPRINTED = re.compile(r"[A-Za-z](?:\^\d)?(?:_\w|_\{[^{}]*\})?\(|I|!|\^\{?T|zeta")
_RELATION = re.compile(
    r"\\(?:leq?|geq?|neq?|in|cup|cap|text|mathbb|begin|mbox|setminus|pm|infty|approx|equiv|to|overline)"
)
_SUM = re.compile(r"(?=[+-])")


@dataclass(frozen=True)
class Answer:
    """A gold, an answer made from it, how, and whether it is still right."""

    gold: str
    text: str
    kind: str
    right: bool


def golds(data: Path, count: int, seed: int) -> list[str]:
    """A sample of the golds, without repetitions."""
    found = set()
    for name, field in _FILES:
        for line in (data / name).read_text("utf-8").splitlines():
            gold = json.loads(line)[field].split("#### ")[-1].strip()
            if 0 < len(gold) < 200 and _balanced(gold):
                found.add(gold)
    return random.Random(seed).sample(sorted(found), min(count, len(found)))


def is_formula(gold: str) -> bool:
    """One expression: no relation, list or words."""
    words = re.search(r"[A-Za-z]{3,}|^[A-Za-z]{2}$", re.sub(r"\\[A-Za-z]+", "", gold))
    return (
        bool(_PLAIN.match(gold))
        and not _RELATION.search(gold)
        and not words
        and not gold.startswith((r"\{", "["))
    )


def rewritings(gold: str) -> Iterator[tuple[str, str]]:
    """Texts that say the same as the gold, by kind."""
    yield "box", rf"Therefore $\boxed{{{gold}}}$."
    yield "delimiters", f"$ {gold} $"
    yield (
        "spacing",
        re.sub(r"(?<![\\^_])([-+=,])", r"\\, \1 \\;", gold)
        if r"\!" not in gold and "{,}" not in gold
        else gold,
    )
    if r"\frac" in gold:
        yield "dfrac", gold.replace(r"\frac", r"\dfrac")
        slashed = re.sub(r"\\[dt]?frac\{(\d+)\}\{(\d+)\}", r"(\1/\2)", gold)
        if slashed != gold and not re.search(r"(?:\d|\\[a-z]{3})\s*\\[dt]?frac|pmatrix", gold):
            yield "slash", slashed
    if re.match(r"^[^\\]*\(.*\)$", gold) and gold.startswith("("):
        yield "left and right", r"\left" + gold[:-1] + r"\right" + gold[-1]
    inside = re.match(r"^\\\{(.*)\\\}$", gold)
    if inside and not re.search(r"\\mid|\||:", gold):
        yield "set in reverse", r"\{" + ", ".join(reversed(split_top(inside[1], re.compile(",")))) + r"\}"
    if not is_formula(gold):
        return
    yield "name", f"x = {gold}" if "x" not in gold else f"y = {gold}"
    yield "equal to itself", f"{gold} = {gold}"
    number = read_rational(gold)
    if number is not None and not number.percent:
        yield "unit", rf"{gold}\text{{ cm}}"
        yield "unit in words", f"{gold} apples"
        if re.fullmatch(r"\d{4,}", gold):
            yield "thousands", f"{int(gold):,}"
            yield "money", rf"\${int(gold):,}"
        if abs(number.value) < 10**9 and 10**6 % number.value.denominator == 0:
            yield "decimal", f"{float(number.value):.6f}"
    terms = [term for term in _SUM.split(gold) if term.strip()]
    if len(terms) > 1 and all(_balanced(term) for term in terms) and number is None and "e" not in gold:
        turned = "".join(term if term[0] in "+-" else f"+{term}" for term in reversed(terms))
        yield "sum in reverse", turned.removeprefix("+")
    parsed = _sympy(gold)
    if parsed is not None and number is None and parsed.free_symbols and not _MISPRINTED.search(gold):
        import sympy

        yield "printed by sympy", sympy.latex(parsed)
        yield "expanded by sympy", sympy.latex(sympy.expand(parsed))


def changes(gold: str, random_source: random.Random) -> Iterator[tuple[str, str]]:
    """Texts that say something else than the gold, by kind."""
    digits = [found.span() for found in re.finditer(r"\d+", gold)]
    # Not in a binomial: 99 over 49 is 99 over 50.
    if digits and "binom" not in gold and not re.match(r"^0[.,]?0*$", gold):
        start, end = random_source.choice(digits)
        yield "one number larger", gold[:start] + str(int(gold[start:end]) + 1) + gold[end:]
    other = 271 if gold != "271" else 272
    yield "hedge", rf"{gold} \text{{ or }} {other}"
    yield "two boxes", rf"\boxed{{{gold}}} or \boxed{{{other}}}"
    yield "negated in words", rf"\text{{not }} {gold}"
    pair = re.fullmatch(r"([(\[])([^,()\[\]]+),([^,()\[\]]+)([)\]])", gold)
    if pair:
        opening, first, second, closing = pair.groups()
        yield "brackets", {"(": "[", "[": "("}[opening] + f"{first},{second}{closing}"
        if first.strip() != second.strip():
            yield "swapped", f"{opening}{second},{first}{closing}"
    if "," in gold and not re.fullmatch(r"[\d,.]+", gold) and r"\!" not in gold and gold[0] not in "([":
        yield "one too many", f"{gold}, 271"
    parsed = _sympy(gold) if is_formula(gold) else None
    if parsed is None:
        return
    yield "plus one", f"({gold})+1"
    yield "twice", rf"2\cdot({gold})"
    yield "scale word", f"{gold} thousand"
    if parsed != 0:
        yield "negated", f"-({gold})"
    if _takes_negative_values(parsed) and not _MISPRINTED.search(gold):
        yield "in bars", f"|{gold}|"
        yield "root of its square", rf"\sqrt{{({gold})^2}}"
        symbol = sorted(map(str, parsed.free_symbols))[0]
        if re.fullmatch(r"[a-zA-Z]", symbol):
            yield "another letter", re.sub(rf"(?<![A-Za-z\\]){symbol}(?![A-Za-z])", r"\\xi ", gold)


def _takes_negative_values(expression: Any) -> bool:
    """Whether it is a real number below zero at one of a few points, so that its bars matter."""
    if "i" in map(str, expression.free_symbols):
        return False
    for place in (-2.7, 3.3, -0.4, 0.6):
        value = expression.subs(
            {symbol: place + index for index, symbol in enumerate(sorted(expression.free_symbols, key=str))}
        ).evalf()
        if expression.free_symbols and value.is_real and value < 0:
            return True
    return False


def _balanced(text: str) -> bool:
    pairs = (("(", ")"), ("[", "]"), ("{", "}"), (r"\{", r"\}"))
    return all(text.count(opening) == text.count(closing) for opening, closing in pairs)


def _sympy(gold: str) -> Any:
    """The expression of a gold that math-verify's parser reads, None if it is none."""
    import sympy

    parsed = parse(gold)
    return (
        parsed if isinstance(parsed, sympy.Expr) and not parsed.has(sympy.oo, sympy.nan, sympy.zoo) else None
    )


def made(drawn: Sequence[str], seed: int) -> list[Answer]:
    """All answers made from the golds."""
    random_source = random.Random(seed)
    answers = []
    for gold in drawn:
        try:
            with alarm(_SECONDS):
                kinds = [
                    *((*kind, True) for kind in rewritings(gold)),
                    *((*kind, False) for kind in changes(gold, random_source)),
                ]
        except Exception:  # sympy could not print or expand it
            continue
        answers += [
            Answer(gold, text, kind, right) for kind, text, right in kinds if not (text == gold and not right)
        ]
    return answers


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in this thread after a while; sympy may take for ever."""

    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def by_math_verify(gold: str, answer: str) -> bool:
    """math-verify as its documentation shows it, without its timeouts."""
    import math_verify

    first, second = (math_verify.parse(f"${text}$", parsing_timeout=None) for text in (gold, answer))
    return bool(math_verify.verify(first, second, timeout_seconds=None))


def by_sympy(gold: str, answer: str) -> bool:
    """The parser of math-verify, then sympy's own equality."""
    import math_verify
    import sympy

    first, second = (math_verify.parse(f"${text}$", parsing_timeout=None)[:1] for text in (gold, answer))
    if not first or not second:
        return False
    if isinstance(first[0], sympy.Expr) and isinstance(second[0], sympy.Expr):
        return bool((first[0] - second[0]).equals(0))
    return bool(first[0] == second[0])


def verdicts(judge: Judge, answers: Sequence[Answer]) -> list[bool]:
    given = []
    for answer in answers:
        try:
            with alarm(_SECONDS):
                given.append(judge(answer.gold, answer.text))
        except Exception:  # whatever a parser raises is a verdict of wrong
            given.append(False)
    return given


def our_verdicts(answers: Sequence[Answer]) -> list[bool]:
    with JudgePool("math", workers=2) as pool:
        asked = (
            (Problem(id="p", prompt="", task="t", answer=answer.gold), answer.text) for answer in answers
        )
        return [verdict.correct for verdict in pool.judge_all(asked)]


def compare(answers: Sequence[Answer], judges: dict[str, list[bool]]) -> dict[str, Any]:
    """Counts by kind, and what ours got wrong."""
    counts: dict[str, dict[str, Any]] = {}
    totals: dict[str, dict[str, int]] = {name: defaultdict(int) for name in judges}
    for at, answer in enumerate(answers):
        row = counts.setdefault(
            answer.kind, {"right": answer.right, "answers": 0, **dict.fromkeys(judges, 0)}
        )
        row["answers"] += 1
        for name, given in judges.items():
            row[name] += given[at] != answer.right
            if given[at] != answer.right:
                totals[name]["false wrong" if answer.right else "false right"] += 1
    listed = [
        [answer.kind, answer.gold, answer.text]
        for answer, correct in zip(answers, judges["ours"], strict=True)
        if correct != answer.right
    ]
    return {"answers": len(answers), "totals": totals, "errors by kind": counts, "listed": listed}


def run(data: Path, count: int, seed: int, only_ours: bool) -> dict[str, Any]:
    """The whole comparison on a sample of golds."""
    logging.disable(logging.CRITICAL)
    answers = made(golds(data, count, seed), seed)
    judges = {"ours": our_verdicts(answers)}
    if not only_ours:
        judges |= {"math-verify": verdicts(by_math_verify, answers), "sympy": verdicts(by_sympy, answers)}
    return {"golds": count, "seed": seed, **compare(answers, judges)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder with gsm8k, math, math500 and deepmath_5k")
    parser.add_argument("--golds", type=int, default=300, help="how many golds are drawn (default: 300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=["ours"], help="do not ask the other judges")
    arguments = parser.parse_args()
    shown = run(arguments.data, arguments.golds, arguments.seed, arguments.only == "ours")
    print(json.dumps(shown, ensure_ascii=False, indent=1))
    return int(shown["totals"]["ours"].get("false right", 0) > 0)


if __name__ == "__main__":
    sys.exit(main())
