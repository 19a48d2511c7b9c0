"""What every step of training does, and what it leaves alone."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from datasets import Dataset
from peft import PeftModel
from transformers import TrainerCallback

from agon.engines.protocol import Capabilities, Engine
from agon.errors import InputError
from agon.game.methods import METHODS
from agon.train.round_rows import RoundRows
from agon.train.trainer import AgonTrainer
from tests import tiny
from tests.train.build import config, trainer


class Witness(TrainerCallback):
    """Takes the fingerprints of base and policies after every step, and the roles of its round."""

    def __init__(self, ours: AgonTrainer) -> None:
        self.ours = ours
        self.seen = [self._now()]

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.seen.append(self._now())

    def _now(self) -> dict[str, str]:
        return {name: self.ours.pair.fingerprint(name) for name in ("base", *self.ours.pair.names)}


def test_each_step_changes_both_policies_and_never_the_base(tmp_path: Path) -> None:
    ours = trainer(tmp_path, max_steps=4)
    witness = Witness(ours)
    ours.add_callback(witness)
    ours.train()
    ours.close()
    for name in "AB":
        assert len({now[name] for now in witness.seen}) == 5
    assert len({now["base"] for now in witness.seen}) == 1


def test_roles_alternate_with_the_steps(tmp_path: Path) -> None:
    ours = trainer(tmp_path, max_steps=4)
    ours.train()
    ours.close()
    roles = {
        duel.step: (duel.drafter, duel.challenge.rollout.policy)
        for duel in ours.run.duels()
        if duel.challenge
    }
    assert roles == {0: ("A", "B"), 1: ("B", "A"), 2: ("A", "B"), 3: ("B", "A")}
    versions = {duel.step: duel.draft.rollout.version for duel in ours.run.duels()}
    assert versions == {0: 0, 1: 1, 2: 2, 3: 3}


def test_the_rows_of_a_round_pass_through_the_data_loader_untouched(tmp_path: Path) -> None:
    """TRL fetches a whole round for every micro-step: no row of it may be looked at, copied or read from a table."""
    ours = trainer(tmp_path)
    dealt = list(ours.get_train_dataloader())
    each = ours.args.steps_per_generation * ours.num_iterations
    rounds = [[row["index"] for row in rows] for rows in dealt[::each]]
    sampler = list(ours._get_train_sampler())
    size = len(rounds[0])
    assert rounds == [sampler[start : start + size] for start in range(0, len(sampler), size * each)]
    assert all(type(rows) is RoundRows for rows in dealt)
    own = {id(ours.train_dataset[index]) for index in range(len(ours.problems))}
    assert {id(row) for rows in dealt for row in rows} <= own
    ours.close()


def test_a_micro_batch_gives_gradient_to_its_own_policy_only(tmp_path: Path) -> None:
    ours = trainer(tmp_path)
    ours.model.train()
    ours.current_gradient_accumulation_steps = 4
    batches = ours._play_round([{"index": index} for index in range(4) for _ in range(8)])
    assert [batch["policy"] for batch in batches] == ["A", "B", "A", "B"]
    for batch in batches:
        ours.model.zero_grad()
        ours._compute_loss(ours.model, batch).backward()
        other = "B" if batch["policy"] == "A" else "A"
        assert all(weight.grad is None for _, weight in ours.pair.weights(other))
        assert any(
            weight.grad is not None and weight.grad.any() for _, weight in ours.pair.weights(batch["policy"])
        )
    ours.close()


def test_a_dropped_stream_leaves_its_policy_and_its_optimizer_state_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = trainer(tmp_path, max_steps=3, weight_decay=0.1)
    witness = Witness(ours)
    ours.add_callback(witness)
    moments: list[dict[str, list[torch.Tensor]]] = []

    class Moments(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            moments.append(
                {
                    name: [
                        value.clone()
                        for _, weight in ours.pair.weights(name)
                        for value in ours.optimizer.state.get(weight, {}).values()
                    ]
                    for name in "AB"
                }
            )

    ours.add_callback(Moments())
    from agon.train.streams import Stream

    whole = Stream.kept

    def drop_b_at_step_one(stream: Stream) -> list[int]:
        return [] if ours.state.global_step == 1 and stream.policy == "B" else whole(stream)

    monkeypatch.setattr(Stream, "kept", drop_b_at_step_one)
    ours.train()
    ours.close()
    before, after = witness.seen[1], witness.seen[2]
    assert before["B"] == after["B"]
    assert before["A"] != after["A"]
    assert moments[0]["B"]
    assert all(torch.equal(old, new) for old, new in zip(moments[0]["B"], moments[1]["B"], strict=True))
    assert witness.seen[3]["B"] != after["B"]


def test_groups_without_variance_are_dropped_and_the_rest_share_the_weight(tmp_path: Path) -> None:
    ours = trainer(tmp_path, loss_type="grpo", num_generations=4)
    ours.model.train()
    batches = ours._play_round([{"index": index} for index in range(16) for _ in range(4)])
    duels = list(ours.run.duels())
    ours.close()
    for stream in ("draft", "challenge"):
        entries = [entry for duel in duels if (entry := getattr(duel, stream))]
        groups = [{entries[start].reward, entries[start + 1].reward} for start in range(0, 32, 2)]
        kept = sum(len(group) > 1 for group in groups)
        assert 0 < kept < len(groups), "the example should have both kinds of group"
        fed = [batch for batch in batches if batch["stream"] == stream and batch["weight"] > 0]
        assert sum(len(batch["advantages"]) for batch in fed) == 2 * kept
        # The mean over kept rows: each row weighs 1/kept in the sum over the window's micro-batches.
        rows = [batch["weight"] / (4 * len(batch["advantages"])) for batch in fed]
        assert rows == pytest.approx([1 / (2 * kept)] * len(fed))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_on_the_same_budget(tmp_path: Path, name: str) -> None:
    ours = trainer(tmp_path, method=name)
    witness = Witness(ours)
    ours.add_callback(witness)
    ours.train()
    ours.close()
    duels = list(ours.run.duels())
    rollouts = sum(1 + (duel.challenge is not None) for duel in duels)
    assert rollouts == 2 * 4 * 8, "two steps of four problems with 2N = 8 rollouts each"
    for policy in ours.pair.names:
        assert witness.seen[0][policy] != witness.seen[-1][policy]
    assert ours.pair.names == ("A", "B")[: METHODS[name].policies]
    assert all((duel.shown is not None) == METHODS[name].shows_attempt for duel in duels)


def test_the_saved_adapters_load_with_peft_and_give_the_same_logits(tmp_path: Path) -> None:
    ours = trainer(tmp_path)
    ours.train()
    ours.close()
    ids = torch.arange(4, 24)[None]
    ours.model.eval()
    for name in "AB":
        ours.pair.activate(name)
        with torch.no_grad():
            trained = ours.model(input_ids=ids).logits
            loaded = PeftModel.from_pretrained(tiny.model(), str(tmp_path / "adapters" / name)).eval()
            assert torch.equal(loaded(input_ids=ids).logits, trained)
        assert "Policy " + name in (tmp_path / "adapters" / name / "README.md").read_text()


def test_the_run_folder_holds_everything(tmp_path: Path) -> None:
    ours = trainer(
        tmp_path, eval_strategy="steps", eval_steps=2, validation_size=4, save_strategy="steps", save_steps=2
    )
    ours.train()
    ours.close()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        *("config.yaml", "environment.json", "task.json", "metrics.jsonl", "summary.json"),
        *("duels", "checkpoints", "adapters", "adapters.json", "problems"),
    }
    lines = ours.run.read_metrics()
    assert [line["step"] for line in lines] == [1, 2, 2]
    assert {"eval_A->B/correct", "eval_B->A/correct", "eval_A/correct", "eval_B/correct"} <= lines[-1].keys()
    step = lines[0]
    for stream in ("draft", "challenge"):
        for metric in (
            "correct",
            "well_formed",
            "truncated",
            "length",
            "dropped_groups",
            "entropy",
            "reward/form",
        ):
            assert f"{stream}/{metric}" in step
    assert {
        "duel/converted",
        "duel/corrupted",
        "duel/agreement",
        "pair/distance",
        "A/grad_norm",
    } <= step.keys()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["finished"]
    assert summary["steps"] == 2
    environment = json.loads((tmp_path / "environment.json").read_text())
    assert environment["seeds"] == {"run": 1, "task": 0}
    assert environment["sandbox"] == "bubblewrap"


def test_recorded_advantages_are_those_of_the_game(tmp_path: Path) -> None:
    from agon.game.advantages import group_advantages

    ours = trainer(tmp_path, max_steps=1)
    ours.train()
    ours.close()
    duels = list(ours.run.duels())
    for start in range(0, len(duels), 4):
        group = [duel.challenge for duel in duels[start : start + 4] if duel.challenge]
        expected = group_advantages([entry.reward for entry in group])
        assert [entry.advantage for entry in group] == pytest.approx(expected, abs=1e-5)


def test_a_dataset_and_a_function_are_enough(tmp_path: Path) -> None:
    rows = [{"problem": f"{index}?", "answer": str(index % 3)} for index in range(16)]
    ours = AgonTrainer(
        tiny.model(),
        Dataset.from_list(rows),
        config(tmp_path, max_steps=1),
        judge="tests.last_box:last_box",
        processing_class=tiny.tokenizer(),
    )
    ours.train()
    ours.close()
    assert any(duel.draft.correct for duel in ours.run.duels())


def test_a_second_run_does_not_overwrite_the_first(tmp_path: Path) -> None:
    first = trainer(tmp_path, max_steps=1)
    first.train()
    first.close()
    second = trainer(tmp_path, max_steps=1)
    with pytest.raises(InputError, match="already holds a run"):
        second.train()
    second.close()


REFUSED = [
    ({"method": "argon"}, "did you mean 'agon'"),
    ({"engine": "vlm"}, "did you mean 'vllm'"),
    ({"num_generations": 7, "per_device_train_batch_size": 7}, "must be even"),
    (
        {"gradient_accumulation_steps": 1, "per_device_train_batch_size": 32},
        "gradient_accumulation_steps must be even",
    ),
    ({"reward_weights": [1.0]}, "reward_weights"),
    ({"generation_kwargs": {"num_beams": 2}}, "generation_kwargs"),
    ({"use_transformers_continuous_batching": True}, "bfloat16"),
    ({"load_best_model_at_end": True, "eval_strategy": "steps", "save_strategy": "steps"}, "load_best_model"),
    ({"sync_ref_model": True}, "sync_ref_model"),
    ({"push_to_hub": True}, "push_to_hub"),
    ({"entropy_coef": 0.1, "loss_type": "dapo"}, "entropy_coef"),
    ({"num_iterations": 2, "save_strategy": "steps", "save_steps": 3}, "save_steps"),
]


@pytest.mark.parametrize(("options", "sentence"), REFUSED)
def test_an_option_that_cannot_keep_its_meaning_is_refused(
    tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((InputError, ValueError), match=sentence):
        config(tmp_path, **options)


@pytest.mark.parametrize("kind", ["qwen3", "qwen3_5", "gemma4", "qwen2", "llama"])
def test_every_architecture_of_the_paper_trains(tmp_path: Path, kind: str) -> None:
    ours = trainer(tmp_path, kind)
    witness = Witness(ours)
    ours.add_callback(witness)
    ours.train()
    ours.close()
    assert witness.seen[0]["base"] == witness.seen[-1]["base"]
    assert all(witness.seen[0][name] != witness.seen[-1][name] for name in "AB")


class Mute:
    """An engine with weights of its own that says nothing of what it sampled with."""

    capabilities = Capabilities("mute", streams=True, live_weights=False, logprobs=False)


def test_an_engine_without_log_probs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the engine 'mute' sampled with, and this one reports no log-probs"):
        AgonTrainer(tiny.model(), tiny.task(), config(tmp_path), engine=cast(Engine, Mute()))
