"""Rewards: one function per term; a reward is a stack of terms.

With c = correct, φ = well-formed and λ = 0.5, a draft earns `2c + λφ`. What a challenge earns is
the stack of its method (`agon.game.methods`). `agon` less the format term pays exactly 0, 2 or 3.
A term of your own is a function from an outcome to a number, named as `module:object`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agon.errors import InputError, unknown
from agon.game.transition import transition
from agon.own_parts import is_part, load_part

CORRECT_WEIGHT = 2.0
FORMAT_WEIGHT = 0.5  # λ
TIEBREAK_WEIGHT = 0.5  # γ


@dataclass(frozen=True)
class Outcome:
    """How a rollout ended, and how the draft it is paid against did (for a draft: nothing).

    `score` is the judge's from 0 to 1; a judge that only says right or wrong gives 1 or 0.
    """

    correct: bool
    well_formed: bool
    length: int = 0
    rival_correct: bool = False
    rival_length: int = 0
    score: float = 0.0
    rival_score: float = 0.0


Term = Callable[[Outcome], float]
Stack = tuple[Term, ...]


def correctness(own: Outcome) -> float:
    """Pay for a right answer."""
    return CORRECT_WEIGHT * own.correct


def graded(own: Outcome) -> float:
    """Pay for the judge's score: `correctness` where an answer may be right in part."""
    return CORRECT_WEIGHT * own.score


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

TERMS: dict[str, Term] = {
    "correctness": correctness,
    "graded": graded,
    "form": form,
    "conversion": conversion,
    "margin": margin,
    "tiebreak": tiebreak,
}


def stack(names: Sequence[str]) -> Stack:
    """The terms of these names; `module:object` is one of your own.

    >>> stack(["correctness", "form"]) == DRAFT
    True
    """
    return tuple(_term(name) for name in names)


def graded_stack(terms: Stack) -> Stack:
    """The same stack, paid for the score where it was paid for a right answer."""
    return tuple(graded if term is correctness else term for term in terms)


def _term(name: str) -> Term:
    if not is_part(name):
        if name not in TERMS:
            raise unknown("term of a reward", name, [*TERMS, "module:object"])
        return TERMS[name]
    found = load_part(name, "term of a reward")
    if not callable(found):
        raise InputError(f"The term of a reward '{name}' must be a function, not {type(found).__name__}.")
    term: Term = found
    return term


def reward(stack: Stack, own: Outcome) -> float:
    """The sum of a stack's terms."""
    return sum(float(term(own)) for term in stack)


def terms(stack: Stack, own: Outcome) -> dict[str, float]:
    """Each term of a stack by name, for logs."""
    return {getattr(term, "__name__", type(term).__name__): float(term(own)) for term in stack}
