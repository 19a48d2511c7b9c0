"""Text split while it is written agrees with the transcript of the whole, however it is cut into pieces."""

from hypothesis import example, given
from hypothesis import strategies as st

from agon.game.dialects import DIALECTS, Dialect
from agon.game.live_split import LiveSplit, LiveStop
from agon.game.transcript import split

DIALECT = st.sampled_from([DIALECTS["think"], DIALECTS["gemma"]])
# Text that has beginnings of marks in it and never a whole one.
PLAIN = st.text(alphabet="ab <>/|\n").map(lambda text: text.replace("<|channel", "").replace("<channel", ""))
PIECES = st.lists(st.integers(1, 9), min_size=1, max_size=30)


def cut(text: str, sizes: list[int]) -> list[str]:
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    return pieces


def parts(kind: Dialect, pieces: list[str], prefilled: bool = False) -> tuple[str, str]:
    """What was passed on as private, and as public."""
    live = LiveSplit(kind, prefilled)
    found = [part for piece in pieces for part in live.feed(piece)] + live.finish()
    assert all(text for _, text in found)
    return "".join(text for private, text in found if private), "".join(
        text for private, text in found if not private
    )


@given(DIALECT, PLAIN, PLAIN, PIECES, st.booleans())
def test_one_private_block_in_front_is_split_as_the_transcript_splits_it(
    kind: Dialect, think: str, public: str, sizes: list[int], prefilled: bool
) -> None:
    text = ("" if prefilled else kind.opens) + think + kind.closes + public
    transcript = split(text, kind.name, prefilled=prefilled)
    assert parts(kind, cut(text, sizes), prefilled) == (transcript.think, public)


@given(DIALECT, PLAIN, PIECES)
def test_a_block_that_never_closes_is_private_to_the_end(kind: Dialect, think: str, sizes: list[int]) -> None:
    assert parts(kind, cut(kind.opens + think, sizes)) == (think, "")


@given(
    DIALECT, st.lists(st.sampled_from(["<think>", "</think>", "<|channel>", "<channel|>", "a", "<"])), PIECES
)
def test_nothing_is_lost_but_marks_and_nothing_depends_on_the_pieces(
    kind: Dialect, words: list[str], sizes: list[int]
) -> None:
    text = "".join(words)
    private, public = parts(kind, cut(text, sizes))
    assert (private, public) == parts(kind, [text])
    kept = text.replace(kind.opens, "").replace(kind.closes, "")
    assert sorted(private + public) == sorted(kept)


@given(st.text(), PIECES)
def test_a_dialect_without_a_private_block_is_public_all_through(text: str, sizes: list[int]) -> None:
    assert parts(DIALECTS["boxed"], cut(text, sizes)) == ("", text)


@given(st.text(alphabet="abc"), st.lists(st.text(alphabet="abc", min_size=1, max_size=3), max_size=3), PIECES)
@example("baa", ["a", "baa"], [1])
@example("baa", ["a", "baa"], [3])
def test_text_ends_before_the_stop_that_is_complete_first_however_it_arrives(
    text: str, stops: list[str], sizes: list[int]
) -> None:
    live = LiveStop(stops)
    passed = "".join(live.feed(piece) for piece in cut(text, sizes)) + live.finish()
    complete = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    assert live.hit == bool(complete)
    assert passed == text[: min(complete)[1] if complete else None]
