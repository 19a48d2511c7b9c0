"""The exact judge: the answer is the gold, letter for letter, after normalisation.

Normalised: the last box if there is one (boxes that differ score zero), Unicode (NFKC), white space
collapsed, one final full stop dropped, case ignored unless `case_sensitive` is set.
"""

import unicodedata
from dataclasses import dataclass

from agon.game.answers import final_answer
from agon.game.problem import Problem
from agon.game.verdict import Verdict


@dataclass(frozen=True)
class ExactJudge:
    """Accepts the gold and nothing else."""

    case_sensitive: bool = False

    def judge(self, problem: Problem, answer: str) -> Verdict:
        given = final_answer(answer, self._same)
        if isinstance(given, Verdict):
            return given
        if self._same(problem.answer, given):
            return Verdict(True, "correct")
        return Verdict(False, "wrong", "The answer is not the gold, letter for letter.")

    def _same(self, first: str, second: str) -> bool:
        return self._normalise(first) == self._normalise(second)

    def _normalise(self, text: str) -> str:
        text = " ".join(unicodedata.normalize("NFKC", text).split()).removesuffix(".").rstrip()
        return text if self.case_sensitive else text.casefold()
