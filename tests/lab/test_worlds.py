"""The worlds are built as they say: what fits, what a summary tells, what can be learned, what must be claimed."""

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer

from agon.errors import InputError
from agon.game import METHODS, Outcome, split
from agon.game.methods import method
from agon.game.prompts import challenger_prompt, plain_prompt
from agon.judges.registry import build
from agon.lab.worlds import answers, catalogue, copying_model, copying_trap, page, relay, twins
from agon.lab.worlds.catalogue import WORLDS
from agon.lab.worlds.copying_model import AGON, COOP, Trap
from agon.lab.worlds.play import announced, contrasts, play
from agon.lab.worlds.verdict import table, verdicts
from agon.lab.worlds.world import Claim, World, base_path
from agon.runs.folder import Run
from agon.tasks import load_task

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "worlds"


@pytest.fixture(scope="module")
def words() -> Any:
    return AutoTokenizer.from_pretrained(base_path("relay"))


def tokens(words: Any, text: str) -> int:
    """Tokens of a completion, the one that ends it among them."""
    return len(words(text, add_special_tokens=False)["input_ids"]) + 1


def roads(hops: int, count: int = 50) -> list[relay.Road]:
    rng = random.Random(hops)
    return [relay.draw(rng, hops) for _ in range(count)]


# The relay


def test_the_careful_solution_of_a_long_walk_does_not_fit_into_one_pass(words: Any) -> None:
    for road in roads(relay.LONG):
        careful = relay.careful(road)
        assert split(careful, "think").answer == road.end
        assert tokens(words, careful) > relay.CAP
        # Nor does the barest completion that has all hops and an answer in it.
        bare = f"<think>{road.walked(road.hops)}</think><answer>{road.end}</answer>"
        assert tokens(words, bare) > relay.CAP


def test_half_of_a_long_walk_and_the_other_half_after_its_summary_do_fit_and_end_it(words: Any) -> None:
    for road in roads(relay.LONG):
        draft = relay.write("Walk", road)
        challenge = relay.write("Go on", road, split(draft, "think").shown())
        assert max(tokens(words, draft), tokens(words, challenge)) <= relay.CAP
        assert split(challenge, "think").well_formed
        assert split(challenge, "think").answer == road.end


def test_a_short_walk_fits_into_one_pass(words: Any) -> None:
    for road in roads(relay.SHORT):
        careful = relay.careful(road)
        assert tokens(words, careful) <= relay.CAP
        assert split(careful, "think").answer == road.end


def test_four_hops_say_nothing_of_where_eight_end_but_that_it_is_elsewhere() -> None:
    """Over all orders of the unseen places each of the eleven is the end equally often: 1/11 is the best guess."""
    ranks: Counter[int] = Counter()
    for road in roads(relay.LONG, 4_400):
        seen = road.start + road.walked(relay.PASS)
        assert road.end not in seen
        ranks[sorted(set(relay.PLACES) - set(seen)).index(road.end)] += 1
    assert len(ranks) == 11
    assert max(ranks.values()) < 480


def test_a_summary_elsewhere_is_a_right_one_of_another_problem_and_says_nothing_of_this_one() -> None:
    task = load_task("agon.lab.worlds.relay:relay,train=1600")
    hits, stated = 0, set()
    for asked in task.problems("train"):
        road = relay.parse(asked.prompt)
        own = split(relay.write("Walk", road), "think").shown()
        other = relay.attempt_elsewhere(asked, own)
        assert other == relay.attempt_elsewhere(asked, own)
        assert relay.states_a_place(other)
        hits += other == own
        stated.add(other)
    assert len(stated) == len(relay.PLACES)
    assert 0.044 < hits / 1600 < 0.082  # by coincidence: one place in sixteen
    assert relay.attempt_elsewhere(asked, "Nothing yet.") == "Nothing yet."


def test_a_prompt_tells_all_that_a_road_is() -> None:
    for road in roads(relay.LONG, 5):
        assert relay.parse(plain_prompt(relay.problem(road, "0"), "think")[0]["content"]) == road


def test_every_phrase_of_the_worlds_is_one_token_of_the_base(words: Any) -> None:
    road = roads(relay.LONG, 1)[0]
    asked = relay.problem(road, "0")
    plain = words.apply_chat_template(
        plain_prompt(asked, "think"), tokenize=False, add_generation_prompt=True
    )
    framed = challenger_prompt(asked, "At a after 4.", "think")
    read = words.apply_chat_template(framed, tokenize=False, add_generation_prompt=True)
    assert len(words(plain)["input_ids"]) == 26
    assert len(words(read)["input_ids"]) == 29


