"""A verdict never contradicts itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.game import REASONS, Verdict


@given(st.sampled_from(REASONS), st.booleans(), st.text(max_size=20), st.floats(0, 100))
def test_a_verdict_is_correct_exactly_when_its_reason_is(
    reason: str, correct: bool, detail: str, seconds: float
) -> None:
    if correct == (reason == "correct"):
        verdict = Verdict(correct, reason, detail, seconds)  # type: ignore[arg-type]
        assert Verdict.from_dict(verdict.to_dict()) == verdict
    else:
        with pytest.raises(ValueError, match="cannot be correct"):
            Verdict(correct, reason, detail, seconds)  # type: ignore[arg-type]


def test_an_unknown_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="reason is one of"):
        Verdict(False, "bored")  # type: ignore[arg-type]


def test_the_reasons_are_the_six_of_the_design() -> None:
    assert REASONS == ("correct", "wrong", "no-answer", "truncated", "timeout", "error")
