"""Generated problems: seeded, disjoint, scored by their own scorer."""

from pathlib import Path

import pytest

from agon.errors import InputError
from agon.game.problem import Problem
from agon.tasks import Task, load_task

NAME = "gym:chain_sum,min_terms=2,max_terms=3"


def questions(task: Task, split: str) -> list[str]:
    return [problem.prompt for problem in task.problems(split)]


def test_no_question_is_in_two_splits_or_twice_in_one() -> None:
    task = load_task(NAME, train=400, validation=100, test=100)
    every = [question for split in task.splits for question in questions(task, split)]
    assert len(every) == len(set(every)) == 600


def test_a_larger_training_split_leaves_the_others_as_they_are() -> None:
    small, large = (load_task(NAME, train=size, validation=50, test=50) for size in (100, 500))
    assert small.fingerprint("test") == large.fingerprint("test")
    assert small.fingerprint("validation") == large.fingerprint("validation")
    assert questions(small, "train") == questions(large, "train")[:100]


def test_a_seed_decides_everything() -> None:
    first, again, other = (load_task(NAME, seed=seed, train=50, validation=9, test=9) for seed in (1, 1, 2))
    assert first.fingerprint("train") == again.fingerprint("train") != other.fingerprint("train")
    assert not set(questions(first, "train")) & set(questions(other, "test"))


def test_parameters_may_follow_the_name_or_be_given() -> None:
    written = load_task("gym:chain_sum,max_digits=1,train=20,validation=5,test=5")
    given = load_task("gym:chain_sum", max_digits=1, train=20, validation=5, test=5)
    assert written.fingerprint("train") == given.fingerprint("train")
    assert written.problems("train")[0].metadata["parameters"] == {"max_digits": 1}


def test_a_generator_with_few_problems_is_divided_and_a_note_says_so() -> None:
    task = load_task("gym:chain_sum,min_terms=2,max_terms=2,max_digits=1")
    sizes = {split: len(part) for split, part in task.splits.items()}
    assert sum(sizes.values()) == 200
    assert all(size > 20 for size in sizes.values())
    assert (
        task.notes[0] == f"The generator has {sizes['train']} different train problems; 2000 were asked for."
    )


@pytest.mark.parametrize(
    "name", ["chain_sum", "leg_counting", "gcd", "propositional_logic", "word_ladder", "maze"]
)
def test_a_stored_problem_can_be_scored(name: str) -> None:
    import reasoning_gym

    task = load_task(f"gym:{name}", train=3, validation=1, test=1)
    scorer = reasoning_gym.create_dataset(name, size=1, seed=0)
    for problem in task.problems("train"):
        assert Problem.from_dict(problem.to_dict()) == problem
        assert problem.metadata["gym"] == name
        if problem.answer:
            assert scorer.score_answer(problem.answer, problem.metadata["entry"]) == 1.0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gym:chain_su", "Unknown reasoning-gym task 'chain_su': did you mean 'chain_sum'?"),
        ("gym:chain_sum,max_term=2", "did you mean 'max_terms'?"),
        ("gym:chain_sum,max_terms=1,min_terms=2", "does not accept these parameters"),
        (
            "gym:chain_sum,max_terms",
            "'max_terms' after the task 'gym:chain_sum' is not written as key=value.",
        ),
        ("gym:chain_sum,train=0,validation=0,test=0", "was asked for no problems"),
        ("gym:boxnet", "Write gym:boxnet,unsafe=true if you want it all the same."),
        ("gym:boxnet,unsafe=1", "is not used for training: its scorer skips moves"),
        ("gym:composite", "is not used for training"),
        ("gym:arc_agi", "its scorer does not accept its own answer from a stored problem"),
    ],
)
def test_a_bad_name_is_one_sentence(name: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_task(name)
    assert message in str(caught.value)


def test_a_scorer_that_a_policy_can_fool_is_used_only_if_asked_for() -> None:
    task = load_task("gym:boxnet,unsafe=true,train=2,validation=1,test=1")
    assert task.options["unsafe"] is True
    assert "unsafe" not in load_task("gym:chain_sum,unsafe=true,train=1,validation=1,test=1").options


def test_a_path_makes_no_sense_for_generated_problems(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Unknown benchmark 'gym:chain_sum'"):
        load_task("gym:chain_sum", path=str(tmp_path))
