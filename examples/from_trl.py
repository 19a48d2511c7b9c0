"""What a user of TRL is used to: a dataset, a reward function, a LoraConfig and a GRPOConfig."""

import tempfile

from datasets import Dataset
from peft import LoraConfig
from trl import GRPOConfig

from agon import AgonTrainer, LiveView

ROWS = [
    {"prompt": [{"role": "user", "content": f"{a} + {b} + 40 ="}], "solution": str(a + b + 40)}
    for a in range(20, 28)
    for b in range(30, 34)
]


def is_the_sum(completions, solution, **kwargs):
    """A reward function as TRL takes it; here it decides whether an answer is right."""
    said = [message[0]["content"] for message in completions]
    return [float(f"<answer>{gold}</answer>" in text) for text, gold in zip(said, solution, strict=True)]


if __name__ == "__main__":
    sums = Dataset.from_list(ROWS)
    trainer = AgonTrainer(
        model="embedded",
        train_dataset=sums,
        eval_dataset=sums.select(range(4)),
        reward_funcs=is_the_sum,
        peft_config=LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"),
        args=GRPOConfig(
            tempfile.mkdtemp(prefix="agon-"),
            max_steps=2,
            num_generations=4,
            max_completion_length=48,
            use_cpu=True,
            save_strategy="no",
        ),
        callbacks=[LiveView()],
    )
    trainer.train()
    print({name: round(rate, 2) for name, rate in trainer.evaluate().items() if name.endswith("correct")})
    trainer.close()