# The copying trap


def test_drafts_are_right_with_p_and_tools_with_q_whatever_is_picked() -> None:
    task = load_task("agon.lab.worlds.copying_trap:copying_trap,p=0.65,q=0.45,best=0.8,train=2000")
    judge, problems = build(task.judge), task.problems("train")

    def opened(answer: str) -> float:
        return sum(judge.judge(asked, answer).correct for asked in problems) / len(problems)

    for digit in copying_trap.DIGITS:
        assert opened(f"key {copying_trap.key(digit)}") == pytest.approx(0.65, abs=0.04)
    tools = {tool: opened(f"tool {tool}") for tool in copying_trap.TOOLS}
    assert sum(tools.values()) / 10 == pytest.approx(0.45, abs=0.02)
    assert tools.pop(copying_trap.BEST) == pytest.approx(0.8, abs=0.04)
    assert list(tools.values()) == pytest.approx([3.7 / 9] * 9, abs=0.04)
    for answer in (
        "",
        "key",
        "key ",
        "key 1",
        "key 12",
        "lock 1k",
        "key r",
        "tool 7",
        "tool x",
        "tool",
        "tool ef",
    ):
        assert opened(answer) == 0


def test_a_key_of_ones_own_under_a_copied_stamp_opens_nothing() -> None:
    """Otherwise a challenger could pick another key than the draft's, and be paid for conversions without skill."""
    task = copying_trap.copying_trap(train=50)
    for asked in task.problems("train"):
        opened = {digit + stamp for digit in copying_trap.DIGITS for stamp in copying_trap.STAMPS
                  if copying_trap.opens(asked, f"key {digit}{stamp}")}  # fmt: skip
        assert opened == {copying_trap.key(digit) for digit in asked.metadata["keys"]}


def test_tools_and_keys_share_no_character() -> None:
    """One adapter writes both: with shared names, what it learns of a tool moves its keys."""
    in_keys = {character for digit in copying_trap.DIGITS for character in copying_trap.key(digit)}
    assert in_keys == {*copying_trap.DIGITS, *copying_trap.STAMPS}
    assert not in_keys & {*copying_trap.TOOLS}
    assert len({*copying_trap.TOOLS}) == len(copying_trap.TOOLS) == copying_model.TOOLS
    assert copying_trap.BEST in copying_trap.TOOLS


def test_a_copy_is_what_the_attempt_says() -> None:
    draft = split(copying_trap.write("key", copying_trap.key("7")), "think")
    assert draft.shown() == "Key 7i."
    assert split(copying_trap.write("key", "7i"), "think").answer == draft.answer


def test_a_policy_chooses_with_the_word_that_is_judged() -> None:
    """A word before it, which only announces, need not bind."""
    for what, thing in (("key", "7i"), ("tool", "r")):
        said = split(copying_trap.write(what, thing), "think")
        assert (said.think, said.answer) == ("", f"{what} {thing}")
        assert announced(copying_trap.write(what, thing)) == what
    # Its summary does not count.
    assert announced(copying_trap.write("key", "7i").replace("key 7i", "tool r")) == "tool"


def test_the_moves_of_the_trap_fit_into_its_cap() -> None:
    words = AutoTokenizer.from_pretrained(base_path("trap"))
    for digit in copying_trap.DIGITS:
        trace = copying_trap.write("key", copying_trap.key(digit))
        assert split(trace, "think").well_formed
        assert tokens(words, trace) == copying_trap.CAP
    for tool in copying_trap.TOOLS:
        trace = copying_trap.write("tool", tool)
        assert split(trace, "think").well_formed
        assert tokens(words, trace) == copying_trap.TOOL_LENGTH < copying_trap.CAP


def test_a_draft_is_paid_for_a_right_key_and_not_for_a_tool() -> None:
    words = AutoTokenizer.from_pretrained(base_path("trap"))
    for what, thing, paid in (("key", "3d", 2.0), ("tool", "r", 0.0)):
        length = tokens(words, copying_trap.write(what, thing))
        assert copying_trap.right_key(Outcome(True, True, length)) == paid
        assert copying_trap.right_key(Outcome(False, True, length)) == 0


def test_nothing_in_a_statement_says_what_opens_its_lock() -> None:
    """Statements are drawn apart from keys and tools: over the locks of one statement both vary as they do over all."""
    task = copying_trap.copying_trap(train=6_000)
    by_statement: dict[str, list[str]] = {}
    for asked in task.problems("train"):
        by_statement.setdefault(asked.prompt, []).append(asked.metadata["keys"])
    assert len(by_statement) == copying_trap.KINDS
    for digit in copying_trap.DIGITS:
        shares = [sum(digit in keys for keys in locks) / len(locks) for locks in by_statement.values()]
        assert max(abs(share - 0.6) for share in shares) < 0.25


