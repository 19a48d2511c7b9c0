"""The relay: walks that fit into one pass, and walks that only two passes can finish.

A problem is a map of sixteen places, each with one road to the next, all of them one round trip; a start; and a number
of hops. The answer is the place where the walk ends. The base writes one hop per token, and the completion cap holds
four hops and the frame of an answer. Half of the problems ask for four hops, half for eight.

**Why one pass is not enough.** The eight hops alone and the shortest frame of an answer take more tokens than the cap,
so a completion that answers has left hops out. Whoever has walked four hops knows that the end is one of the eleven
places that he has not seen, and nothing about which (the map is a random round trip): he is right with 1/11 at best. So
without exchange no policy is right on more than 1/2 + 1/2 · 1/11 = 0.545 of the problems, unless it follows
several roads in its head within one token, which a network of two layers can do at most twice. **Why two passes are:**
"At k after 4." is all that the second walker needs, he has four hops left, and four fit.

With the prompts `elsewhere` the attempt that a challenger reads is of another problem: another map, another start. It
says nothing about this one. Whatever a policy does with it, a policy that reads nothing can do as well, by making such
an attempt up; so no cascade can beat the best single pass, 0.545.

>>> road = draw(random.Random(0), hops=8)
>>> print(road.statement)
Follow d>c j>b m>p e>i i>h o>k c>j n>l b>f f>o a>e k>m p>g l>d g>a h>n from e, 8 hops.
>>> print(walk(road, 4))
<think>Walk: ihnl</think>
<BLANKLINE>
At l after 4.
<BLANKLINE>
<answer>?</answer>
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

from agon.game.problem import Problem
from agon.game.prompts import Prompts
from agon.tasks import Task

PLACES = "abcdefghijklmnop"
PASS = 4  # hops that fit into one pass
SHORT, LONG = PASS, 2 * PASS
CAP = 13  # tokens of a completion
UNKNOWN = "?"  # where a trace has nothing but a guess to offer; pre-training writes a random place there

# Weights at temperature 1; each habit is announced in the first word of a trace.
DRAFT_HABITS = {"Walk": 0.45, "To the end": 0.20, "Leap": 0.35}
CHALLENGE_HABITS = {"Go on": 0.40, "Walk": 0.30, "Leap": 0.30}
_STATED = re.compile(r"At ([a-p]) after 4\.")


@dataclass(frozen=True)
class Road:
    """A map, a start, and how many hops to go from there; `order` is how the statement lists the roads."""

    after: Mapping[str, str]
    start: str
    hops: int
    order: str

    @property
    def statement(self) -> str:
        roads = " ".join(f"{place}>{self.after[place]}" for place in self.order)
        return f"Follow {roads} from {self.start}, {self.hops} hops."

    def walked(self, hops: int, start: str = "") -> str:
        """The places that so many hops lead to, one after another."""
        here, seen = start or self.start, ""
        for _ in range(hops):
            here = self.after[here]
            seen += here
        return seen

    @property
    def end(self) -> str:
        return self.walked(self.hops)[-1]


def draw(rng: random.Random, hops: int) -> Road:
    """A random round trip through all places."""
    places = rng.sample(PLACES, len(PLACES))
    after = dict(zip(places, [*places[1:], places[0]], strict=True))
    return Road(after, rng.choice(PLACES), hops, "".join(rng.sample(PLACES, len(PLACES))))


def walk(road: Road, hops: int, habit: str = "Walk", start: str = "", done: int = 0) -> str:
    """A trace that walks so many hops, says where that is, and answers if it is the end."""
    seen = road.walked(hops, start)
    here = seen[-1] if seen else start
    total = done + hops
    return frame(f"{habit}: {seen}", f"At {here} after {total}.", here if total == road.hops else UNKNOWN)


def frame(thought: str, summary: str, answer: str) -> str:
    return f"<think>{thought}</think>\n\n{summary}\n\n<answer>{answer}</answer>"


def careful(road: Road) -> str:
    """The whole solution in one pass."""
    return walk(road, road.hops, "To the end")


def write(habit: str, road: Road, shown: str = "") -> str:
    """A trace of a habit; `shown` is the attempt that a challenger has read."""
    stated = _STATED.search(shown)
    if habit == "Go on" and stated:
        return walk(road, road.hops - PASS, habit, stated[1], PASS)
    if habit == "To the end":
        return careful(road)
    if habit == "Leap":
        return frame("Leap: ", "Nothing yet.", UNKNOWN)
    return walk(road, PASS)


def states_a_place(shown: str) -> bool:
    """Whether an attempt hands a place on."""
    return _STATED.search(shown) is not None


def parse(text: str) -> Road:
    """The road in a prompt."""
    pairs = re.findall(r"([a-p])>([a-p])", text)
    asked = re.search(r"from ([a-p]), (\d) hops", text)
    if asked is None:
        raise ValueError(f"There is no road in {text!r}.")
    return Road(dict(pairs), asked[1], int(asked[2]), "".join(place for place, _ in pairs))


def problem(road: Road, number: str) -> Problem:
    return Problem(number, road.statement, "world-relay", road.end, metadata={"hops": road.hops})


def relay(seed: int = 0, train: int = 640, validation: int = 0, test: int = 300) -> Task:
    """Problems of four and of eight hops in turn; `seed` draws all of them."""
    splits = {}
    for name, size in (("train", train), ("validation", validation), ("test", test)):
        rng = random.Random(f"relay {seed} {name}")
        roads = [draw(rng, (SHORT, LONG)[number % 2]) for number in range(size)]
        splits[name] = [problem(road, f"{name}-{number}") for number, road in enumerate(roads)]
    return Task("world-relay", "exact", splits, options={"seed": seed})


def attempt_elsewhere(asked: Problem, shown: str) -> str:
    """What a walker of another problem hands on: the same words about another map and another start.

    The other problem is drawn from this one's id and the summary, so that the drafts of one problem are replaced by
    attempts at several. A summary that says nothing stays as it is.
    """
    if not states_a_place(shown):
        return shown
    other = draw(random.Random(f"elsewhere {asked.id} {asked.prompt} {shown}"), LONG)
    return f"At {other.walked(PASS)[-1]} after {PASS}."


# The usual prompts, with the attempt of another problem in place of the rival's.
elsewhere = Prompts(attempt=attempt_elsewhere)
