"""A filter finds exactly the duels that its words say."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agon.errors import InputError
from agon.game.duel import Duel
from agon.game.transcript import leaks, split
from agon.view.library import Library
from agon.view.sources import open_runs
from agon.view.words import HELP, MARKS, OUTCOMES, parse
from tests.view import make

Test = Callable[[Duel], bool]


def answers(duel: Duel) -> list[str | None]:
    entries = [duel.draft, duel.challenge]
    return [split(entry.rollout.text, "think").answer for entry in entries if entry]


def either(test: Callable[[object], bool]) -> Test:
    return lambda duel: test(duel.draft) or bool(duel.challenge and test(duel.challenge))


def final_right(duel: Duel) -> bool:
    return (duel.challenge or duel.draft).correct


TESTS: dict[tuple[tuple[str, str], ...], Test] = {
    (("outcome", "converted"),): lambda duel: duel.transition == "converted",
    (("outcome", "corrupted"),): lambda duel: duel.transition == "corrupted",
    (("outcome", "both-right"),): lambda duel: duel.transition == "both right",
    (("outcome", "both-wrong"),): lambda duel: duel.transition == "both wrong",
    (("outcome", "converted,both-right"),): lambda duel: duel.transition in ("converted", "both right"),
    (("outcome", "right"),): final_right,
    (("outcome", "wrong"),): lambda duel: not final_right(duel),
    (("mark", "copied"),): lambda duel: len(set(answers(duel))) == 1 and duel.challenge is not None,
    (("mark", "leaked"),): lambda duel: leaks(duel.shown or "", duel.problem.answer),
    (("mark", "truncated"),): either(lambda side: side.rollout.truncated),  # type: ignore[attr-defined]
    (("mark", "malformed"),): either(lambda side: not side.well_formed),  # type: ignore[attr-defined]
    (("mark", "truncated"), ("role", "draft")): lambda duel: duel.draft.rollout.truncated,
    (("policy", "A"), ("role", "draft")): lambda duel: duel.drafter == "A",
    (("policy", "A"), ("role", "challenge")): lambda duel: duel.drafter == "B",
    (("policy", "A"),): lambda duel: True,
    (("policy", "Z"),): lambda duel: False,
    (("step", "1"),): lambda duel: duel.step == 1,
    (("step", "1..2"),): lambda duel: 1 <= duel.step <= 2,
    (("step", "..1"),): lambda duel: duel.step <= 1,
    (("reward", "3..4"),): either(lambda side: 3 <= side.reward <= 4),  # type: ignore[attr-defined]
    (("reward", "2.5"), ("role", "draft")): lambda duel: duel.draft.reward == 2.5,
    (("length", "..14"), ("role", "challenge")): lambda duel: bool(
        duel.challenge and duel.challenge.rollout.length <= 14
    ),
    (("problem", "sum-1-0"),): lambda duel: duel.problem.id == "sum-1-0",
    (("problem", "SUM-2"),): lambda duel: duel.problem.id.startswith("sum-2"),
    (("search", "LET me see, 1"),): either(lambda side: "let me see, 1" in side.rollout.text),  # type: ignore[attr-defined]
    (("search", "rollout"),): lambda duel: False,  # a name in the file, not a word of a text
    (("search", 'say "hé"\n'),): lambda duel: duel.step == 9,
    (("outcome", "converted"), ("step", "0"), ("search", "sum-0-1")): lambda duel: (
        duel.converted and duel.problem.id == "sum-0-1"
    ),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "one"
    made = make.run(folder, range(4))
    (odd,) = make.duels([9])[:1]
    spoken = make.entry("B", "7", "7", text='I say "hé"\nand no more', cut=True)
    made.duels().write([replace(odd, draft=spoken, challenge=None, shown=None)])
    return folder


@pytest.mark.parametrize(
    "words",
    TESTS,
    ids=lambda words: "&".join("=".join(word) for word in words).encode("unicode_escape").decode(),
)
@pytest.mark.parametrize("sort", ["newest", "oldest"])
def test_a_filter_finds_what_its_words_say(words: tuple[tuple[str, str], ...], sort: str, run: Path) -> None:
    library = Library(open_runs([run]), cached=False)
    index = library.index("one", "training", wait=60)
    shot, _, found = library.every(index, {**dict(words), "sort": sort}, 10_000)
    every = [index.seen(row).duel for row in shot.rows]
    wanted = [number for number, duel in enumerate(every) if TESTS[words](duel)]
    if ("policy", "A") in words:
        wanted = [number for number in wanted if every[number].step != 9]
    assert found == (wanted if sort == "oldest" else wanted[::-1])


def test_the_words_of_the_tests_are_all_the_words_there_are() -> None:
    tried = {pair for words in TESTS for pair in words}
    assert {name for kind, name in tried if kind == "outcome"} >= set(OUTCOMES)
    assert {name for kind, name in tried if kind == "mark"} >= set(MARKS) - {"failed"}
    assert set(HELP) == {*OUTCOMES, *MARKS}


def test_the_longest_and_the_best_paid_come_first(run: Path) -> None:
    library = Library(open_runs([run]), cached=False)
    index = library.index("one", "training", wait=60)
    for sort, column in (("paid", "challenge_reward"), ("long", "challenge_length")):
        shot, _, found = library.every(index, {"sort": sort, "role": "challenge"}, 10_000)
        values = shot.rows[column][found].tolist()
        assert values == sorted(values, reverse=True)


def test_pages_of_a_list_join_to_the_whole_list(run: Path) -> None:
    library = Library(open_runs([run]), cached=False)
    index = library.index("one", "training", wait=60)
    wanted = parse({"search": "let me see", "outcome": "right"})
    while library.page(index, wanted, 0, 1)["searched"] < 1:
        library.found(index, wanted, 10_000)
    total = library.page(index, wanted, 0, 1)["total"]
    pages = [library.page(index, wanted, first, 5)["lines"] for first in range(0, total, 5)]
    names = [line["id"] for line in itertools.chain(*pages)]
    _, _, found = library.every(index, {"search": "let me see", "outcome": "right"}, 10_000)
    assert len(names) == len(set(names)) == len(found) > 5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"outcome": "convertd"}, "Unknown outcome 'convertd': did you mean 'converted'?"),
        ({"mark": "copied,x"}, "Unknown mark 'x'"),
        ({"role": "judge"}, "Unknown role 'judge'"),
        ({"sort": "best"}, "Unknown sort 'best'"),
        ({"step": ".."}, "step must be a number or a range"),
        ({"step": "nan"}, "step must be a number or a range"),
        ({"reward": "a..b"}, "reward must be a number or a range"),
        ({"search": "x" * 2001}, "search has 2001 characters"),
    ],
)
def test_words_that_make_no_filter_are_refused_with_what_is_allowed(
    words: dict[str, str], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence.replace("?", r"\?")):
        parse(words)
