"""However the rows of a step are divided into passes, the gradients are those of one adapter at a time, padded."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from agon.errors import InputError
from agon.train.packing import long_enough
from agon.train.passes import Division, join, lay_out
from agon.train.streams import Batch, Stream
from agon.train.trainer import AgonTrainer
from tests.train.build import lay_lines, trainer
from tests.train.test_oracle import LOSSES, Gradients, gradients, played, relative_error

WAYS: dict[str, dict[str, Any]] = {
    "by tokens": {"micro_batch_tokens": 400},
    "both at once": {"both_policies_at_once": True, "per_device_train_batch_size": 24},
    "both at once by tokens": {"both_policies_at_once": True, "micro_batch_tokens": 8000},
}


class Round:
    """One played round, which can be laid out again and again in different ways."""

    def __init__(self, ours: AgonTrainer) -> None:
        self.ours = ours
        self._options = {name: getattr(ours.args, name) for way in WAYS.values() for name in way}
        self._lay = ours._lay_out
        self.streams: list[Stream] = []
        self._batches: list[Batch] = []

        def lay_out(streams: list[Stream], batches: list[Batch]) -> list[Batch]:
            self.streams, self._batches = streams, batches
            return self._lay(streams, batches)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ours, "_lay_out", lay_out)
            played(ours)

    def laid(self, **options: Any) -> list[Batch]:
        for name, value in {**self._options, **options}.items():
            setattr(self.ours.args, name, value)
        return self._lay(self.streams, self._batches)

    def gradients(self, batches: list[Batch]) -> dict[str, Gradients]:
        return {policy: gradients(self.ours, batches, policy) for policy in self.ours.pair.names}


@pytest.fixture(autouse=True)
def padded_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are padded unless a test lays them in lines."""
    lay_lines(monkeypatch, wanted=False)


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Round]:
    ours = trainer(tmp_path_factory.mktemp("game"), padding_free=True)
    yield Round(ours)
    ours.close()


@pytest.fixture(scope="module")
def old_game(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Round]:
    """A round that is trained on twice, held to the base: with old log-probs and those of the reference."""
    ours = trainer(tmp_path_factory.mktemp("old"), padding_free=True, num_iterations=2, beta=0.04)
    yield Round(ours)
    ours.close()


def batches_in(passes: list[Batch]) -> list[Batch]:
    return [batch for step in passes for each in step["passes"] for batch in each]


ALL = "both at once by tokens"


@pytest.mark.parametrize(
    ("loss", "way"),
    [*((loss, ALL) for loss in LOSSES if loss != "bnpo"), *(("grpo", way) for way in WAYS if way != ALL)],
)
def test_passes_have_the_gradients_of_padded_micro_batches(game: Round, loss: str, way: str) -> None:
    game.ours.loss_type = loss
    expected = game.gradients(game.laid())
    passes = game.laid(**WAYS[way])
    assert len(passes) == len(game.laid())
    assert any(len(step["passes"]) != 1 for step in passes)
    assert (max(len(each) for step in passes for each in step["passes"]) == 2) == way.startswith("both")
    found = game.gradients(passes)
    for policy in "AB":
        assert relative_error(found[policy], expected[policy]) < 1e-5


@pytest.mark.parametrize(
    ("rounds", "way", "checkpointing", "packed"),
    [
        ("game", "by tokens", True, True),
        ("game", ALL, True, False),
        ("old_game", ALL, False, True),
        ("old_game", ALL, True, True),
    ],
)
def test_passes_hold_with_checkpointing_packing_and_old_log_probs(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    rounds: str,
    way: str,
    checkpointing: bool,
    packed: bool,
) -> None:
    game: Round = request.getfixturevalue(rounds)
    game.ours.loss_type = "dapo"
    expected = game.gradients(game.laid())
    if checkpointing:
        game.ours.model.gradient_checkpointing_enable()
    lay_lines(monkeypatch, wanted=packed)
    found = game.gradients(game.laid(**WAYS[way]))
    game.ours.model.gradient_checkpointing_disable()
    for policy in "AB":
        assert 0 < relative_error(found[policy], expected[policy]) < 1e-5


