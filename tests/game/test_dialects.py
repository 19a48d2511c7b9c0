"""Dialects by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.errors import InputError
from agon.game import DIALECTS, dialect


def test_there_are_three_dialects_and_boxed_keeps_nothing_private() -> None:
    assert {name: kind.private for name, kind in DIALECTS.items()} == {
        "think": True,
        "gemma": True,
        "boxed": False,
    }


@given(st.sampled_from(sorted(DIALECTS)))
def test_a_dialect_is_found_by_its_name(name: str) -> None:
    assert dialect(name).name == name


def test_an_unknown_dialect_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match="Unknown dialect 'thnik': did you mean 'think'"):
        dialect("thnik")
