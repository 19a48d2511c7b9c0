"""What tests allow to be said, in words, and never more.

A difference counts as seen where its p-value over problems, corrected for the claims tested together, is below 5%. A
plain yes or no needs Welch's test over the runs to agree, with three seeds on both sides.
Where no difference is seen, the sentence says how large a one would have been.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from agon.evaluate.claims import LEVEL, Difference
from agon.reports.page.model import Finding, Tone
from agon.reports.tables import points

Outcome = Literal["better", "worse", "open", "missing"]
Basis = Literal["seeds", "few seeds", "these runs", "one seed", ""]
ENOUGH_SEEDS = 3
DEARER = 1.1  # times the tokens of a control, from which on a cascade no longer costs the same

ANSWERS: dict[tuple[Outcome, Basis], str] = {
    ("better", "seeds"): "Yes",
    ("better", "few seeds"): "Better in these runs; too few seeds for a claim",
    ("better", "these runs"): "Better in these runs; not established over seeds",
    ("better", "one seed"): "Better in these runs",
    ("worse", "seeds"): "No, worse",
    ("worse", "few seeds"): "Worse in these runs; too few seeds for a claim",
    ("worse", "these runs"): "Worse in these runs; not established over seeds",
    ("worse", "one seed"): "Worse in these runs",
    ("open", ""): "No difference seen",
    ("missing", ""): "Cannot be said",
}
TONES: dict[Outcome, Tone] = {"better": "good", "worse": "bad", "open": "open", "missing": "missing"}


@dataclass(frozen=True)
class Verdict:
    """The answer to one question; `tested` is None where nothing could be."""

    claim: str
    question: str
    outcome: Outcome
    basis: Basis
    answer: str
    sentences: tuple[str, ...]
    tested: Difference | None = None

    def finding(self) -> Finding:
        return Finding(self.question, self.answer, TONES[self.outcome], self.sentences)

    def record(self) -> dict[str, Any]:
        """The same for a program."""
        return asdict(self)


def verdict(claim: str, question: str, tested: Difference | None, missing: str = "") -> Verdict:
    """The verdict on a claim that the first side is better than the second; `missing` says why there is no test."""
    if tested is None:
        return Verdict(claim, question, "missing", "", ANSWERS["missing", ""], (missing,))
    seen, basis = outcome(tested), basis_of(tested)
    if seen == "open":
        basis = ""
    sentences = [difference_words(tested)]
    sentences += [power_words(tested)] if seen == "open" else []
    sentences += [seed_words(tested)] if seed_words(tested) else []
    answer = ANSWERS[seen, basis]
    if basis == "one seed":
        answer += "; seeds were not varied" if max(tested.seeds) < 2 else "; too few seeds to test"
    return Verdict(claim, question, seen, basis, answer, tuple(sentences), tested)


def tokens_verdict(question: str, tested: Difference, cost: float, control_cost: float) -> Verdict:
    """Whether a cascade is better than a control that spends as much; costs are tokens per answer."""
    plain = verdict("tokens", question, tested)
    ratio = cost / control_cost if control_cost else float("inf")
    spent = (
        f"An answer of `{tested.first}` takes {cost:,.0f} tokens, both stages counted; one of "
        f"`{tested.second}` takes {control_cost:,.0f}."
    )
    answer = plain.answer
    if plain.outcome == "better" and ratio > DEARER:
        answer = f"Better, at {ratio:.1f} times the tokens"
    elif plain.outcome == "open":
        answer = "Not shown: no difference seen"
    chosen: Outcome = "open" if plain.outcome == "better" and ratio > DEARER else plain.outcome
    return Verdict(
        "tokens",
        question,
        chosen,
        plain.basis,
        answer,
        (plain.sentences[0], spent, *plain.sentences[1:]),
        tested,
    )


def outcome(tested: Difference) -> Outcome:
    """What the test over problems saw."""
    if tested.p_holm >= LEVEL:
        return "open"
    return "better" if tested.difference > 0 else "worse"


def basis_of(tested: Difference) -> Basis:
    """What a difference that was seen holds for."""
    if min(tested.seeds) < 2:
        return "one seed"
    if tested.p_seeds is None or tested.p_seeds >= LEVEL:
        return "these runs"
    return "seeds" if min(tested.seeds) >= ENOUGH_SEEDS else "few seeds"


def difference_words(tested: Difference) -> str:
    """Both rates, their difference, its interval and every p-value that there is."""
    low, high = (points(end) for end in tested.interval)
    over = f"over problems {equals(tested.p_holm)}"
    if tested.p_seeds is not None:
        over += f"; over {tested.seeds[0]} and {tested.seeds[1]} training seeds {equals(tested.p_seeds)}"
    return (
        f"`{tested.first}` {100 * tested.first_rate:.1f}%, `{tested.second}` {100 * tested.second_rate:.1f}%: "
        f"{points(tested.difference)} points (95% interval {low} to {high}; {over})."
    )


def power_words(tested: Difference) -> str:
    """How large a difference would have been seen."""
    words = (
        f"Power: these problems would have shown a difference of {100 * tested.visible:.1f} points or more in 8 of 10 "
        "cases"
    )
    if tested.visible_over_seeds is not None:
        words += f", and these seeds one of {100 * tested.visible_over_seeds:.1f}"
    return f"{words}; a smaller one may be there."


def seed_words(tested: Difference) -> str:
    """What the number of seeds leaves open."""
    if max(tested.seeds) < 2:
        return "Seeds were not varied: how far training runs of one method lie apart is not known."
    if min(tested.seeds) < 2:
        return "One of the two has a single seed, so there is no test over seeds."
    if min(tested.seeds) < ENOUGH_SEEDS:
        return f"A claim about new training runs needs {ENOUGH_SEEDS} seeds on both sides."
    if tested.p_seeds is None:
        return (
            "There is no test over seeds here: both sides come from the same runs, or the runs of each side do not "
            "differ at all."
        )
    return ""


def equals(p: float) -> str:
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.4f}"
