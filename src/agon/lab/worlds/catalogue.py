"""The worlds by name, each with what must come out and why."""

from agon.lab.worlds.relay import CAP, LONG
from agon.lab.worlds.world import Claim, World

_READS = ("self-refine", "coop", "agon", "shuffled")
ONE_PASS = 0.5 + 0.5 / (16 - 5)  # all short walks, and a guess among the places not seen for the long ones
_RELAY = "agon.lab.worlds.relay:relay"
_RELAY_OPTIONS = {"max_completion_length": CAP, "learning_rate": 2e-3}

RELAY = World(
    name="relay",
    why=f"Exchange must help: {LONG} hops do not fit into one pass, and a summary hands on the first half.",
    base="relay",
    task=_RELAY,
    claims=(
        *(Claim(name, "grpo", "more") for name in _READS),
        Claim("hidden", "grpo", "not more"),
        Claim("agon", "coop", "same"),
        Claim("shuffled", "agon", "same"),
    ),
    accuracy={**dict.fromkeys(_READS, 1.0), "grpo": ONE_PASS, "hidden": ONE_PASS},
    options=_RELAY_OPTIONS,
)

ELSEWHERE = World(
    name="elsewhere",
    why="Exchange cannot help: the same problems, but every attempt that is read is of another problem.",
    base="relay",
    task=_RELAY,
    claims=(
        *(Claim(name, "grpo", "not more") for name in _READS),
        Claim("hidden", "grpo", "not more"),
        Claim("agon", "coop", "same"),
    ),
    accuracy=dict.fromkeys((*_READS, "grpo", "hidden"), ONE_PASS),
    options={**_RELAY_OPTIONS, "prompts": "agon.lab.worlds.relay:elsewhere"},
)

WORLDS = {world.name: world for world in (RELAY, ELSEWHERE)}
