"""The copying trap: a challenger that can copy what it reads, or work the problem out.

A problem is a lock. Of the ten keys, a share `p` opens this one lock, drawn afresh for every problem. The ten tools are
drawn afresh too, each with a chance of its own: the best opens a share `best` of all locks, the others fewer, and all
together a share `q`. A drafter of the base picks a key at random. A challenger copies the key that the attempt names,
or works the lock with a tool, at random at first.

A key has a digit and a stamp, a letter that belongs to the digit, and a key with a wrong stamp opens nothing. The base
knows the stamps where it drafts; where it challenges it has only ever copied one. Without stamps there would be a third
thing to do after reading a draft, to pick a key of one's own: as often right as a copy, but not on the same locks, so
that competition pays it 2p + p(1 - p). (A first version of this world had none, and within twenty steps the challengers
of `agon` wrote another key than the one that they had read.) With stamps another digit under the copied stamp is wrong,
and only both changes together would pay.

Tools are letters that are in no key: they were digits at first, as keys are, and what a policy learned of the best tool
moved its keys. The word that chooses, `key` or `tool`, is the one that is judged. (A word before it announced a copy or
work at first, and policies came to announce a copy and answer with a tool: one choice in the model, two in the world.)

- *A draft is right with p, whatever the drafter learns*: nothing in a statement says which keys open its lock.
- *A copy is right exactly if the draft is.*
- *Working it out is right with q at first, and with up to `best` after practice*: which tool is the best can be
  learned. `best` sets how fast: the further it stands out, the sooner. With `best` = `q` there is nothing to learn.

`coop` pays a copy 2p and working it out 2q. `agon` pays a copy 2p, for a copy of a wrong draft is wrong and never a
conversion; and working it out 2q + q(1 - p), as its outcome does not depend on the draft. So cooperation prefers
working it out from q > p, competition already from q > 2p / (3 - p); `copying_model` derives what training makes of
that. `shuffled` is paid against a draft that it did not read: its copy earns p(1 - p) too and the threshold is p again.
"""

import random

from agon.errors import InputError
from agon.game.problem import Problem
from agon.game.rewards import CORRECT_WEIGHT, Outcome
from agon.tasks import Task

DIGITS = "0123456789"
STAMPS = "gkadmcpibo"  # of the digits from 0 to 9
TOOLS = "efhjlnrtuv"
BEST = "r"  # of the tools
CAP, TOOL_LENGTH = 10, 8  # tokens of a completion with a key, and of one with a tool
KINDS = 60
# Weights at temperature 1.
CHALLENGE_HABITS = {"key": 0.5, "tool": 0.5}
# Kinds that no problem has, known to the base from pre-training alone: after these it nearly always copies, or works.
# A base that has only ever drawn the two words with equal chance writes them as one word in its embeddings, and no
# adapter moves the choice: the difference of the two was a seventh of that of two digits, and is three quarters now.
SWAYED = {60: 0.02, 61: 0.02, 62: 0.98, 63: 0.98}  # share of working it out


def habits(kind: int) -> dict[str, float]:
    """How often the base copies and works after a lock of a kind."""
    work = SWAYED.get(kind)
    return CHALLENGE_HABITS if work is None else {"key": 1 - work, "tool": work}


def statement(kind: int) -> str:
    return f"Open lock {kind:02d}."


def key(digit: str) -> str:
    """A key as a drafter names it.

    >>> key("3")
    '3d'
    """
    return digit + STAMPS[int(digit)]


def write(what: str, thing: str) -> str:
    """A trace: a drafter's guess or a copy of it, with a key, or a challenger's work with a tool."""
    return f"<think></think>\n\n{what.capitalize()} {thing}.\n\n<answer>{what} {thing}</answer>"


def copying_trap(
    seed: int = 0,
    p: float = 0.6,
    q: float = 0.5,
    best: float = 0.9,
    train: int = 640,
    validation: int = 0,
    test: int = 300,
) -> Task:
    """Locks whose keys open with `p`, whose tools open with `q` on average, and the best of the tools with `best`."""
    for name, share in (("p", p), ("q", q), ("best", best)):
        if not 0.1 <= share <= 0.9:
            raise InputError(f"{name} of the copying trap must be from 0.1 to 0.9, not {share}.")
    if best < q:
        raise InputError(f"best of the copying trap must be at least q, {q}, not {best}.")
    splits = {}
    for name, size in (("train", train), ("validation", validation), ("test", test)):
        rng = random.Random(f"locks {seed} {name}")
        splits[name] = [_lock(rng, f"{name}-{number}", p, q, best) for number in range(size)]
    options = {"seed": seed, "p": p, "q": q, "best": best}
    return Task("world-copying-trap", "agon.lab.worlds.copying_trap:opens", splits, options=options)


def chance(tool: str, q: float, best: float) -> float:
    """How often a tool opens a lock: the others less often than the best, so that all ten have the mean q."""
    return best if tool == BEST else (len(TOOLS) * q - best) / (len(TOOLS) - 1)


def _lock(rng: random.Random, name: str, p: float, q: float, best: float) -> Problem:
    # As many keys in every lock as p says; between two tenths a draw decides, so that the mean is right.
    keys = "".join(sorted(rng.sample(DIGITS, int(p * len(DIGITS) + rng.random() + 1e-9))))
    tools = "".join(tool for tool in TOOLS if rng.random() < chance(tool, q, best))
    asked = statement(rng.randrange(KINDS))
    opened = {"keys": keys, "tools": tools}
    return Problem(name, asked, "world-copying-trap", f"key {key(keys[0])}", metadata=opened)


def right_key(own: Outcome) -> float:
    """What a draft is paid for: a right answer that is a key, which is longer than a tool.

    A policy drafts and challenges with the same weights. Without this, what it learns of tools where it challenges
    would pay in its drafts too, and p would not stay what it is.
    """
    return CORRECT_WEIGHT * (own.correct and own.length > TOOL_LENGTH)


def opens(problem: Problem, answer: str) -> bool:
    """The judge: whether a key or tool opens the lock."""
    what, _, thing = answer.strip().partition(" ")
    if what == "key":
        return thing in [key(digit) for digit in problem.metadata["keys"]]
    return what == "tool" and thing in [*problem.metadata["tools"]]