def test_the_log_probs_of_both_at_once_are_those_of_one_at_a_time(game: Round) -> None:
    passes = [each for step in game.laid(**WAYS["both at once"]) for each in step["passes"] if len(each) == 2]
    for batches in passes:
        ids, mask, completion = join(batches)
        rows = torch.cat(
            [torch.full((len(batch["advantages"]), 1), "AB".index(batch["policy"])) for batch in batches]
        )
        with torch.no_grad():
            found = game.ours._joint_logps(game.ours.model, ids, mask, completion, rows)[0]
            for number, policy in enumerate("AB"):
                own = rows[:, 0] == number
                with game.ours.pair.using(policy):
                    alone = game.ours._get_per_token_logps_and_entropies(
                        game.ours.model, ids[own], mask[own], completion
                    )[0]
                torch.testing.assert_close(found[own], alone, rtol=1e-5, atol=1e-5)


def test_two_optimizer_steps_of_a_round_share_its_rows(game: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(game.ours.args, "gradient_accumulation_steps", 2)
    passes = game.laid(both_policies_at_once=True, micro_batch_tokens=400)
    first, second = (
        sum(len(batch["advantages"]) for batch in batches_in(half)) for half in (passes[:2], passes[2:])
    )
    assert abs(first - second) <= 2
    assert first + second == sum(len(stream.kept()) for stream in game.streams)


def test_rows_are_cut_by_tokens_and_never_left_out() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 30, (24,), generator=generator)
    mask = (torch.arange(30) < lengths[:, None]).long()
    batch = {
        "prompt_ids": torch.ones(24, 4, dtype=torch.long),
        "prompt_mask": torch.ones(24, 4, dtype=torch.long),
        "completion_ids": mask,
        "completion_mask": mask,
        "advantages": torch.arange(24.0),
    }
    stream = Kept("draft", "A", 24, [])
    passes = lay_out([stream], [batch], Division(micro_steps=4, windows=1, loss="grpo", tokens=100))
    cut = batches_in(passes)
    assert sorted(torch.cat([each["advantages"] for each in cut]).tolist()) == list(range(24))
    sizes = [each["prompt_ids"].numel() + each["completion_ids"].numel() for each in cut]
    assert max(sizes) <= 100
    assert len(cut) > 4
    rows = [len(each["advantages"]) for each in cut]
    assert rows[0] > rows[-1], "many short rows, few long ones"


def test_rows_that_are_too_short_to_pack_count_with_their_padding() -> None:
    """Prompts and completions of 500 and 100 tokens, the one way round and the other: padded, a row is 1,000."""
    short, long = torch.tensor([100, 500]).repeat(5), torch.tensor([500, 100]).repeat(5)
    batch = {"advantages": torch.arange(10.0)}
    for part, lengths in (("prompt", short), ("completion", long)):
        mask = (torch.arange(500) < lengths[:, None]).long()
        batch |= {f"{part}_ids": mask, f"{part}_mask": mask}
    packs = partial(long_enough, device="cuda")
    division = Division(micro_steps=1, windows=1, loss="grpo", tokens=6000, packs=packs)
    cut = batches_in(lay_out([Kept("draft", "A", 10, [])], [batch], division))
    assert len(cut) > 1
    for each in cut:
        assert len(each["advantages"]) * 1000 <= 6000


def test_a_line_holds_as_many_rows_as_fit_if_their_prompt_counts_once() -> None:
    """Two groups of six rows: prompts of 50 tokens, completions of 10."""
    prompts = torch.stack([torch.full((50,), number) for number in (7, 8) for _ in range(6)])
    ones = torch.ones(12, 10, dtype=torch.long)
    batch = {"prompt_ids": prompts, "prompt_mask": torch.ones_like(prompts), "advantages": torch.arange(12.0)}
    batch |= {"completion_ids": ones, "completion_mask": ones}
    # The first row of a group takes 60 tokens, every other 11.
    division = Division(micro_steps=1, windows=1, loss="grpo", tokens=115, packs=lambda tokens, rows: True)
    cut = batches_in(lay_out([Kept("draft", "A", 12, [])], [batch], division))
    assert [each["advantages"].tolist() for each in cut] == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]


