"""What disqualifies a row, and what must not."""

import doctest

import pytest

from agon.tasks import filters
from agon.tasks.filters import has_several_answers, is_binary


@pytest.mark.parametrize(
    "answer", ["Yes", "no", r"\text{True}", "False.", r"$\text{no}$", "diverges", " YES "]
)
def test_binary_answers_are_recognised(answer: str) -> None:
    assert is_binary(answer)


@pytest.mark.parametrize("answer", ["0", "1", "A", "n", "yes and no", r"\infty", "", "notation"])
def test_other_answers_are_kept(answer: str) -> None:
    assert not is_binary(answer)


@pytest.mark.parametrize(
    "text",
    [
        "If there are multiple answers, print any.",
        "If there are several solutions, output any of them.",
        "You can print the edges in any order.",
        "Print any valid permutation.",
        "Your answer is accepted if its absolute or relative error does not exceed 1e-6.",
        "It can be shown that there is more than one way; report any one of them",
    ],
)
def test_statements_that_accept_any_answer_are_recognised(text: str) -> None:
    assert has_several_answers(text)


@pytest.mark.parametrize(
    "text",
    ["Print the number of ways.", "Print a single integer.", "In any case print -1.", "Is there any path?"],
)
def test_statements_with_one_answer_are_kept(text: str) -> None:
    assert not has_several_answers(text)


def test_examples_in_docstrings_run() -> None:
    outcome = doctest.testmod(filters)
    assert outcome.attempted > 0
    assert outcome.failed == 0
