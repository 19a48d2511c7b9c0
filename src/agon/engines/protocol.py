"""What every engine does: one protocol.

An engine takes requests, each for one completion of one prompt by one policy, and returns rollouts
as they finish, in any order. It holds both policies at once; syncing a policy moves its adapter and
nothing else. Given its seed, a request's rollout does not depend on what else is in the batch or on
what finishes first.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agon.errors import InputError
from agon.game.rollout import Rollout


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn. Temperature 0 is greedy."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    ignore_stop: bool = False  # exactly `max_tokens` tokens, whatever is drawn; for timing


@dataclass(frozen=True)
class Request:
    """One completion that is wanted: of this prompt, by this policy at this version, with this seed.

    `key` is the caller's name for it and comes back with the rollout.
    """

    key: str
    prompt_ids: tuple[int, ...]
    policy: str
    version: int
    sampling: Sampling
    seed: int


@dataclass(frozen=True)
class Finished:
    """A request and its rollout."""

    request: Request
    rollout: Rollout


@dataclass(frozen=True)
class Capabilities:
    """What callers may rely on."""

    name: str
    streams: bool  # rollouts arrive while others are still being sampled
    live_weights: bool  # samples from the trainer's own weights, so nothing has to be moved
    logprobs: bool


class Engine(Protocol):
    """Samples completions from the policies."""

    @property
    def capabilities(self) -> Capabilities: ...

    def sync(self, policy: str, version: int) -> None:
        """Sample requests for this version from the policy's current weights; older versions are refused."""

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests. One for a version that was not synced is refused."""

    def collect(self) -> list[Finished]:
        """Wait until something finishes and return it; an empty list means nothing is pending."""

    def sleep(self) -> None:
        """Free what can be freed while the trainer computes; nothing if the weights are the trainer's own."""

    def wake(self) -> None:
        """Get ready to sample again."""

    def close(self) -> None: ...


@runtime_checkable
class Recoverable(Protocol):
    """An engine that can be used again after it has failed in the middle of a round."""

    def recover(self, error: Exception | None) -> None:
        """Forget every request and get ready to be synced again."""


@runtime_checkable
class Interruptible(Protocol):
    """An engine whose `collect` can be ended from another thread."""

    def interrupt(self) -> None:
        """Have `collect` return at once, with what there is, until `recover` forgets the requests."""


def derive_seed(*parts: object) -> int:
    """A seed for one request from what identifies it, the same on every machine and in any order."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def check_request(request: Request, versions: dict[str, int], max_model_len: int | None = None) -> None:
    """Refuse a request for weights that an engine does not have, or for more tokens than fit."""
    synced = versions.get(request.policy)
    if synced != request.version:
        state = "was never synced to" if synced is None else f"is at version {synced} in"
        raise InputError(
            f"Policy '{request.policy}' {state} this engine, but version {request.version} was asked for; "
            "sync it first."
        )
    if not request.prompt_ids:
        raise InputError(f"Request '{request.key}' has an empty prompt.")
    wanted = len(request.prompt_ids) + request.sampling.max_tokens
    if max_model_len is not None and wanted > max_model_len:
        raise InputError(
            f"Request '{request.key}' has {len(request.prompt_ids)} prompt tokens and asks for "
            f"{request.sampling.max_tokens} more, but this engine's max_model_len is {max_model_len}; "
            f"set it to at least {wanted}."
        )
