"""One run of a world: train, evaluate, and what came of it as one small record.

A record has the accuracy of every arm, the habits that the finals announce, and for the arms that stand for the method
which problems were right, so that runs can be compared by the statistics of `agon compare`. An arm is not chosen: where
a method has two directions (or two policies that answer alone), both count.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agon.evaluate.arms import answer, arms_for
from agon.evaluate.compare import Entrant, compare
from agon.evaluate.evaluate import EvaluationRequest, evaluate
from agon.game.methods import method as row_of
from agon.lab.worlds.world import World
from agon.runs.folder import Run
from agon.runs.samples import Attempt

Outcome = Mapping[str, Any]
REST = "other"  # first words of finals that are no habit of the world


def play(world: World, method: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train and evaluate one run in a folder of its own, at temperature 1: what is tested is what was trained."""
    from agon.train.launch import train
    from agon.train.recipes import build_config, request_of

    started = time.monotonic()
    asked = request_of(None, {**world.training(method, seed), "output_dir": str(folder)})
    ended = train(asked.what, build_config(asked.options))
    trained = time.monotonic()
    evaluate(
        str(folder),
        EvaluationRequest(controls=False, temperature=1.0, top_p=1.0, trust_run_code=True, seed=seed),
    )
    return {
        "world": world.name,
        "method": method,
        "seed": seed,
        "steps": ended.step,
        "seconds": [round(trained - started, 1), round(time.monotonic() - trained, 1)],
        **measure(folder, world.methods[method], world.habits),
    }


def measure(folder: Path, method: str, known: Sequence[str]) -> dict[str, Any]:
    """The figures of an evaluated run."""
    run, row = Run(folder), row_of(method)
    (evaluation,) = run.evaluated("test")
    samples = evaluation.read_samples()
    policies = ("A", "B") if row.policies == 2 else ("A",)
    problems = list(dict.fromkeys(problem for _, problem, _ in samples))
    answers = {
        arm.name: [answer(arm, problem, 0, samples).chosen for problem in problems]
        for arm in arms_for(policies, controls=False)
        if arm.name != "majority"
    }
    standing = [name for name in answers if ("->" in name) != (row.evaluated_as == "single")]
    finals = [final for name, said in answers.items() if "->" in name for final in said]
    return {
        "arms": {name: round(_share(said), 4) for name, said in answers.items()},
        "accuracy": round(float(np.mean([_share(answers[name]) for name in standing])), 4),
        "habits": _habits(finals, known),
        "right": ["".join("01"[said.correct] for said in answers[name]) for name in standing],
    }


def _share(said: Sequence[Attempt]) -> float:
    return float(np.mean([attempt.correct for attempt in said]))


def _habits(finals: Sequence[Attempt], known: Sequence[str]) -> dict[str, float]:
    """How often finals announce each habit."""
    words = Counter(announced(final.text) for final in finals)
    return named_habits({word: count / len(finals) for word, count in words.items()}, known)


def announced(text: str) -> str:
    """The habit that a completion begins with, up to a colon or, if there is none, the first word of its answer.

    >>> announced("<think>Go on: bcde</think>"), announced("<think></think>\\n\\n<answer>tool r</answer>")
    ('Go on', 'tool')
    """
    before = text.removeprefix("<think>").split("<")[0].split(":")[0]
    return before or text.partition("<answer>")[2].split(" ")[0]


def named_habits(shares: Mapping[str, float], known: Sequence[str]) -> dict[str, float]:
    """The shares of the known habits, the largest first, and of all other first words together.

    >>> named_habits({"Copy6p": 0.1, "Work": 0.4, "Copy": 0.5}, ["Copy", "Work", "Guess"])
    {'Copy': 0.5, 'Work': 0.4, 'other': 0.1}
    """
    found = {habit: round(shares[habit], 3) for habit in known if shares.get(habit)}
    rest = round(1 - sum(found.values()), 3)
    return dict(sorted(found.items(), key=lambda item: -item[1])) | ({REST: rest} if rest > 0 else {})


def entrants(outcomes: Sequence[Outcome]) -> list[Entrant]:
    """Outcomes of one world as what `agon compare` compares."""
    made = []
    for outcome in outcomes:
        right = np.array([[mark == "1" for mark in arm] for arm in outcome["right"]]).T
        if right.shape[1] == 1:  # a method with one arm counts it twice, so that runs have equal samples
            right = np.repeat(right, 2, axis=1)
        result = {
            "task": outcome["world"],
            "split": "test",
            "fingerprint": "",
            "engine": "transformers",
            "n": len(right),
            "samples": right.shape[1],
            "decoding": {},
        }
        name = f"{outcome['method']}-{outcome['seed']}"
        made.append(Entrant(name, outcome["method"], outcome["seed"], "headline", result, right, {}))
    return made


def contrasts(outcomes: Sequence[Outcome], pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """The contrasts of one world by the statistics of `agon compare`."""
    found: list[dict[str, Any]] = compare(entrants(outcomes), pairs)["contrasts"]
    return found
