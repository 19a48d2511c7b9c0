r"""The math judge: is this answer the gold answer?

The rules, in the order in which they are tried (docs/judges.md gives examples of each):

1.  Only the answer section counts: its last box, or all of it where there is no box; boxes that differ
    score zero. Both sides are brought into one spelling (`latex.py`). The same text is the same answer;
    beyond 2,000 characters nothing else is tried.
2.  Words (`words.py`): letter for letter. A choice is its capital letter. Lists of words keep their order.
    Sets of real numbers (`real_sets.py`): interval, inequality and set-builder are one and the same.
3.  Structure (`structure.py`): tuples and intervals in order and with their brackets; sets, unions and
    lists without brackets in any order; matrices cell by cell; a set of one item is that item; a list
    matches a tuple in the same order; values belong to their names; the counts always agree. `1 or 2` is a
    list of two, so a hedge never counts as the one answer it contains.
4.  Names (`names.py`): `x = 5` and `AB = 5` are 5, and another name is another answer. In a chain
    `a = b = c` every side but a leading name must be the gold. `x \in S` is S.
5.  Rational numbers are compared exactly (`rationals.py`). A decimal may stand for a value if the relative
    error is at most 1e-6, but for an integer below 10^15 only if it is that integer.
6.  Percent: 50% is 50% and 1/2; it is also 50 if the gold is 1 or more. Units and currencies (`units.py`):
    dropped if on one side only, otherwise the same; a scale word is part of the number. A base (`52_8`) may
    be left out, never added or changed (`values.py`).
7.  Expressions by value, equations and inequalities up to a constant factor, everything else by
    math-verify's comparison (`symbolic.py`).
"""

import logging
from dataclasses import dataclass, field

from agon.game.answers import final_answer
from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.judges.limits import Limits
from agon.judges.math.equality import equal


@dataclass(frozen=True)
class MathJudge:
    """Accepts what equals the gold by the rules above."""

    limits: Limits = field(default_factory=Limits)

    def warm(self) -> None:
        """Import math-verify and sympy and fill the parser's caches, before any deadline runs."""
        logging.getLogger("math_verify").setLevel(logging.ERROR)
        for gold, answer in _WARM_UP:
            equal(gold, answer)

    def judge(self, problem: Problem, answer: str) -> Verdict:
        if not problem.answer.strip():
            return Verdict(False, "error", "The problem has no gold answer.")
        given = final_answer(answer, equal)
        if isinstance(given, Verdict):
            return given
        if equal(problem.answer, given):
            return Verdict(True, "correct")
        return Verdict(False, "wrong")


_WARM_UP = [
    (r"\frac{\sqrt{3}}{2}+x^{2}y_{1}", r"x^{2}y_{1}+\sqrt{3}/2"),
    (r"\sin(2x)\cos x+e^{-x}\ln|x|", r"e^{-x}\ln|x|+\cos x\sin 2x"),
    (r"(-\infty,0)\cup(0,\infty)", r"\mathbb{R}\setminus\{0\}"),
    (r"1<x\leq 2", r"x\in(1,2]"),
    (r"y=2x+3", r"2x-y+3=0"),
    (r"\int_{0}^{1}x\,dx", r"\sum_{n=1}^{\infty}\frac{1}{n^{2}}"),
    (r"\pi\sqrt[3]{2}", r"3.958"),
    (r"\binom{n}{2}+n!", r"\lfloor n\rfloor+\arctan n"),
    (r"3+2i", r"2i+3"),
]
