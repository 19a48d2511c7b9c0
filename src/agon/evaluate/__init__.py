"""Evaluation: a run or a model on a task, every arm with its figures, and runs against each other."""

from agon.callable_room import make_callable

make_callable(__name__)
