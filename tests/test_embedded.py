"""The embedded base is small, reads our prompts in few tokens, and has good and bad habits for training to select."""

import doctest
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reasoning_gym import create_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

from agon.embedded import base_path, default_recipe
from agon.game import challenger_prompt, plain_prompt, split
from agon.tasks import load_task
from agon.train.recipes import parse_recipe
from scripts.pretraining import quality, traces
from scripts.pretraining.tokenizer import build_tokenizer

HABITS = sorted({*traces.DRAFT_HABITS, *traces.CHALLENGE_HABITS})
CHAINS = st.builds(
    traces.Chain,
    st.tuples(*[st.integers(10, 99)] * 3),
    st.tuples(*[st.sampled_from((1, -1))] * 2),
)
TOKENIZER: Any = build_tokenizer()


def ids_of(text: str) -> list[int]:
    ids: list[int] = TOKENIZER(text, add_special_tokens=False)["input_ids"]
    return ids


def rendered(prompt: list[dict[str, str]]) -> str:
    text: str = TOKENIZER.apply_chat_template(
        prompt, tokenize=False, add_generation_prompt=True, enable_thinking=True
    )
    return text


@pytest.fixture(scope="module")
def base() -> tuple[Any, Any]:
    folder = base_path()
    return (
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval(),
        AutoTokenizer.from_pretrained(folder, padding_side="left"),
    )


def test_the_base_ships_in_at_most_eight_megabytes() -> None:
    assert sum(path.stat().st_size for path in base_path().iterdir()) <= 8_000_000
    assert Path(base_path(), "README.md").is_file()


def test_the_base_is_a_qwen3_that_the_auto_classes_load(base: tuple[Any, Any]) -> None:
    net, tokenizer = base
    assert net.config.model_type == "qwen3"
    assert net.generation_config.eos_token_id == tokenizer.eos_token_id
    assert net.config.vocab_size == len(tokenizer)


def test_the_shipped_tokenizer_is_the_one_built_from_the_phrases(base: tuple[Any, Any]) -> None:
    assert base[1].get_vocab() == TOKENIZER.get_vocab()
    assert base[1].chat_template == TOKENIZER.chat_template


@given(CHAINS, st.sampled_from(HABITS))
def test_prompts_and_traces_take_few_tokens(chain: traces.Chain, habit: str) -> None:
    problem = quality.problem(chain)
    trace = traces.write(habit, chain, traces.Columns(12, -10))
    shown = split(trace, "think").shown()
    assert len(ids_of(rendered(plain_prompt(problem, "think")))) <= 16
    assert len(ids_of(rendered(challenger_prompt(problem, shown, "think")))) <= 26
    assert len(ids_of(trace)) <= 44


@given(st.text())
def test_any_text_decodes_to_what_it_was(text: str) -> None:
    assert TOKENIZER.decode(ids_of(text)) == text


@pytest.mark.parametrize("text", ["<0x41>", "<think>\n</think>", "a , b 's n't ?", " \t\r\n", "‹∑› é 🙂"])
def test_text_that_looks_like_tokens_decodes_to_what_it_was(text: str) -> None:
    assert TOKENIZER.decode(ids_of(text)) == text


def test_a_prompt_without_thinking_has_an_empty_think_block() -> None:
    prompt = [{"role": "user", "content": "2 + 2"}]
    text = TOKENIZER.apply_chat_template(
        prompt, tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    assert text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


@given(CHAINS, st.sampled_from(HABITS))
def test_a_trace_is_well_formed_and_announces_its_habit(chain: traces.Chain, habit: str) -> None:
    trace = traces.write(habit, chain, traces.Columns(3, -4))
    assert split(trace, "think").well_formed
    assert traces.habit_of(trace) == habit


@given(CHAINS, st.sampled_from(traces.CAREFUL))
def test_the_careful_habits_are_right(chain: traces.Chain, habit: str) -> None:
    trace = traces.write(habit, chain, traces.Columns(3, -4))
    assert split(trace, "think").answer == str(chain.total)


@given(CHAINS)
def test_trusting_a_right_attempt_gives_the_right_answer(chain: traces.Chain) -> None:
    draft = split(traces.write(traces.CAREFUL[0], chain), "think")
    stated = traces.Columns.parse(draft.shown())
    assert split(traces.write("trusting", chain, stated), "think").answer == str(chain.total)


@pytest.mark.parametrize("habit", sorted(traces.SLOPPY))
def test_the_sloppy_habits_are_mostly_wrong(habit: str) -> None:
    rng = random.Random(0)
    chains = [traces.Chain.draw(rng) for _ in range(1000)]
    right = [split(traces.write(habit, chain), "think").answer == str(chain.total) for chain in chains]
    assert sum(right) < 300


def test_questions_are_worded_as_reasoning_gym_words_them() -> None:
    for entry in create_dataset(traces.TASK, seed=7, size=50, **traces.OPTIONS):
        chain = traces.Chain.parse(entry["question"])
        assert chain.question == entry["question"]
        assert str(chain.total) == entry["answer"]


def test_the_example_of_a_trace_is_what_is_written() -> None:
    ended = doctest.testmod(traces)
    assert ended.attempted
    assert ended.failed == 0


def test_the_default_recipe_trains_the_base_on_its_own_task() -> None:
    run, _ = parse_recipe(default_recipe())
    assert run.model == "embedded"
    for problem in load_task(run.task).problems("test")[:20]:
        assert traces.Chain.parse(problem.prompt).question == problem.prompt


def test_the_base_is_often_wrong_but_right_when_careful(base: tuple[Any, Any]) -> None:
    measured = quality.report(*base, problems=40)
    cold, warm = measured["temperature 0.6"], measured["temperature 1"]
    assert 0.15 <= cold["zero-shot"] <= 0.42
    for figures in (cold, warm):
        assert figures["pass@8"] >= 1.8 * figures["zero-shot"]
        assert figures["cascade"] >= figures["zero-shot"] - 0.03
        for stage in ("drafts", "challenges"):
            assert figures[stage]["well formed"] >= 0.97
            assert figures[stage]["right if careful"] >= 0.94
            assert figures[stage]["right otherwise"] <= 0.45
