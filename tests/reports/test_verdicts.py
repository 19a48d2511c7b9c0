"""What is said of a comparison is never more than its tests allow."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import stats

from agon.evaluate.claims import Difference, claim_differences, pair_difference, visible_difference
from agon.evaluate.compare import Entrant
from agon.evaluate.intervals import contrast
from agon.game.methods import place_of
from agon.reports.page.claims import open_questions
from agon.reports.page.material import Entry, Group
from agon.reports.page.verdicts import ENOUGH_SEEDS, Verdict, tokens_verdict, verdict
from agon.runs.folder import Run
from agon.runs.records import Record

SEEN = Difference(
    "coop", "grpo", 0.46, 0.30, 0.16, (0.1, 0.22), 0.0001, 0.0003, "sign flips by problem", 0.05, (3, 3), 0.01,
    (0.1, 0.22), 0.08,
)  # fmt: skip
QUESTION = "Does exchange help?"


def said(tested: Difference) -> Verdict:
    return verdict("exchange", QUESTION, tested)


def test_a_difference_seen_over_problems_and_three_seeds_is_a_yes() -> None:
    found = said(SEEN)
    assert (found.outcome, found.basis, found.answer) == ("better", "seeds", "Yes")
    assert found.sentences == (
        "`coop` 46.0%, `grpo` 30.0%: +16.0 points (95% interval +10.0 to +22.0; over problems p = 0.0003; over 3 and 3 "
        "training seeds p = 0.0100).",
    )


def test_the_same_the_other_way_is_a_no() -> None:
    found = said(replace(SEEN, difference=-0.16, interval=(-0.22, -0.1)))
    assert (found.outcome, found.answer) == ("worse", "No, worse")
    assert "-16.0 points (95% interval -22.0 to -10.0" in found.sentences[0]


@pytest.mark.parametrize(
    ("seeds", "p_seeds", "basis", "answer", "sentence"),
    [
        ((2, 3), 0.01, "few seeds", "too few seeds for a claim", "needs 3 seeds on both sides"),
        ((3, 3), 0.2, "these runs", "not established over seeds", None),
        ((1, 1), None, "one seed", "seeds were not varied", "Seeds were not varied"),
        ((2, 1), None, "one seed", "too few seeds to test", "a single seed"),
        (
            (3, 3),
            None,
            "these runs",
            "not established over seeds",
            "the runs of each side do not differ at all",
        ),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_fewer_seeds_say_less(
    seeds: tuple[int, int], p_seeds: float | None, basis: str, answer: str, sentence: str | None, sign: int
) -> None:
    found = said(replace(SEEN, seeds=seeds, p_seeds=p_seeds, difference=0.16 * sign))
    assert found.basis == basis
    assert found.answer == f"{'Better' if sign > 0 else 'Worse'} in these runs; {answer}"
    assert sentence is None or sentence in found.sentences[-1]


def test_no_difference_is_said_with_the_smallest_that_would_have_been_seen() -> None:
    found = said(replace(SEEN, p_holm=0.0501, p=0.02, visible=0.026, visible_over_seeds=0.111))
    assert (found.outcome, found.basis, found.answer) == ("open", "", "No difference seen")
    assert (
        "difference of 2.6 points or more in 8 of 10 cases, and these seeds one of 11.1" in found.sentences[1]
    )


def test_only_the_corrected_p_value_counts() -> None:
    assert said(replace(SEEN, p=0.0001, p_holm=0.06)).outcome == "open"
    assert said(replace(SEEN, p=0.0001, p_holm=0.049)).outcome == "better"


def test_what_was_not_run_cannot_be_said() -> None:
    found = verdict("exchange", QUESTION, None, "There is no finished and tested run of `coop`.")
    assert (found.outcome, found.answer) == ("missing", "Cannot be said")
    assert found.sentences == ("There is no finished and tested run of `coop`.",)
    assert found.finding().tone == "missing"


def test_a_cascade_is_worth_its_tokens_only_at_equal_cost() -> None:
    cheap = tokens_verdict("Worth it?", SEEN, 420, 400)
    assert (cheap.outcome, cheap.answer) == ("better", "Yes")
    assert "takes 420 tokens, both stages counted; one of `grpo` takes 400" in cheap.sentences[1]
    dear = tokens_verdict("Worth it?", SEEN, 800, 400)
    assert (dear.outcome, dear.answer) == ("open", "Better, at 2.0 times the tokens")
    assert tokens_verdict("Worth it?", replace(SEEN, p_holm=0.5), 400, 400).answer.startswith("Not shown")
    assert tokens_verdict("Worth it?", replace(SEEN, difference=-0.2), 400, 400).answer == "No, worse"
    assert tokens_verdict("Worth it?", replace(SEEN, seeds=(2, 2)), 400, 400).answer.startswith(
        "Better in these runs"
    )


def test_no_wording_claims_more_than_its_outcome_and_basis() -> None:
    """Over a grid of tests: an unconditional yes or no needs the correction, three seeds and the test over seeds."""
    for p in (0.01, 0.2):
        for p_seeds in (None, 0.01, 0.2):
            for seeds in ((1, 1), (2, 2), (ENOUGH_SEEDS, ENOUGH_SEEDS)):
                for difference in (0.1, -0.1):
                    answer = said(
                        replace(SEEN, p_holm=p, p_seeds=p_seeds, seeds=seeds, difference=difference)
                    ).answer
                    firm = p < 0.05 and p_seeds == 0.01 and seeds == (3, 3)
                    assert (answer in ("Yes", "No, worse")) == firm


def test_the_smallest_visible_difference_is_found_in_about_8_of_10_cases() -> None:
    """By simulation: arms that differ by it, on as many problems, are told apart at about the power stated."""
    rng = np.random.default_rng(0)
    problems, base = 400, 0.3

    def arms(gain: float) -> tuple[np.ndarray, np.ndarray]:
        first = rng.random((problems, 1)) < base + gain
        return first, rng.random((problems, 1)) < base

    visible = visible_difference(*arms(0.0))
    assert visible == pytest.approx((1.96 + 0.84) * np.sqrt(2 * 0.3 * 0.7 / problems), rel=0.1)
    seen = []
    for _ in range(300):
        one, other = arms(visible)
        only_one, only_other = int((one & ~other).sum()), int((other & ~one).sum())
        seen.append(stats.binomtest(only_one, only_one + only_other).pvalue < 0.05)
    assert 0.7 < np.mean(seen) < 0.88


def test_a_difference_is_visible_where_it_would_be_seen_after_the_correction_for_all_claims() -> None:
    """Holm's correction asks 5% of three claims together, so of one alone 5% / 3."""
    rng = np.random.default_rng(2)
    problems = 400

    def entrants(gain: float) -> list[Entrant]:
        names = dict.fromkeys(("task", "split", "fingerprint", "engine"), "")
        result = {**names, "decoding": {}, "n": problems, "samples": 1}
        rates = {"agon": 0.3 + gain, "coop": 0.3, "grpo": 0.3}
        arms = {name: rng.random((problems, 1)) < rate for name, rate in rates.items()}
        return [Entrant(name, name, 0, "A", result, correct, {}) for name, correct in arms.items()]

    pairs = [("agon", "coop"), ("agon", "grpo"), ("coop", "grpo")]
    visible = claim_differences(entrants(0.0), pairs)[0].visible
    assert visible == pytest.approx((2.394 + 0.842) * np.sqrt(2 * 0.3 * 0.7 / problems), rel=0.1)
    seen = []
    for _ in range(300):
        one, other, _ = (entrant.correct for entrant in entrants(visible))
        only_one, only_other = int((one & ~other).sum()), int((other & ~one).sum())
        seen.append(stats.binomtest(only_one, only_one + only_other).pvalue < 0.05 / len(pairs))
    assert 0.7 < np.mean(seen) < 0.88


