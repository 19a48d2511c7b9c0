"""Whether the judge works: the share of a round's answers that it could not judge.

An error is a failure of the judge, not a wrong answer, yet it is paid like one. Training on many of them teaches
nothing good, so a run says so early and stops before it learns from a round that was mostly not judged.
"""

from collections.abc import Sequence

from agon.game.duel import Duel
from agon.game.verdict import Verdict
from agon.train.stopping import StopRunError

WARN_ABOVE = 0.1
STOP_ABOVE = 0.5
TIMEOUTS_ABOVE = 0.02
# Rounds with fewer answers are taken together with the next ones.
ENOUGH_ANSWERS = 8


class JudgeHealth:
    """Counts errors round by round; the same on every process, as it is shown everybody's duels."""

    def __init__(self) -> None:
        self._answers = self._errors = 0
        self._detail = ""

    def check(self, duels: Sequence[Duel], timeout_share: float) -> str | None:
        """A warning, or None; stops the run where most answers could not be judged."""
        self._count([entry.verdict for duel in duels for entry in (duel.draft, duel.challenge) if entry])
        if self._answers < ENOUGH_ANSWERS:
            return None
        answers, errors = self._answers, self._errors
        self._answers = self._errors = 0
        said = f"The judge failed on {errors} of {answers} answers of this round"
        said += f" (the last time: {self._detail})" if self._detail else ""
        if errors > STOP_ABOVE * answers:
            raise StopRunError(f"{said}: fix the judge. Nothing was learned from this round.")
        if errors > WARN_ABOVE * answers:
            return f"{said}; above {STOP_ABOVE:.0%} the training stops."
        if timeout_share > TIMEOUTS_ABOVE:
            return (
                f"{timeout_share:.1%} of all verdicts so far ran out of time and were paid as wrong: "
                "give the judge more time or the machine less to do."
            )
        return None

    def _count(self, verdicts: Sequence[Verdict]) -> None:
        judged = [verdict for verdict in verdicts if verdict.reason not in ("no-answer", "truncated")]
        failed = [verdict for verdict in judged if verdict.reason == "error"]
        self._answers += len(judged)
        self._errors += len(failed)
        if failed:
            words = " ".join(failed[-1].detail.split())[:200]
            self._detail = "".join(letter for letter in words if letter.isprintable())
