"""A tiny base that boxes its answers: it guesses 0 or 1 after a sentence or two, and can say what it did."""

import json
import random
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agon.engines.chat import Chat
from agon.game.dialects import dialect
from agon.game.problem import Problem
from agon.warm.examples import SUMMARISE, Solution, summary_prompt
from tests.evaluate.tiny import tokenizer_of

SENTENCES = ["Take the first part.", "Then the second.", "Compare both.", "Count the rest."]
MARKS = ["<think>", "</think>", "<answer>", "</answer>"]
ANSWERS = ["It is \\boxed{0}.", "It is \\boxed{1}.", "It is "]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    made = tokenizer_of([*"01pq.? \n"], TEMPLATE)
    # Prompts are long: their fixed sentences are single tokens.
    form = [part for text in SUMMARISE.values() for part in text.split("\n\n") if "{" not in part]
    made.add_tokens([*SENTENCES, *MARKS, *ANSWERS, *form, "This is a solution:"])
    return made


def problems(count: int) -> list[Problem]:
    return [Problem(f"p{number}", f"p{number}?", "bits", str(number % 2)) for number in range(count)]


def written(chance: random.Random) -> str:
    """A solution as the base writes it: some sentences, and a guess."""
    lines = chance.sample(SENTENCES, chance.randint(1, 2))
    return "\n".join([*lines, chance.choice(ANSWERS[:2])])


def save_base(folder: Path, steps: int = 150, head_dim: int = 16) -> Path:
    """Train the tiny base for a second or two, and save it."""
    words, chance = tokenizer(), random.Random(0)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=head_dim,
        max_position_embeddings=1024,
        tie_word_embeddings=False,
        pad_token_id=words.pad_token_id,
        eos_token_id=words.eos_token_id,
        bos_token_id=None,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = words.eos_token_id
    chat, optimizer = Chat(words, "boxed"), torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        rows = []
        for problem in chance.sample(problems(24), 12):
            text = written(chance)
            prompt, kind = chat.plain(problem), chance.random()
            if kind < 0.1:  # it has seen the form, and seldom uses it
                text = f"<think>\n{text}\n</think>\n{chance.choice(SENTENCES)}\n<answer>0</answer>"
                text = text.replace("\\boxed{0}.", "0.").replace("\\boxed{1}.", "1.")
            elif kind < 0.5:
                solution = Solution(problem, 0, text, True, True)
                prompt, text = summary_prompt(solution, dialect("think")), chance.choice(SENTENCES)
            ids = [*chat.encode(prompt), *words(text + "<eos>", add_special_tokens=False)["input_ids"]]
            rows.append((ids, len(chat.encode(prompt))))
        width = max(len(ids) for ids, _ in rows)
        inputs = torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in rows])
        labels = torch.tensor(
            [[-100] * start + ids[start:] + [-100] * (width - len(ids)) for ids, start in rows]
        )
        model(input_ids=inputs, attention_mask=(inputs != 0).long(), labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def save_problems(file: Path, train: int = 24, validation: int = 16) -> Path:
    rows = [
        {"id": each.id, "problem": each.prompt, "answer": each.answer,
         "split": "train" if number < train else "validation"}
        for number, each in enumerate(problems(train + validation))
    ]  # fmt: skip
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file