def test_the_number_of_seeds_that_a_claim_needs_is_the_one_that_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agon.reports.page.claims.ENOUGH_SEEDS", 5)
    config = "method: agon\nseed: {}\nlearning_rate: 0.1\n"
    records = [Record(Run(Path(f"agon-{seed}"))) for seed in range(4)]
    for seed, record in enumerate(records):
        record.__dict__["config"] = yaml.safe_load(config.format(seed))
        record.__dict__["note"] = ""
    group = Group("made up", tuple(Entry(one.name, "", "agon", one.seed, record=one) for one in records))
    group.__dict__["tasks"] = ["one", "two"]
    assert "A claim needs 5 training seeds; there are fewer of `agon` 4." in open_questions(group, [])


def test_methods_have_the_order_of_their_table_and_those_of_ones_own_come_last() -> None:
    assert sorted(["mine", "agon", "coop", "grpo"], key=place_of) == ["grpo", "coop", "agon", "mine"]


def test_a_pair_is_tested_as_its_contrast() -> None:
    rng = np.random.default_rng(1)
    one, other = (rng.random((60, 2)) < rate for rate in (0.7, 0.4))
    tested, plain = pair_difference("a", "b", one, other), contrast(one, other)
    assert (tested.difference, tested.interval, tested.p) == (plain.difference, plain.interval, plain.p)
    assert tested.p_holm == tested.p


def test_two_arms_of_the_same_runs_are_not_called_runs_that_do_not_differ() -> None:
    rng = np.random.default_rng(1)
    final, alone = (rng.random((60, 3)) < rate for rate in (0.7, 0.4))
    found = said(pair_difference("agon, after reading", "agon, alone", final, alone, (3, 3)))
    assert "both sides come from the same runs" in found.sentences[-1]
