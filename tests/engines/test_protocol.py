"""What every engine refuses."""

import pytest

from agon.engines.protocol import Request, Sampling, check_request
from agon.errors import InputError


def request(
    policy: str = "A", version: int = 2, prompt: tuple[int, ...] = (1, 2), max_tokens: int = 8
) -> Request:
    return Request("key", prompt, policy, version, Sampling(max_tokens), 0)


def test_requests_that_an_engine_cannot_answer_are_refused() -> None:
    synced = {"A": 2, "base": 0}
    check_request(request(), synced, max_model_len=10)
    for wrong, reason in (
        (request(version=1), "'A' is at version 2 in this engine, but version 1"),
        (request(policy="B"), "'B' was never synced"),
        (request(prompt=()), "empty prompt"),
        (request(max_tokens=9), "set it to at least 11"),
    ):
        with pytest.raises(InputError, match=reason):
            check_request(wrong, synced, max_model_len=10)


def test_without_a_limit_a_request_may_be_of_any_length() -> None:
    check_request(request(max_tokens=10**9), {"A": 2})
