"""Rewards: one function per term; a reward is a stack of terms.

With c = correct, φ = well-formed and λ = 0.5, a draft earns `2c + λφ`. What a challenge earns is
the stack of its method (`agon.game.methods`). `agon` less the format term pays exactly 0, 2 or 3.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agon.game.transition import transition

CORRECT_WEIGHT = 2.0
FORMAT_WEIGHT = 0.5  # λ
TIEBREAK_WEIGHT = 0.5  # γ


@dataclass(frozen=True)
class Outcome:
    """How a rollout ended, and how the draft it is paid against did (for a draft: nothing)."""

    correct: bool
    well_formed: bool
    length: int = 0
    rival_correct: bool = False
    rival_length: int = 0


Term = Callable[[Outcome], float]
Stack = tuple[Term, ...]


def correctness(own: Outcome) -> float:
    """Pay for a right answer."""
    return CORRECT_WEIGHT * own.correct


def form(own: Outcome) -> float:
    """Pay for a well-formed rollout, the same in every method so that it favours none."""
    return FORMAT_WEIGHT * own.well_formed


def conversion(own: Outcome) -> float:
    """Pay extra for solving what the rival could not.

    It multiplies the challenger's own outcome, so it changes the gradient; subtracting
    `rival_correct` instead would only shift the baseline (paper, section on the reward).
    """
    return float(transition(own.rival_correct, own.correct) == "converted")


def margin(own: Outcome) -> float:
    """Pay the difference of the two outcomes: the form that the paper shows to be inert."""
    return float(own.correct) - float(own.rival_correct)


def tiebreak(own: Outcome) -> float:
    """Pay for matching a right rival in fewer tokens; a wrong answer is never paid."""
    return TIEBREAK_WEIGHT * (own.correct and own.rival_correct and own.length < own.rival_length)


DRAFT: Stack = (correctness, form)
COOPERATIVE: Stack = (correctness, form)
COMPETITIVE: Stack = (correctness, conversion, form)
DENSITY: Stack = (correctness, conversion, tiebreak, form)
MARGIN: Stack = (correctness, margin, form)


def reward(stack: Stack, own: Outcome) -> float:
    """The sum of a stack's terms."""
    return sum(term(own) for term in stack)


def terms(stack: Stack, own: Outcome) -> dict[str, float]:
    """Each term of a stack by name, for logs."""
    return {term.__name__: term(own) for term in stack}
