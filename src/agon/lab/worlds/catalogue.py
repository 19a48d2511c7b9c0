"""The worlds by name, each with what must come out and why."""

from agon.lab.worlds import copying_trap, relay
from agon.lab.worlds.copying_model import Trap
from agon.lab.worlds.twins import ONE, OTHER
from agon.lab.worlds.world import METHODS, Claim, World

_READS = ("self-refine", "coop", "agon", "shuffled")
# All short walks, and for the long ones a guess among the places that were not seen.
ONE_PASS = 0.5 + 0.5 / (len(relay.PLACES) - relay.PASS - 1)
_RELAY = "agon.lab.worlds.relay:relay"
_RELAY_HABITS = tuple(dict.fromkeys([*relay.CHALLENGE_HABITS, *relay.DRAFT_HABITS]))
_RELAY_OPTIONS = {"max_completion_length": relay.CAP, "learning_rate": 2e-3}

RELAY = World(
    name="relay",
    why=f"Exchange must help: {relay.LONG} hops do not fit into one pass, and a summary hands on the first half.",
    base="relay",
    task=_RELAY,
    claims=(
        *(Claim(name, "grpo", "more") for name in _READS),
        Claim("hidden", "grpo", "not more"),
        Claim("agon", "coop", "same"),
        Claim("shuffled", "agon", "same"),
    ),
    accuracy={**dict.fromkeys(_READS, 1.0), "grpo": ONE_PASS, "hidden": ONE_PASS},
    habits=_RELAY_HABITS,
    options=_RELAY_OPTIONS,
)

ELSEWHERE = World(
    name="elsewhere",
    why="Exchange cannot help: the same problems, but every attempt that is read is of another problem.",
    base="relay",
    task=_RELAY,
    claims=(
        *(Claim(name, "grpo", "not more") for name in (*_READS, "hidden")),
        Claim("agon", "coop", "same"),
    ),
    accuracy=dict.fromkeys(METHODS, ONE_PASS),
    habits=_RELAY_HABITS,
    options={**_RELAY_OPTIONS, "prompts": "agon.lab.worlds.relay:elsewhere"},
)

# The settings of the trap, each with its q and the accuracy that the model of two actions predicts under coop and agon.
P, BEST, STEPS = 0.6, 0.8, 120
PREDICTED = {
    "trap-below": (0.1, 0.60, 0.60),
    "trap-inside": (0.38, 0.60, 0.78),
    "trap-above": (0.7, 0.78, 0.78),
}
# How fast an adapter's choice and skill move, per step: fitted to four trainings of another seed (docs/worlds.md).
CHOICE_RATE, SKILL_RATE, WORK = 0.75, 1.0, 0.45
_TRAP_HABITS = tuple(copying_trap.CHALLENGE_HABITS)
# The model's rates are constant. An adapter starts at zero, and at the usual size (alpha 32, rate 2e-3) what it learned
# made it learn faster. With a large alpha and a small learning rate its matrices stay near where they began.
_TRAP_OPTIONS = {
    "max_completion_length": copying_trap.CAP,
    "learning_rate": 2.5e-4,
    "lora_alpha": 256,
    "init_noise": 1.25e-4,
    "draft_reward": ["agon.lab.worlds.copying_trap:right_key", "form"],
}


def model_of(name: str) -> Trap:
    """The setting of the two-action model that a trap's prediction comes from."""
    return Trap(
        p=P,
        q=PREDICTED[name][0],
        best=BEST,
        rate=CHOICE_RATE,
        skill_rate=SKILL_RATE,
        work=WORK,
        steps=STEPS,
        groups=16,
    )


def _task(name: str) -> str:
    return f"agon.lab.worlds.copying_trap:copying_trap,p={P},q={PREDICTED[name][0]},best={BEST},train={16 * STEPS}"


def _trap(name: str, why: str, *claims: Claim) -> World:
    _, coop, agon = PREDICTED[name]
    # Nothing of self-refine: its one adapter practises twice as often as each of a pair does.
    reads = {"coop": coop, "agon": agon, "shuffled": coop}
    return World(
        name=name,
        why=why,
        base="trap",
        task=_task(name),
        claims=(*claims, Claim("hidden", "grpo", "same")),
        accuracy={**reads, "grpo": P, "hidden": P},
        habits=_TRAP_HABITS,
        options=_TRAP_OPTIONS,
    )


TRAP_BELOW = _trap(
    "trap-below",
    "Competition must not help: working it out is too poor for either reward, and both stay caught in copying.",
    Claim("agon", "coop", "not more"),
    *(Claim(name, "grpo", "same") for name in ("coop", "agon", "shuffled")),
)
TRAP_INSIDE = _trap(
    "trap-inside",
    "Competition must help: cooperation stays caught in copying, competition escapes and practises.",
    *(Claim("agon", name, "more") for name in ("coop", "shuffled", "grpo")),
    Claim("coop", "grpo", "same"),
)
TRAP_ABOVE = _trap(
    "trap-above",
    "Competition must not help: working it out is better than copying under either reward, and both escape.",
    Claim("agon", "coop", "same"),
    *(Claim(name, "grpo", "more") for name in _READS),
)

TWINS = World(
    name="twins",
    why="A wrong claim is caught: cooperation under two names, with other seeds.",
    base="trap",
    task=_task("trap-inside"),
    claims=(Claim(ONE, OTHER, "same"),),
    accuracy={},
    habits=_TRAP_HABITS,
    options=_TRAP_OPTIONS,
    methods={ONE: "coop", OTHER: "agon.lab.worlds.twins:again"},
    first_seeds={OTHER: 1000},
)

WORLDS = {world.name: world for world in (RELAY, ELSEWHERE, TRAP_BELOW, TRAP_INSIDE, TRAP_ABOVE, TWINS)}