@pytest.mark.parametrize("options", [{"q": 1.0}, {"p": 0.0}, {"best": 0.95}, {"q": 0.6, "best": 0.5}])
def test_a_setting_that_the_trap_cannot_have_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        copying_trap.copying_trap(**options)


# The model of two actions


@pytest.mark.parametrize("p", [0.3, 0.5, 0.6, 0.8])
@pytest.mark.parametrize("bonus", [COOP, AGON])
def test_the_thresholds_are_where_both_actions_earn_the_same(p: float, bonus: float) -> None:
    q = copying_model.threshold(p, bonus)
    copied = copying_model.expected_reward(p, q, bonus, work=False)
    assert copying_model.expected_reward(p, q, bonus, work=True) == pytest.approx(copied)
    assert copied == pytest.approx(2 * p)
    assert copying_model.expected_reward(p, q + 0.01, bonus, work=True) > copied
    assert copying_model.threshold(p, COOP) == pytest.approx(p)
    assert copying_model.threshold(p, AGON) == pytest.approx(2 * p / (3 - p))


@pytest.mark.parametrize(
    ("q", "growth", "coop", "agon"),
    [(0.5, 0.0, 0.60, 0.57), (0.4, 0.024, 0.60, 0.79), (0.4, 0.096, 0.98, 0.98)],
)
def test_the_map_has_a_band_in_which_only_competition_escapes(
    q: float, growth: float, coop: float, agon: float
) -> None:
    trap = Trap(p=0.6, q=q, skill_rate=growth)
    assert copying_model.mean_accuracy(trap, COOP) == pytest.approx(coop, abs=0.011)
    assert copying_model.mean_accuracy(trap, AGON) == pytest.approx(agon, abs=0.011)


def test_the_predictions_of_the_trap_are_those_of_the_model() -> None:
    for name, (_, coop, agon) in catalogue.PREDICTED.items():
        trap = catalogue.model_of(name)
        assert copying_model.mean_accuracy(trap, COOP, seeds=20) == pytest.approx(coop, abs=0.021)
        assert copying_model.mean_accuracy(trap, AGON, seeds=20) == pytest.approx(agon, abs=0.021)


@pytest.mark.parametrize(
    ("name", "bonus"), [("trap-below", COOP), ("trap-below", AGON), ("trap-inside", COOP)]
)
def test_where_the_model_predicts_the_trap_no_seed_of_it_escapes(name: str, bonus: float) -> None:
    """A training that does escape there is then no chance within the model."""
    trap = catalogue.model_of(name)
    found = [copying_model.train(trap, bonus, seed).accuracy for seed in range(30)]
    assert max(abs(accuracy - catalogue.P) for accuracy in found) < 0.05


def test_with_two_tools_of_which_one_always_opens_skill_is_one_logit() -> None:
    """A softmax of two moves twice as fast as the one logit of their difference."""
    tools = copying_model.Skill(np.log([0.4, 0.6]), np.array([1.0, 0.0]))
    rng = np.random.default_rng(0)
    solved, picked = tools.solve(rng, (32, 8))
    assert (solved == (picked == 0)).all()
    weights = rng.normal(size=(32, 8))
    tools.learn(picked, weights, rate=0.5)
    moved = np.log(0.4 / 0.6) + 2 * 0.5 * float((weights * (solved - 0.4)).mean())
    assert tools.rate() == pytest.approx(1 / (1 + np.exp(-moved)))


def test_the_model_is_deterministic() -> None:
    trap = Trap(steps=20)
    assert copying_model.train(trap, AGON, 3) == copying_model.train(trap, AGON, 3)
    assert copying_model.train(trap, AGON, 3) != copying_model.train(trap, AGON, 4)


# Claims and verdicts


def test_every_claim_of_a_world_is_about_its_methods() -> None:
    for world in WORLDS.values():
        assert world.claims
        for claim in world.claims:
            assert {claim.first, claim.second} <= world.methods.keys()
        claimed = {name for claim in world.claims for name in (claim.first, claim.second)}
        assert world.name in ("twins", "trap-above") or claimed == world.accuracy.keys()
        assert all(method(name) for name in world.methods.values())


def made_up(accuracies: dict[str, list[float]], problems: int = 100) -> list[dict[str, Any]]:
    return [
        {
            "world": "made up",
            "method": name,
            "seed": seed,
            "accuracy": accuracy,
            "habits": {"tool": accuracy},
            "right": ["".join("01"[number < round(accuracy * problems)] for number in range(problems))] * 2,
        }
        for name, found in accuracies.items()
        for seed, accuracy in enumerate(found)
    ]