@pytest.mark.parametrize("way", ["by tokens", ALL])
def test_prompts_of_a_group_go_through_the_model_once(
    game: Round, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    lay_lines(monkeypatch, wanted=True)
    ours = game.ours
    batches = game.laid(**{**WAYS[way], "micro_batch_tokens": 8000})
    held = batches_in(batches)
    every = sum(int(each["prompt_mask"].sum() + each["completion_mask"].sum()) for each in held)
    completions = sum(int(each["completion_mask"].sum()) for each in held)
    counted = count_tokens(ours, lambda: [ours._compute_loss(ours.model, batch) for batch in batches])
    assert completions < counted < 0.7 * every


class Kept(Stream):
    """A stream of which nothing is dropped."""

    def kept(self) -> list[int]:
        return list(range(self.group))


def count_tokens(ours: AgonTrainer, work: Callable[[], Any]) -> int:
    """The tokens, padding among them, that go through the model meanwhile."""
    seen = 0

    def count(module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        nonlocal seen
        seen += kwargs["input_ids"].numel()

    hook = ours.pair.model.get_base_model().base_model.register_forward_hook(count, with_kwargs=True)
    work()
    hook.remove()
    return seen


@pytest.mark.parametrize("way", ["by rows", "by tokens", ALL])
def test_nothing_is_computed_for_groups_that_are_dropped(
    game: Round, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    first = game.streams[0].entries[: game.streams[0].group]
    monkeypatch.setattr(
        "agon.train.streams.has_signal", lambda rewards: rewards == [entry.reward for entry in first]
    )
    ours = game.ours
    batches = game.laid(**WAYS.get(way, {}))
    rows = sum(len(stream.kept()) for stream in game.streams)
    assert 0 < rows < sum(len(stream.entries) for stream in game.streams)
    held = batches_in(batches) if way != "by rows" else [each for each in batches if each["weight"]]
    assert sum(len(batch["advantages"]) for batch in held) == rows
    trained = count_tokens(ours, lambda: [ours._compute_loss(ours.model, batch) for batch in batches])
    widest = sum(each["prompt_ids"].numel() + each["completion_ids"].numel() for each in held)
    assert trained == widest or (way.startswith("both") and trained >= widest)


def test_nothing_is_scored_where_the_ratio_is_one_and_the_engine_has_our_weights(game: Round) -> None:
    assert count_tokens(game.ours, lambda: [game.ours._score(stream) for stream in game.streams]) == 0


def test_only_rows_that_are_kept_are_scored(old_game: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, streams = old_game.ours, old_game.streams
    dropped = [[entry.reward for entry in stream.entries[: stream.group]] for stream in streams]
    monkeypatch.setattr("agon.train.streams.has_signal", lambda rewards: rewards not in dropped)
    ours.beta, before = 0.0, ours.beta  # the reference scores all rows, at TRL's own pace
    counted = count_tokens(ours, lambda: [ours._score(stream) for stream in streams])
    ours.beta = before
    lengths = [
        [rollout.prompt_length + rollout.length for rollout in (stream.entries[row].rollout for row in rows)]
        for stream in streams
        for rows in (stream.kept(), range(len(stream.entries)))
    ]
    kept, every = sum(map(sum, lengths[::2])), sum(map(sum, lengths[1::2]))
    assert kept < every
    assert kept <= counted < 1.5 * kept, "some padding, and no row that was dropped"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"micro_batch_tokens": 100, "loss_type": "bnpo"}, "averages over micro-batches"),
        ({"micro_batch_tokens": 100, "method": "coop-pooled"}, "never tried with method coop-pooled"),
        ({"both_policies_at_once": True, "top_entropy_quantile": 0.5}, "one micro-batch at a time"),
        (
            {"micro_batch_tokens": 100, "gradient_accumulation_steps": 4, "steps_per_generation": 6},
            "a multiple of the other",
        ),
    ],
)
def test_what_passes_would_change_is_refused(tmp_path: Path, options: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        trainer(tmp_path, **options)


def test_a_training_in_passes_ends_with_the_same_adapters(tmp_path: Path) -> None:
    ends = []
    for name, options in {"rows": {}, "passes": WAYS[ALL]}.items():
        ours = trainer(tmp_path / name, max_steps=1, optim="sgd", **options)
        ours.train()
        ends.append(
            {key: weight.detach().clone() for each in "AB" for key, weight in ours.pair.weights(each)}
        )
        ours.close()
    for key, weight in ends[0].items():
        torch.testing.assert_close(ends[1][key], weight, rtol=1e-5, atol=1e-7)
