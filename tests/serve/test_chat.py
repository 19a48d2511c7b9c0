"""The official client asks the embedded pair over HTTP: answers, streams, counts, seeds, cancelling."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agon.arena import Arena
from agon.engines.transformers_engine import TransformersEngine, stop_ids
from agon.game.methods import METHODS
from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.serve.stages import Question
from tests.serve.running import SUM, Running

LONG = 400  # tokens that are never needed: the pair stops before


def ask(server: Running, **options: Any) -> Any:
    asked = {"model": "agon", "messages": [{"role": "user", "content": SUM}], **options}
    return server.client().chat.completions.create(**asked)


def agon(answer: Any) -> Any:
    """What the pair did, by choice."""
    return answer.agon["choices"]


def read(stream: Any) -> tuple[dict[int, str], dict[int, str], list[Any]]:
    """Content and reasoning of a stream by choice, and its chunks."""
    content: dict[int, str] = {}
    reasoning: dict[int, str] = {}
    chunks = list(stream)
    for chunk in chunks:
        for choice in chunk.choices:
            content[choice.index] = content.get(choice.index, "") + (choice.delta.content or "")
            said = getattr(choice.delta, "reasoning_content", None) or ""
            reasoning[choice.index] = reasoning.get(choice.index, "") + said
    return content, reasoning, chunks


def test_the_models_are_the_cascade_in_each_direction_each_policy_and_the_base(server: Running) -> None:
    models = {model.id: model.route for model in server.client().models.list()}  # type: ignore[attr-defined]
    assert models == {
        "agon": "A->B",
        "agon-ab": "A->B",
        "agon-ba": "B->A",
        "agon-a": "A",
        "agon-b": "B",
        "agon-base": "base",
    }
    assert server.client().models.retrieve("agon-ba").id == "agon-ba"


@pytest.mark.parametrize(
    ("model", "policies"),
    [("agon", ["A", "B"]), ("agon-ba", ["B", "A"]), ("agon-b", ["B"]), ("agon-base", ["base"])],
)
def test_each_model_is_answered_by_its_policies(server: Running, model: str, policies: list[str]) -> None:
    answer = ask(server, model=model, seed=2, extra_body={"agon": True})
    (details,) = agon(answer)
    assert [stage["policy"] for stage in details["stages"].values()] == policies
    assert (details["draft"] is not None) == (details["shown"] is not None) == (len(policies) == 2)
    assert answer.model == model


def test_the_draft_is_reasoning_and_the_public_part_of_the_final_is_content(server: Running) -> None:
    answer = ask(server, seed=1, extra_body={"agon": True})
    (details,) = agon(answer)
    message = answer.choices[0].message
    think, _, public = details["final"].partition("</think>")
    assert message.content == public.lstrip()
    assert message.content.endswith(f"<answer>{details['answer']}</answer>")
    assert message.reasoning == message.reasoning_content
    draft = details["draft"].replace("<think>", "").replace("</think>", "").split()
    assert message.reasoning.split() == draft + think.replace("<think>", "").split()
    assert details["shown"] in details["draft"]
    assert answer.choices[0].finish_reason == "stop"
    assert answer.system_fingerprint.startswith("agon_")


def test_without_being_asked_for_the_pair_s_own_object_is_left_out(server: Running) -> None:
    assert "agon" not in ask(server, seed=1).model_dump()


def test_usage_counts_both_stages_and_names_the_reasoning(server: Running) -> None:
    answer = ask(server, seed=1, extra_body={"agon": True})
    (details,) = agon(answer)
    stages, usage = details["stages"], answer.usage
    assert usage.completion_tokens == stages["draft"]["tokens"] + stages["final"]["tokens"]
    assert usage.prompt_tokens == stages["draft"]["prompt_tokens"] < stages["final"]["prompt_tokens"]
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    chat = server.opened.loaded.chat
    public = chat.tokenizer(answer.choices[0].message.content, add_special_tokens=False)["input_ids"]
    reasoning = usage.completion_tokens_details.reasoning_tokens
    assert stages["draft"]["tokens"] < reasoning < usage.completion_tokens
    assert (
        abs(usage.completion_tokens - reasoning - len(public)) <= 3
    )  # white space before it and the end token


def test_a_stream_says_what_the_whole_answer_says_token_by_token(server: Running) -> None:
    whole = ask(server, seed=3).choices[0].message
    content, reasoning, chunks = read(
        ask(server, seed=3, stream=True, stream_options={"include_usage": True}, extra_body={"agon": True})
    )
    assert content == {0: whole.content}
    assert reasoning == {0: whole.reasoning_content}
    assert len(chunks) > 20
    *_, closing, last = chunks
    assert closing.choices[0].finish_reason == "stop"
    assert closing.agon["choices"][0]["answer"] is not None
    assert last.choices == []
    assert last.usage.completion_tokens > 20
    assert all(chunk.usage is None for chunk in chunks[:-1])
    kinds = ["content" if chunk.choices[0].delta.content else "reasoning" for chunk in chunks[1:-2]]
    assert kinds == sorted(kinds, reverse=True)  # all reasoning, then all content


def test_without_include_usage_a_stream_has_no_usage(server: Running) -> None:
    *_, chunks = read(ask(server, seed=3, stream=True))
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)


def test_four_answers_differ_and_are_counted_together(server: Running) -> None:
    answer = ask(server, n=4, seed=1, temperature=1.0, extra_body={"agon": True})
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert len({choice.message.reasoning for choice in answer.choices}) > 1
    tokens = [stage["tokens"] for each in agon(answer) for stage in each["stages"].values()]
    assert len(tokens) == 8
    assert answer.usage.completion_tokens == sum(tokens)
    content, reasoning, _ = read(ask(server, n=4, seed=1, temperature=1.0, stream=True))
    assert content == {choice.index: choice.message.content for choice in answer.choices}
    assert reasoning == {choice.index: choice.message.reasoning for choice in answer.choices}


def test_a_seed_repeats_an_answer_and_no_seed_draws_another(server: Running) -> None:
    def said(**options: Any) -> list[str]:
        answer = ask(server, model="agon-a", n=8, temperature=1.0, max_tokens=12, **options)
        return [str(choice.message.reasoning) for choice in answer.choices]

    assert said(seed=7) == said(seed=7) != said(seed=8)
    assert said() != said()


def test_one_seed_for_many_problems_draws_other_numbers_for_each(server: Running) -> None:
    """The first word of the pair's thoughts names a habit, which no problem decides."""

    def habit(number: int) -> str:
        content = SUM.replace("27", str(number))
        answer = ask(
            server, model="agon-a", seed=0, max_tokens=4, messages=[{"role": "user", "content": content}]
        )
        return str(answer.choices[0].message.reasoning.split()[0])

    assert len({habit(number) for number in range(20, 32)}) > 1