def test_a_verdict_compares_what_was_found_with_what_construction_says() -> None:
    claims = (Claim("agon", "coop", "more"), Claim("coop", "agon", "not more"), Claim("agon", "grpo", "same"))
    world = World(
        "made up", "", "", "", claims, {}, methods={name: name for name in ("agon", "coop", "grpo")}
    )
    outcomes = made_up({"agon": [0.8, 0.84, 0.82], "coop": [0.6, 0.63, 0.58], "grpo": [0.81, 0.83, 0.84]})
    found = verdicts(world, outcomes)
    assert [said.found for said in found] == ["more", "less", "no difference"]
    assert all(said.agrees for said in found)
    assert "| agon > coop | +21.7 |" in table(world, outcomes)
    wrong = World("made up", "", "", "", (Claim("coop", "agon", "more"),), {}, methods=world.methods)
    assert [said.agrees for said in verdicts(wrong, outcomes)] == [False]
    assert "**no**" in table(wrong, outcomes)


def test_one_run_a_side_finds_nothing() -> None:
    world = World(
        "made up", "", "", "", (Claim("agon", "coop", "more"),), {}, methods={"agon": "agon", "coop": "coop"}
    )
    (said,) = verdicts(world, made_up({"agon": [0.9], "coop": [0.5]}))
    assert (said.found, said.agrees) == ("unknown", None)


def test_methods_with_one_arm_and_with_two_can_be_compared() -> None:
    outcomes = made_up({"grpo": [0.5, 0.55], "coop": [0.6, 0.65]})
    for outcome in outcomes[:2]:
        outcome["right"] = outcome["right"][:1]
    (row,) = contrasts(outcomes, [("coop", "grpo")])
    assert row["difference"] == pytest.approx(0.1)


def test_habits_that_a_world_does_not_have_are_other_words_and_break_no_table() -> None:
    world = replace(WORLDS["trap-inside"], claims=(Claim("agon", "coop", "more"),))
    outcomes = made_up({"agon": [0.8, 0.84], "coop": [0.6, 0.63]})
    for outcome in outcomes:
        outcome["habits"] = {"key": 0.5, "key6p.\n\n": 0.3, "": 0.15, "tool | key": 0.05}
    assert [line.count("|") for line in table(world, outcomes).splitlines()] == [7] * 4 + [0] + [6] * 3
    assert "| key 50, other 50 |" in table(world, outcomes)


# The page of what came out


def every_run(seeds: int) -> list[dict[str, Any]]:
    """Made-up outcomes of every method in every world."""
    return [
        {
            **outcome,
            "world": world.name,
            "seed": outcome["seed"] + world.first_seeds.get(outcome["method"], 0),
        }
        for world in WORLDS.values()
        for outcome in made_up(
            {name: [0.6 + seed / 50 for seed in range(seeds)] for name in world.methods}, 300
        )
    ]


def test_a_page_has_the_seeds_that_every_method_of_every_world_has() -> None:
    outcomes = every_run(3)
    late = next(one for one in outcomes if one["method"] == "coop-again" and one["seed"] == 1002)
    outcomes.remove(late)
    random.Random(0).shuffle(outcomes)
    chosen = page.complete(outcomes)
    assert {one["seed"] for one in chosen} == {0, 1, 1000, 1001}
    assert chosen == page.complete(every_run(2))
    assert f"over {len(chosen)} runs: two seeds of every method so far, ten are planned." in page.page(chosen)
    with pytest.raises(InputError, match="No seed is complete"):
        page.complete([late])


def test_a_page_says_of_which_worlds_there_are_no_runs() -> None:
    outcomes = page.complete([one for one in every_run(2) if one["world"] in ("relay", "elsewhere")])
    text = page.page(outcomes)
    assert len(outcomes) == 24
    assert "| trap-inside | competition must help | not run yet |" in text
    assert "| [relay](#relay) |" in text
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## relay", "## elsewhere"]


@pytest.mark.exhaustive  # twenty seconds
def test_the_committed_page_is_what_the_committed_outcomes_give() -> None:
    text = (RESULTS / "outcomes.jsonl").read_text("utf-8")
    outcomes = [json.loads(line) for line in text.splitlines()]
    assert page.lines(page.complete(outcomes)) == text
    assert page.page(outcomes) == (RESULTS / "README.md").read_text("utf-8")


