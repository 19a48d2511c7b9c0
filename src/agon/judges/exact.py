"""The exact judge: the answer is the gold, letter for letter, after the usual clean-up.

The clean-up: the last box if there is one (differing boxes score zero), Unicode normalised (NFKC),
white space collapsed, one final full stop dropped, case ignored unless `case_sensitive` is set.
"""

import unicodedata
from dataclasses import dataclass

from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.judges.section import candidate


@dataclass(frozen=True)
class ExactJudge:
    """Accepts the gold and nothing else."""

    case_sensitive: bool = False

    def judge(self, problem: Problem, answer: str) -> Verdict:
        given = candidate(answer, self._same)
        if isinstance(given, Verdict):
            return given
        if self._same(problem.answer, given):
            return Verdict(True, "correct")
        return Verdict(False, "wrong", "The answer is not the gold, letter for letter.")

    def _same(self, first: str, second: str) -> bool:
        return self._clean(first) == self._clean(second)

    def _clean(self, text: str) -> str:
        text = " ".join(unicodedata.normalize("NFKC", text).split()).removesuffix(".").rstrip()
        return text if self.case_sensitive else text.casefold()
