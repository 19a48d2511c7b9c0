"""After training, the last conversion of a run is shown word for word."""

from io import StringIO
from pathlib import Path

from rich.console import Console

from agon.game import Duel, Entry, Problem, Rollout, Verdict
from agon.reports.conversion import last_conversion, show_conversion
from agon.runs.folder import Run


def entry(policy: str, text: str, correct: bool) -> Entry:
    verdict = Verdict(correct, "correct" if correct else "wrong")
    return Entry(Rollout(text, 3, "stop", policy, 0), verdict, well_formed=True)


def duel(step: int, draft_correct: bool, challenge_correct: bool) -> Duel:
    return Duel(
        Problem("p", f"What is [b]{step}[/b]?", "t"),
        entry("A", f"draft {step}", draft_correct),
        step,
        shown=f"summary {step}",
        challenge=entry("B", f"challenge {step}", challenge_correct),
    )


def shown(run: Run) -> str:
    output = StringIO()
    show_conversion(run, Console(file=output, width=60))
    return output.getvalue()


def test_the_last_conversion_is_shown_and_no_later_duel(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.duels().write([duel(1, False, True), duel(2, False, True), duel(3, True, False), duel(4, True, True)])
    found = last_conversion(run)
    assert found is not None
    assert found.step == 2
    text = shown(run)
    for words in ("in step 3", "What is [b]2[/b]?", "draft 2", "summary 2", "challenge 2"):
        assert words in text
    assert "A drafts, and is wrong" in text
    assert "B challenges, and is right" in text


def test_a_run_without_a_conversion_shows_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.duels().write([duel(1, True, False), duel(2, False, False)])
    assert last_conversion(run) is None
    assert shown(run) == ""