def test_what_a_policy_always_answers_is_told_from_the_locks_that_it_opened() -> None:
    known = answers.things(load_task(WORLDS["trap-inside"].task).problems("test"))
    for thing, said in (("tool r", "tool r"), ("tool e", "another tool"), ("key 7i", "one key")):
        assert answers.kind(known[thing], known) == said
    assert answers.kind("01" * 150, known) == "mixed"


@pytest.mark.parametrize("name", list(catalogue.PREDICTED))
def test_what_is_of_different_kinds_does_not_open_so_many_of_the_same_locks_that_one_is_taken_for_the_other(
    name: str,
) -> None:
    known = answers.things(load_task(WORLDS[name].task).problems("test"))
    kinds = {thing: answers.kind(marks, known) for thing, marks in known.items()}
    assert Counter(kinds.values()) == {answers.BEST_TOOL: 1, answers.TOOL: 9, answers.KEY: 10}
    alike = [
        answers.agreement(known[one], known[other])
        for one in known
        for other in known
        if kinds[one] != kinds[other]
    ]
    assert max(alike) < 0.75 < answers.FITS


# Twins


def test_the_twin_is_the_row_of_cooperation_under_another_name() -> None:
    twin, coop = method("agon.lab.worlds.twins:again"), METHODS["coop"]
    assert twin.name != coop.name
    assert {**vars(twin), "name": ""} == {**vars(coop), "name": ""}


def test_the_test_over_runs_of_made_up_comparisons_is_that_of_the_lab() -> None:
    outcomes = made_up({"coop": [0.6, 0.63, 0.7], "agon": [0.61, 0.75, 0.72]})
    (row,) = contrasts(outcomes, [("coop", "agon")])
    sides = [
        [
            np.array([[mark == "1" for mark in arm] for arm in one["right"]]).T
            for one in outcomes
            if one["method"] == name
        ]
        for name in ("coop", "agon")
    ]
    assert twins.welch(*sides) == pytest.approx(row["across_seeds"]["p"])


@pytest.mark.exhaustive
def test_equal_methods_are_called_different_at_the_stated_rate() -> None:
    """At 5%, over 2,000 comparisons: within three deviations of 5%; runs that vary fool the test by problem."""
    found = twins.false_claims(2000, 60, seeds=5, problems=60)
    rates = {test: called / made for test, (called, made) in found.items()}
    assert rates[twins.OVER_RUNS] == pytest.approx(0.05, abs=0.0147)
    assert rates[twins.BY_PROBLEM] > 2 * rates[twins.OVER_RUNS]


# Training


@pytest.mark.parametrize(("method_name", "arms", "standing"), [("agon", 4, 2), ("grpo", 2, 1)])
def test_a_world_trains_and_leaves_a_small_record(
    tmp_path: Path, method_name: str, arms: int, standing: int
) -> None:
    world = WORLDS["trap-inside"]
    options = {**world.options, "max_steps": 2, "per_device_train_batch_size": 16}
    task = "agon.lab.worlds.copying_trap:copying_trap,train=8,test=8"
    outcome = play(replace(world, task=task, options=options), method_name, 0, tmp_path / "run")
    assert outcome["steps"] == 2
    assert len(outcome["arms"]) == arms
    assert {"key", "tool"} & set(outcome["habits"])
    assert [len(marks) for marks in outcome["right"]] == [8] * standing
    right = sum(marks.count("1") for marks in outcome["right"])
    assert outcome["accuracy"] == pytest.approx(right / (8 * standing), abs=1e-4)


def test_a_challenger_elsewhere_reads_of_another_problem_in_training_and_evaluation(tmp_path: Path) -> None:
    world = WORLDS["elsewhere"]
    options = {**world.options, "max_steps": 1, "per_device_train_batch_size": 16, "log_duels": True}
    task = "agon.lab.worlds.relay:relay,train=4,test=8"
    play(replace(world, task=task, options=options), "coop", 0, tmp_path / "run")
    run = Run(tmp_path / "run")
    drafted = [duel for duel in run.duels() if "At " in duel.draft.rollout.text]
    assert drafted
    for duel in drafted:
        summary = split(duel.draft.rollout.text, "think").shown()
        assert duel.shown == relay.attempt_elsewhere(duel.problem, summary)
    (evaluation,) = run.evaluated("test")
    problems = {asked.id: asked for asked in relay.relay(test=8, train=4).problems("test")}
    for sample in evaluation.read_samples().values():
        for final in sample.finals:
            assert final.read is not None
            summary = split(sample.drafts[final.read].text, "think").shown()
            assert final.shown == relay.attempt_elsewhere(problems[sample.problem], summary)
