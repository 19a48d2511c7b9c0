"""Live sampling: the same tokens as in one batch, whoever comes and goes in between."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.engines.chat import Chat
from agon.engines.live import Completions, LiveEngine, live_engine
from agon.engines.live_text import LiveTexts
from agon.engines.protocol import Request, Sampling
from agon.engines.transformers_engine import TransformersEngine, stop_ids
from agon.errors import InputError
from agon.policies import Adapters, Pair
from agon.policies.base import load_tokenizer
from tests import tiny

POLICIES = ("A", "B", "base")


@pytest.fixture(scope="module")
def engine() -> TransformersEngine:
    words = tiny.tokenizer()
    pair = Pair.create(tiny.model(), Adapters(rank=4, noise=0.3))
    chat = Chat(words, "boxed")
    made = TransformersEngine(
        pair, chat.decode, stop_ids(pair.model.get_base_model(), words), words.pad_token_id
    )
    for policy in ("A", "B"):
        made.sync(policy, 0)
    return made


@pytest.fixture
def live(engine: TransformersEngine) -> Iterator[LiveEngine]:
    made = live_engine(engine)
    yield made
    made.close()


def requests(count: int, tokens: int = 12) -> list[Request]:
    sampling = Sampling(tokens, temperature=1.0)
    return [
        Request(f"{number}", tuple(range(5, 9 + number % 5)), POLICIES[number % 3], 0, sampling, number)
        for number in range(count)
    ]


def in_one_batch(engine: TransformersEngine, wanted: Sequence[Request]) -> dict[str, tuple[int, ...]]:
    engine.submit(wanted)
    rollouts = {}
    while finished := engine.collect():
        rollouts.update({done.request.key: done.rollout.token_ids for done in finished})
    return rollouts


Tokens = dict[str, tuple[int, ...]]


def take(live: LiveEngine, steps: int, taken: Tokens) -> None:
    """Advance so many times, and put what comes to what was taken before."""
    for _ in range(steps):
        for piece in live.advance():
            taken[piece.key] = taken.get(piece.key, ()) + tuple(piece.token_ids)


def drain(live: LiveEngine, taken: Tokens | None = None) -> Tokens:
    taken = {} if taken is None else taken
    while live.running:
        take(live, 1, taken)
    return taken


@pytest.mark.parametrize("whole", [False, True])
def test_live_tokens_are_those_of_a_batch(engine: TransformersEngine, live: LiveEngine, whole: bool) -> None:
    wanted = requests(12)
    expected = in_one_batch(engine, wanted)
    taken: Tokens = {}
    live.submit(wanted[:5], whole)
    take(live, 3, taken)
    assert whole or taken
    live.submit(wanted[5:], whole)
    assert drain(live, taken) == expected


def test_pieces_of_a_request_are_its_tokens_one_by_one(engine: TransformersEngine, live: LiveEngine) -> None:
    wanted = requests(7)
    expected = in_one_batch(engine, wanted)
    live.submit(wanted)
    pieces: dict[str, list[int]] = {}
    ends = {}
    while live.running:
        for piece in live.advance():
            assert len(piece.token_ids) == 1
            assert piece.key not in ends
            pieces.setdefault(piece.key, []).extend(piece.token_ids)
            if piece.finish_reason:
                ends[piece.key] = piece.finish_reason
    assert {key: tuple(tokens) for key, tokens in pieces.items()} == expected
    assert ends == {
        key: "length" if len(tokens) == 12 and tokens[-1] != engine._stop_ids[0] else "stop"
        for key, tokens in expected.items()
    }


def test_a_request_that_comes_later_does_not_wait_for_the_longest(live: LiveEngine) -> None:
    (long,) = requests(1, tokens=200)
    live.submit([Request("long", long.prompt_ids, "A", 0, Sampling(200, ignore_stop=True), 0)])
    live.advance()
    live.submit([Request("short", (5, 6), "B", 0, Sampling(4, ignore_stop=True), 0)])
    keys = [piece.key for _ in range(20) for piece in live.advance()]
    assert keys.count("short") == 4
    assert keys.count("long") == 16
    live.cancel(["long"])
    assert live.running == 0


def test_cancelled_requests_are_forgotten_wherever_they_are(
    engine: TransformersEngine, live: LiveEngine
) -> None:
    wanted = requests(9)
    expected = in_one_batch(engine, wanted)
    live.submit(wanted)
    live.cancel(["0"])  # waits
    taken: Tokens = {}
    take(live, 3, taken)
    before = dict(taken)
    live.cancel(["1", "3", "4", "no such key"])  # some of them run
    drain(live, taken)
    kept = {"2", "5", "6", "7", "8"}
    assert {key: taken[key] for key in kept} == {key: expected[key] for key in kept}
    assert {key: taken.get(key) for key in "0134"} == {key: before.get(key) for key in "0134"}
    assert live.advance() == []


def test_a_policy_that_is_not_there_is_refused(live: LiveEngine) -> None:
    with pytest.raises(InputError, match="never synced"):
        live.submit([Request("x", (5,), "C", 0, Sampling(1), 0)])
    assert live.running == 0


def test_an_engine_without_a_live_side_returns_completions_whole(engine: TransformersEngine) -> None:
    wanted = requests(6)
    expected = in_one_batch(engine, wanted)
    whole = Completions(engine)
    whole.submit(wanted)
    whole.cancel(["1"])
    tokens = drain(whole)
    assert tokens == {key: each for key, each in expected.items() if key != "1"}


EMBEDDED = Chat(load_tokenizer("embedded"), "think")


def streamed(token_ids: list[int], size: int) -> tuple[str, str]:
    """What is passed on while tokens come so many at a time, and the rest."""
    live = LiveTexts(EMBEDDED).start()
    parts = [live.feed(token_ids[at : at + size]) for at in range(0, len(token_ids), size)]
    assert live.token_ids == token_ids
    return "".join(parts), live.finish()


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.integers(1, 7))
def test_live_text_is_in_the_end_what_decoding_the_whole_gives(text: str, size: int) -> None:
    token_ids = [*EMBEDDED.tokenizer(text, add_special_tokens=False)["input_ids"], 381]
    passed, rest = streamed(token_ids, size)
    assert passed + rest == EMBEDDED.decode(token_ids)
    assert rest == ""


@given(st.lists(st.integers(0, 383), max_size=40), st.integers(1, 7))
def test_bytes_that_are_no_text_never_end_a_stream(token_ids: list[int], size: int) -> None:
    passed, rest = streamed(token_ids, size)
    assert len(passed + rest) >= len(EMBEDDED.decode(token_ids))
