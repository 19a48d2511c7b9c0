"""Training: the configuration, the trainer on TRL's GRPO core, and what it shows and records."""

from agon.callable_room import make_callable

make_callable(__name__)
