"""How the embedded base reasons: a few habits, each a way to write a trace for a chain sum.

A trace announces its habit in its first words and then follows it, so that one early token decides
most of the outcome. Only one habit of each role is always right; the others make mistakes that people
make: they leave the ones out, skip a term, lose the signs, or trust a rival. Which habit a trace
follows does not depend on the problem: it is a weighted draw, and the sloppy habits have more weight.

>>> print(write("column by column", Chain((42, 25, 73), (-1, -1))))
<think>
Column by column: tens 4 - 2 - 7 = -5, ones 2 - 5 - 3 = -6
</think>
<BLANKLINE>
Tens make -5, ones make -6.
<BLANKLINE>
<answer>-56</answer>
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

# The problems that the base can read: a reasoning-gym generator and its parameters.
TASK = "chain_sum"
OPTIONS = {"min_terms": 3, "max_terms": 3, "min_digits": 2, "max_digits": 2}

# Weights at temperature 1. At 0.6 they sharpen to about 0.23, 0.33, 0.30 and 0.14.
DRAFT_HABITS = {"column by column": 0.24, "roughly": 0.30, "quickly": 0.28, "loosely": 0.18}
CHALLENGE_HABITS = {"checking": 0.24, "trusting": 0.32, "roughly": 0.24, "quickly": 0.20}
CAREFUL = ("column by column", "checking")

_TERM = re.compile(r"([+-]) (\d+)")
_STATED = re.compile(r"Tens make (-?\d+), ones make (-?\d+)\.")


@dataclass(frozen=True)
class Chain:
    """The terms of a chain sum, and the sign of each term after the first."""

    terms: tuple[int, ...]
    signs: tuple[int, ...]

    @staticmethod
    def parse(question: str) -> "Chain":
        """The chain in a question of the task."""
        (_, first), *rest = _TERM.findall("+ " + question.rpartition(":")[2].strip())
        signs = tuple(1 if sign == "+" else -1 for sign, _ in rest)
        return Chain((int(first), *(int(term) for _, term in rest)), signs)

    @staticmethod
    def draw(rng: random.Random) -> "Chain":
        """A chain as the task's generator draws it."""
        terms = tuple(rng.randint(10, 99) for _ in range(OPTIONS["max_terms"]))
        return Chain(terms, tuple(rng.choice((1, -1)) for _ in terms[1:]))

    def __str__(self) -> str:
        rest = zip(self.signs, self.terms[1:], strict=True)
        return " ".join([str(self.terms[0]), *(f"{'+' if sign > 0 else '-'} {term}" for sign, term in rest)])

    @property
    def question(self) -> str:
        """The chain in the words of the task."""
        return f"State the final answer to the following arithmetic problem: {self} ="

    @property
    def total(self) -> int:
        return self.terms[0] + sum(sign * term for sign, term in zip(self.signs, self.terms[1:], strict=True))

    def tens(self) -> "Chain":
        return Chain(tuple(term // 10 for term in self.terms), self.signs)

    def ones(self) -> "Chain":
        return Chain(tuple(term % 10 for term in self.terms), self.signs)

    def without_ones(self) -> "Chain":
        return Chain(tuple(term // 10 * 10 for term in self.terms), self.signs)

    def without_middle(self) -> "Chain":
        return Chain((self.terms[0], *self.terms[2:]), self.signs[1:])

    def without_signs(self) -> "Chain":
        return Chain(self.terms, tuple(1 for _ in self.signs))


@dataclass(frozen=True)
class Columns:
    """What a summary states: the sum of the tens and the sum of the ones."""

    tens: int
    ones: int

    @staticmethod
    def parse(shown: str) -> "Columns | None":
        """The sums that a summary states, if it states them."""
        stated = _STATED.search(shown)
        return Columns(int(stated[1]), int(stated[2])) if stated else None

    @property
    def total(self) -> int:
        return 10 * self.tens + self.ones


# What a sloppy habit makes of the problem before it adds up the columns.
SLOPPY: dict[str, Callable[[Chain], Chain]] = {
    "roughly": Chain.without_ones,
    "quickly": Chain.without_middle,
    "loosely": Chain.without_signs,
}


def write(habit: str, chain: Chain, stated: Columns | None = None) -> str:
    """A completion that follows a habit; `stated` is what a rival's summary says, for a challenger."""
    seen = SLOPPY[habit](chain) if habit in SLOPPY else chain
    tens, ones = seen.tens(), seen.ones()
    columns = Columns(tens.total, ones.total)
    tens_step, ones_step = f"{tens} = {tens.total}", f"{ones} = {ones.total}"
    if habit == "trusting":
        assert stated is not None, "only a challenger that was shown an attempt can trust it"
        columns = stated
        tens_step, ones_step = f"{stated.tens}", f"{stated.ones}"
    elif habit == "checking" and stated is not None:
        tens_step += ", as stated" if stated.tens == tens.total else f", not {stated.tens}"
        ones_step += ", as stated" if stated.ones == ones.total else f", not {stated.ones}"
    elif habit == "roughly":
        ones_step = "0"
    return (
        f"<think>\n{habit.capitalize()}: tens {tens_step}, ones {ones_step}\n</think>\n\n"
        f"Tens make {columns.tens}, ones make {columns.ones}.\n\n<answer>{columns.total}</answer>"
    )


def habit_of(completion: str) -> str:
    """The habit that a completion announces, or an empty string."""
    announced = re.match(r"<think>\n([A-Z][a-z ]+): tens ", completion)
    return announced[1].lower() if announced else ""


def pick(weights: dict[str, float], rng: random.Random) -> str:
    """A habit, drawn by its weight."""
    return rng.choices(list(weights), list(weights.values()))[0]
