"""The pair of policies over one frozen base."""

from agon.policies.pair import BASE, NAMES, Adapters, Pair
from agon.policies.targets import target_modules

__all__ = ["BASE", "NAMES", "Adapters", "Pair", "target_modules"]
