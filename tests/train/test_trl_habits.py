"""What a user of TRL does by habit works here: its quick start, datasets, reward functions, configurations."""

import json
import re
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict
from peft import LoraConfig
from trl import GRPOConfig

from agon.errors import InputError
from agon.runs.folder import Run
from agon.tasks import task_from_dataset
from agon.train.from_trl import as_config
from agon.train.live import LiveView
from agon.train.trainer import AgonTrainer
from tests import tiny
from tests.train.build import OPTIONS, config
from tests.train.reward_functions import has_the_solution, is_short

ROWS = [{"prompt": [{"role": "user", "content": f"{n}?"}], "solution": f"${n % 3}$"} for n in range(8)]
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "1?"},
    {"role": "assistant", "content": "1"},
    {"role": "user", "content": "2?"},
]


def ours(folder: Path, **given: Any) -> AgonTrainer:
    options = {"args": config(folder), "processing_class": tiny.tokenizer(), **given}
    return AgonTrainer(tiny.model(), **options)


def test_the_quick_start_of_trl_trains_a_pair_with_three_lines_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As TRL prints it. Model and dataset are found under their names of the Hub, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n([^`]*GRPOTrainer\([^`]*)```", str(metadata("trl").json["description"]))
    tiny.model().save_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
    tiny.tokenizer().save_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
    data = Path("trl-lib/DeepMath-103K/train.jsonl")
    data.parent.mkdir(parents=True)
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    changes = {
        "from trl import GRPOTrainer": "from agon import AgonConfig, AgonTrainer",
        "trainer = GRPOTrainer(": "trainer = AgonTrainer(",
        "    train_dataset=dataset,": "    train_dataset=dataset, args=AgonConfig(**SMALL),",
    }
    before = code.splitlines()
    after = [changes.get(line, line) for line in before]
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 3
    small = {**OPTIONS, "output_dir": "runs/first", "max_steps": 1}
    names: dict[str, Any] = {"SMALL": small}
    exec("\n".join(after), names)
    names["trainer"].close()
    assert {path.name for path in Path("runs/first/adapters").iterdir()} == {"A", "B"}
    duels = list(Run("runs/first").duels())
    assert len(duels) == 16
    assert {duel.draft.verdict.reason for duel in duels} <= {"correct", "wrong"}
    # The reward function is TRL's own, and comes from where it was imported: a run can name it.
    assert Run("runs/first").read_config()["judge"] == "trl.rewards.accuracy_rewards:accuracy_reward"


def test_a_grpo_config_keeps_what_was_set_and_its_layout() -> None:
    made = as_config(
        GRPOConfig(
            "somewhere", learning_rate=1e-4, per_device_train_batch_size=8, num_generations=8, use_cpu=True
        )
    )
    assert (made.output_dir, made.learning_rate) == ("somewhere", 1e-4)
    # One step of TRL is one problem with 8 rollouts; here they are two micro-batches, drafts and challenges.
    layout = (made.per_device_train_batch_size, made.gradient_accumulation_steps, made.num_generations)
    assert layout == (4, 2, 8)
    assert made.max_completion_length == 2048


def test_a_grpo_config_trains(tmp_path: Path) -> None:
    args = GRPOConfig(
        str(tmp_path),
        max_steps=1,
        use_cpu=True,
        max_completion_length=8,
        num_generations=4,
        per_device_train_batch_size=8,
        gradient_checkpointing=False,
        save_strategy="no",
    )
    trainer = ours(tmp_path, args=args, train_dataset=Dataset.from_list(ROWS), reward_funcs=has_the_solution)
    trainer.train()
    trainer.close()
    assert Run(tmp_path).read_summary()["steps"] == 1


def test_a_lora_config_sets_both_adapters_and_what_it_cannot_is_refused(tmp_path: Path) -> None:
    lora = LoraConfig(r=4, lora_alpha=12, target_modules="all-linear", task_type="CAUSAL_LM")
    trainer = ours(tmp_path, task=tiny.task(), peft_config=lora)
    for name in "AB":
        made = trainer.pair.model.peft_config[name]
        assert (made.r, made.lora_alpha) == (4, 12)
    trainer.close()
    with pytest.raises(InputError, match="not use_dora"):
        ours(tmp_path, task=tiny.task(), peft_config=LoraConfig(use_dora=True))


def test_a_dataset_dict_gives_the_splits_and_an_eval_dataset_the_validation(tmp_path: Path) -> None:
    parts = DatasetDict({"train": Dataset.from_list(ROWS), "val": Dataset.from_list(ROWS[:2])})
    trainer = ours(tmp_path, train_dataset=parts, reward_funcs=has_the_solution)
    assert [len(trainer.task.problems(split)) for split in ("train", "validation")] == [8, 2]
    trainer.close()
    trainer = ours(
        tmp_path,
        train_dataset=Dataset.from_list(ROWS),
        eval_dataset=Dataset.from_list(ROWS[:3]),
        reward_funcs=[has_the_solution, is_short],
    )
    assert len(trainer.task.problems("validation")) == 3
    rates = trainer.evaluate(Dataset.from_list(ROWS[:4]), metric_key_prefix="test")
    trainer.close()
    assert 0 <= rates["test_best"] <= 1


def test_conversations_and_a_system_prompt_reach_the_model(tmp_path: Path) -> None:
    rows = Dataset.from_list([{"prompt": MESSAGES, "answer": "2"}, {"prompt": MESSAGES[-1:], "answer": "2"}])
    trainer = ours(
        tmp_path, train_dataset=rows, judge="exact", args=config(tmp_path, system_prompt="Think hard.")
    )
    both = [trainer.chat.render(trainer.chat.plain(problem)) for problem in trainer.problems]
    trainer.close()
    assert both[0].index("Be brief.") < both[0].index("1?") < both[0].index("2?")
    assert "Think hard." not in both[0]  # the conversation has a system message of its own
    assert "Think hard." in both[1]


def test_a_graded_judge_is_paid_by_its_score(tmp_path: Path) -> None:
    rows = Dataset.from_list(ROWS)
    for graded in (False, True):
        folder = tmp_path / str(graded)
        trainer = ours(
            folder, train_dataset=rows, reward_funcs=is_short, args=config(folder, graded=graded, max_steps=1)
        )
        trainer.train()
        trainer.close()
        for duel in Run(folder).duels():
            paid = duel.draft.reward - 0.5 * duel.draft.well_formed
            assert paid == (2 * duel.draft.verdict.grade if graded else 2 * duel.draft.correct)


def test_a_run_of_a_dataset_keeps_its_problems_and_opens_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agon.evaluate.target import open_target

    rows = Dataset.from_list([{"problem": f"{n}?", "answer": str(n % 3)} for n in range(8)])
    trainer = ours(
        tmp_path / "run", train_dataset=rows, judge="exact", args=config(tmp_path / "run", max_steps=1)
    )
    trainer.train()
    trainer.close()
    monkeypatch.chdir(tmp_path)
    task = open_target("run").own_task()
    assert task.problems("train") == list(trainer.problems)
    assert open_target("run").judge_name(task) == "exact"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "Give `train_dataset`"),
        ({"train_dataset": Dataset.from_list(ROWS)}, "needs a judge"),
        ({"train_dataset": Dataset.from_list(ROWS), "reward_funcs": "org/reward-model"}, "no right or wrong"),
        ({"train_dataset": 3, "judge": "math"}, "not int"),
        ({"task": tiny.task(), "judge": "math", "reward_funcs": "math"}, "not both"),
        ({"task": tiny.task(), "train_dataset": "gsm8k"}, "not both"),
        ({"train_dataset": Dataset.from_list(ROWS).to_iterable_dataset(), "judge": "math"}, "no length"),
        ({"train_dataset": Dataset.from_list([{"x": 1}]), "judge": "math"}, "no column 'problem'"),
        ({"train_dataset": [{"prompt": MESSAGES[:1], "answer": "1"}], "judge": "math"}, "must be the user's"),
        ({"task": tiny.task(), "args": 3}, "must be an AgonConfig or a GRPOConfig"),
    ],
)
def test_what_has_no_meaning_here_is_one_sentence(
    tmp_path: Path, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        ours(tmp_path, **given)


def test_the_live_view_shows_a_run_from_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainer = ours(tmp_path, task=tiny.task(), callbacks=[LiveView()], args=config(tmp_path, max_steps=1))
    trainer.train()
    trainer.close()
    said = capsys.readouterr()
    assert "step 1/1" in said.err
    assert "{'loss'" not in said.out


def test_columns_that_a_judge_may_ask_for_are_kept_only_for_a_judge_of_ones_own() -> None:
    rows = [{"problem": "1?", "answer": "1", "level": 3}]
    assert task_from_dataset(rows).problems("train")[0].metadata == {}
    kept = task_from_dataset(rows, needs_answer=False).problems("train")[0].metadata
    assert kept["columns"] == {"problem": "1?", "answer": "1", "level": 3}