class NoJudge:
    """Nobody knows the gold answer of what is asked."""

    def submit(self, problem: Problem, answer: str) -> Any:
        from concurrent.futures import Future

        decided: Future[Verdict] = Future()
        decided.set_result(Verdict(False, "wrong"))
        return decided


def test_the_answer_is_the_duel_that_the_arena_plays_token_for_token(server: Running) -> None:
    loaded, service = server.opened.loaded, server.opened.service
    answer = ask(server, n=3, seed=11, temperature=1.0, top_p=1.0, extra_body={"agon": True})
    server.wait_until_idle()
    ends = stop_ids(loaded.pair.model.get_base_model(), loaded.chat.tokenizer)
    engine = TransformersEngine(loaded.pair, loaded.chat.decode, ends, loaded.chat.tokenizer.pad_token_id)
    for policy in loaded.target.policies:
        engine.sync(policy, 0)
    arena = Arena(engine, loaded.chat, NoJudge(), loaded.target.settings.summary_limit)
    (duels,) = arena.play(
        [Question.of(SUM).problem],
        METHODS["coop"],
        drafts=3,
        sampling=loaded.target.sampling(1.0, 1.0, service.sampling.max_tokens),
        versions=loaded.target.versions,
        seed=11,
        players=("A", "B"),
    )
    assert [
        (duel.draft.rollout.text, duel.shown, duel.challenge.rollout.text) for duel in duels if duel.challenge
    ] == [(each["draft"], each["shown"], each["final"]) for each in agon(answer)]


