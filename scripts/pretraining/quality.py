"""What a base must have before it is worth training, measured on problems drawn with a seed.

It must often be wrong, and wrong in several ways, at the evaluation temperature; nearly always right
when it follows the careful habit; and no worse after reading a rival's summary. From the repository root:

    python -m scripts.pretraining.quality [FOLDER] [--problems 500] [--seed 0]
"""

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from agon.embedded import base_path
from agon.game import Problem, challenger_prompt, plain_prompt, split
from agon.policies.base import load_base, load_tokenizer
from scripts.pretraining.traces import CAREFUL, Chain, habit_of

SAMPLING = {
    "temperature 1": {"temperature": 1.0, "top_p": 1.0},
    "temperature 0.6": {"temperature": 0.6, "top_p": 0.95},
}
TRIES = 8
MAX_NEW_TOKENS = 64
LIMIT = 100  # characters of a summary: a base that writes nonsense must not fill the prompt


def problem(chain: Chain) -> Problem:
    """The chain as a problem of the task."""
    return Problem(id=str(chain), prompt=chain.question, task="chain_sum", answer=str(chain.total))


@torch.inference_mode()
def sample(
    net: Any, tokenizer: Any, prompts: Sequence[Any], sampling: Mapping[str, float], batch: int = 500
) -> list[str]:
    """One completion per prompt, without its end-of-sequence token."""
    completions = []
    for start in range(0, len(prompts), batch):
        texts = [
            tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
            for prompt in prompts[start : start + batch]
        ]
        inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False).to(net.device)
        outputs = net.generate(**inputs, do_sample=True, top_k=0, max_new_tokens=MAX_NEW_TOKENS, **sampling)
        written = tokenizer.batch_decode(outputs[:, inputs["input_ids"].shape[1] :])
        completions += [text.partition(tokenizer.eos_token)[0] for text in written]
    return completions


def report(net: Any, tokenizer: Any, problems: int = 500, seed: int = 0) -> dict[str, Any]:
    """The figures by temperature, rounded to four places."""
    torch.manual_seed(seed)
    rng = random.Random(f"quality {seed}")
    chains = [Chain.draw(rng) for _ in range(problems)]
    asked = [problem(chain) for chain in chains for _ in range(TRIES)]
    return {name: _report_at(net, tokenizer, asked, sampling) for name, sampling in SAMPLING.items()}


def _report_at(net: Any, tokenizer: Any, asked: list[Problem], sampling: dict[str, float]) -> dict[str, Any]:
    drafts = sample(net, tokenizer, [plain_prompt(each, "think") for each in asked], sampling)
    read = [split(draft, "think") for draft in drafts]
    framed = [
        challenger_prompt(each, draft.shown(LIMIT), "think") for each, draft in zip(asked, read, strict=True)
    ]
    challenges = sample(net, tokenizer, framed, sampling)
    draft_right, challenge_right = _right(drafts, asked), _right(challenges, asked)
    groups = [draft_right[start : start + TRIES] for start in range(0, len(asked), TRIES)]
    return {
        "zero-shot": _mean(draft_right),
        f"pass@{TRIES}": _mean([any(group) for group in groups]),
        "cascade": _mean(challenge_right),
        "drafts": _by_habit(drafts, draft_right, tokenizer),
        "challenges": _by_habit(challenges, challenge_right, tokenizer),
    }


def _by_habit(texts: list[str], right: list[bool], tokenizer: Any) -> dict[str, Any]:
    habits = [habit_of(text) for text in texts]
    careful = [habit in CAREFUL for habit in habits]
    return {
        "well formed": _mean([split(text, "think").well_formed for text in texts]),
        "tokens": _mean([len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]),
        "right if careful": _mean([ok for ok, yes in zip(right, careful, strict=True) if yes]),
        "right otherwise": _mean([ok for ok, yes in zip(right, careful, strict=True) if not yes]),
        "habits": {habit: _mean([each == habit for each in habits]) for habit in sorted(set(habits))},
    }


def _right(texts: list[str], asked: list[Problem]) -> list[bool]:
    return [split(text, "think").answer == each.answer for text, each in zip(texts, asked, strict=True)]


def _mean(values: Sequence[float]) -> float:
    return round(fmean(values), 4) if values else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a base as JSON.")
    parser.add_argument("folder", nargs="?", type=Path, default=base_path())
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    net, tokenizer = load_base(str(args.folder)).eval(), load_tokenizer(str(args.folder))
    print(json.dumps(report(net, tokenizer, args.problems, args.seed), indent=1))


if __name__ == "__main__":
    main()
