"""The training processes that share one set of servers: what one of them does, the others wait for."""

from collections.abc import Callable
from typing import Any, TypeVar

from torch import distributed

from agon.errors import InputError

T = TypeVar("T")


def in_a_group() -> bool:
    """Whether this process has joined others."""
    return distributed.is_available() and distributed.is_initialized()


def rank() -> int:
    return distributed.get_rank() if in_a_group() else 0


def wait_for_all() -> None:
    """Until every process is here."""
    if in_a_group():
        distributed.barrier()


def from_main(make: Callable[[], T]) -> T:
    """What the main process makes, in every process; its error is raised in every process too."""
    if not in_a_group():
        return make()
    outcome: list[Any] = [None, None]
    if rank() == 0:
        try:
            outcome = [make(), None]
        except Exception as error:
            outcome = [None, (isinstance(error, InputError), str(error))]
            distributed.broadcast_object_list(outcome, src=0)
            raise
    distributed.broadcast_object_list(outcome, src=0)
    made, failed = outcome
    if failed is not None:
        wrong_input, said = failed
        raise InputError(said) if wrong_input else RuntimeError(f"The main process failed: {said}")
    answer: T = made
    return answer