def test_greedy_decoding_ignores_the_seed(server: Running) -> None:
    texts = {ask(server, seed=seed, temperature=0).choices[0].message.reasoning for seed in (1, 2)}
    assert len(texts) == 1


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_running_out_of_tokens_in_either_stage_is_the_finish_reason(server: Running, name: str) -> None:
    answer = ask(server, seed=1, extra_body={"agon": True, name: 6})
    (details,) = agon(answer)
    assert [stage["tokens"] for stage in details["stages"].values()] == [6, 6]
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens_details.reasoning_tokens == 12  # never left its private block


def test_a_stop_sequence_ends_the_content_and_not_the_draft(server: Running) -> None:
    full = ask(server, seed=1)
    cut = ask(server, seed=1, stop=["<answer>", "never"])
    content = full.choices[0].message.content
    assert cut.choices[0].message.content == content.partition("<answer>")[0]
    assert cut.choices[0].message.reasoning == full.choices[0].message.reasoning  # a draft has an answer, too
    assert cut.choices[0].finish_reason == "stop"
    assert cut.usage.completion_tokens < full.usage.completion_tokens
    streamed, _, _ = read(ask(server, seed=1, stop="<answer>", stream=True))
    assert streamed == {0: cut.choices[0].message.content}


def test_system_prompts_and_earlier_turns_are_read_by_both_stages(server: Running) -> None:
    def prompts(*before: dict[str, Any]) -> list[int]:
        messages = [*before, {"role": "user", "content": [{"type": "text", "text": SUM}]}]
        answer = ask(server, seed=1, messages=messages, extra_body={"agon": True})
        return [stage["prompt_tokens"] for stage in agon(answer)[0]["stages"].values()]

    plain = prompts()
    told = prompts({"role": "system", "content": "Be brief, be right, and say so."})
    turns = prompts(
        {"role": "developer", "content": "Be brief, be right, and say so."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello!", "reasoning_content": "A greeting. " * 50, "refusal": None},
    )
    assert told[0] > plain[0]
    assert turns[0] > told[0]
    assert turns[0] - told[0] < 20  # the reasoning of an earlier turn is not shown again
    assert told[1] > told[0]


def test_sixty_four_requests_at_once_are_all_answered_as_each_alone(server: Running) -> None:
    alone = {seed: ask(server, seed=seed).choices[0].message.content for seed in (0, 40)}
    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(lambda seed: ask(server, seed=seed).choices[0].message.content, range(64)))
    assert len(answers) == 64
    assert {seed: answers[seed] for seed in alone} == alone
    server.wait_until_idle()


def cancelled(server: Running) -> int:
    return server.opened.service.metrics.cancelled


def test_a_client_that_goes_away_in_the_draft_ends_both_stages(server: Running) -> None:
    before, tokens = cancelled(server), server.opened.service.metrics.tokens.copy()
    stream = ask(server, n=8, stream=True)
    for chunk in stream:
        if getattr(chunk.choices[0].delta, "reasoning_content", None):
            break
    stream.close()
    server.wait_until_idle()
    assert cancelled(server) == before + 1
    assert server.opened.service.metrics.tokens == tokens  # no stage came to its end


def test_a_client_that_waits_for_the_whole_answer_and_goes_away_leaves_nothing_running(
    server: Running,
) -> None:
    before = cancelled(server)
    with server.http() as http, pytest.raises(Exception, match="timed out"):
        http.post(
            "/v1/chat/completions",
            json={"model": "agon", "messages": [{"role": "user", "content": SUM}], "n": 32},
            timeout=0.05,
        )
    server.wait_until_idle()
    deadline = time.monotonic() + 5
    while cancelled(server) == before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert cancelled(server) == before + 1
