"""Duplicates and overlap: what is left out, and what must not be."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.game.problem import Problem
from agon.tasks import dedup, files, splits
from agon.tasks.dedup import NGRAM, duplicates, overlapping, tokens

LONG = "A train leaves the station at noon and travels north at sixty miles an hour before it stops"


def problem(prompt: str) -> Problem:
    return Problem(prompt, prompt, "t", "1")


def test_a_statement_that_differs_in_case_and_layout_is_a_duplicate() -> None:
    first, second, other = (
        problem("Find  $x$ if x=2."),
        problem("find x\nif X = 2"),
        problem("Find x if x = 3."),
    )
    assert duplicates([first, second, other]) == [second]


def test_statements_without_any_token_are_compared_as_they_are() -> None:
    assert duplicates([problem("?"), problem("!"), problem("?")]) == [problem("?")]


def test_thirteen_shared_tokens_are_an_overlap_and_twelve_are_not() -> None:
    words = LONG.split()
    thirteen = problem("Before: " + " ".join(words[:13]) + " and after")
    twelve = problem("Before: " + " ".join(words[:12]) + " and after")
    assert overlapping([thirteen, twelve], [LONG]) == [thirteen]


def test_a_short_statement_inside_a_longer_one_is_an_overlap_in_both_directions() -> None:
    short, long = (
        "Compute the sum of the first nine odd primes",
        "Please: compute the sum of the first nine odd primes!",
    )
    assert overlapping([problem(short)], [long]) == [problem(short)]
    assert overlapping([problem(long)], [short]) == [problem(long)]


def test_a_very_short_statement_counts_only_as_a_whole() -> None:
    assert overlapping([problem("Compute 2 + 2.")], ["Compute 2 + 2 and then much more."]) == []
    assert overlapping([problem("Compute 2 + 2.")], ["compute  2+2"]) == [problem("Compute 2 + 2.")]


@given(
    st.lists(st.text("ab 12+", max_size=80), max_size=6), st.lists(st.text("ab 12+", max_size=80), max_size=6)
)
def test_overlap_is_symmetric(ours: list[str], theirs: list[str]) -> None:
    here = overlapping([problem(text) for text in ours], theirs)
    there = overlapping([problem(text) for text in theirs], ours)
    assert bool(here) == bool(there)


@given(st.text(max_size=200))
def test_any_text_has_tokens_and_overlaps_with_itself(text: str) -> None:
    assert tokens(text) == tokens(text.swapcase() if text.isascii() else text)
    assert overlapping([problem(text)], [text]) == [problem(text)]


def test_programs_may_share_more_boilerplate_than_mathematics() -> None:
    assert NGRAM["code"] > NGRAM["math"] == 13
    assert overlapping([problem(LONG)], [LONG + " again"], NGRAM["code"]) == [problem(LONG)]


@pytest.mark.parametrize("module", [dedup, splits, files])
def test_examples_in_docstrings_run(module: object) -> None:
    outcome = doctest.testmod(module)  # type: ignore[arg-type]
    assert outcome.attempted > 0
    assert outcome.failed == 0
