"""The models that a run is served as: the cascade in each direction, each policy alone, the base."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agon.errors import InputError
from agon.evaluate.arms import directions
from agon.evaluate.split_evaluation import choose
from agon.evaluate.target import Target
from agon.policies.pair import BASE
from agon.runs.folder import Run

CASCADE = "agon"


@dataclass(frozen=True)
class Route:
    """Who answers a model's requests; without a drafter, the final policy answers the plain problem."""

    final: str
    drafter: str | None = None

    @property
    def name(self) -> str:
        return f"{self.drafter}->{self.final}" if self.drafter else self.final


def routes(policies: Sequence[str], direction: str) -> dict[str, Route]:
    """Every model by its name, the chosen direction of the cascade first.

    >>> [(name, route.name) for name, route in routes(("A", "B"), "B->A").items()][:3]
    [('agon', 'B->A'), ('agon-ab', 'A->B'), ('agon-ba', 'B->A')]
    """
    ways = {play.name: Route(play.challenger, play.drafter) for play in directions(policies)}
    found = {CASCADE: ways[direction]}
    if len(ways) > 1:
        found |= {f"agon-{way.drafter}{way.final}".lower(): way for way in ways.values()}
    found |= {f"agon-{policy.lower()}": Route(policy) for policy in policies}
    return {**found, f"agon-{BASE}": Route(BASE)}


@dataclass(frozen=True)
class Direction:
    """The way round that stands for a pair, and what decided it."""

    name: str
    chosen_on: str


def chosen_direction(target: Target) -> Direction:
    """The direction that validation chose: in an evaluation of the run, else at its last validation."""
    if target.run is None or not target.policies:
        raise InputError(f"'{target.name}' is a model without a pair: name the folder of a run.")
    names = [play.name for play in directions(target.policies)]
    if len(names) == 1:
        return Direction(names[0], "nothing: one policy has one direction")
    return (
        _evaluated(target.run, names)
        or _validated(target.run, names)
        or Direction(names[0], "nothing: the run was neither evaluated nor validated")
    )


def _evaluated(run: Run, names: Sequence[str]) -> Direction | None:
    for found in run.evaluated("test"):
        result = found.read_result()
        if result.get("direction") in names and not str(result.get("chosen_on")).startswith("nothing"):
            return Direction(str(result["direction"]), str(result["chosen_on"]))
    return None


def _validated(run: Run, names: Sequence[str]) -> Direction | None:
    keys = [f"eval_{name}/correct" for name in names]
    lines = [line for line in run.read_metrics() if all(_number(line.get(key)) for key in keys)]
    if not lines:
        return None
    seen: Mapping[str, dict[str, float]] = {
        name: {"pass@1": lines[-1][key]} for name, key in zip(names, keys, strict=True)
    }
    return Direction(choose(seen, names), f"the validation at step {lines[-1]['step']}")


def _number(value: object) -> bool:
    return isinstance(value, int | float)
