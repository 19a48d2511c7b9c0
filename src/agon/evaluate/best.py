"""The checkpoints of a run against each other, on its validation problems.

What is chosen here is then measured on problems that had no part in the choice (`agon eval`).
"""

import shutil
from pathlib import Path
from typing import Any

from agon.arena import Arena
from agon.errors import InputError
from agon.evaluate.intervals import clopper_pearson
from agon.evaluate.load import EngineChoice, load_target
from agon.evaluate.target import Target, open_target
from agon.evaluate.validate import validate
from agon.evaluate.vllm_budget import VllmBudget
from agon.policies.pair import BASE, saved_policies
from agon.runs.checkpoints import damage_of_weights
from agon.runs.folder import Run
from agon.runs.lock import owned
from agon.runs.trust import all_or_nothing


def compare_checkpoints(
    where: str, limit: int | None = None, samples: int = 1, seed: int = 0, trust_run_code: bool = False
) -> dict[str, Any]:
    """Play every checkpoint on the same validation problems with the same seeds; the result is kept in the run."""
    target = open_target(where, all_or_nothing(where, trust_run_code))
    if target.run is None or target.method is None:
        raise InputError(f"'{where}' is not a run: give the folder of one.")
    checkpoints = target.run.checkpoints()
    if not checkpoints:
        raise InputError(
            f"The run '{where}' has no checkpoints to compare: train with save_strategy steps, and with a "
            "save_total_limit that keeps several."
        )
    task = target.own_task()
    target.refuse_untrusted([task], "transformers")
    problems = task.problems("validation")[:limit]
    sampling = target.sampling()
    choice = EngineChoice("transformers", VllmBudget(sampling.max_tokens))
    rows: list[dict[str, Any]] = []
    with (
        load_target(target, choice) as loaded,
        target.settings.open_judge(target.judge_name(task)) as judge,
    ):
        arena = Arena(loaded.engine, loaded.chat, judge, target.settings.summary_limit)
        for step, folder in checkpoints.items():
            _refuse_foreign(target, folder)
            loaded.pair.load_weights(folder)
            for policy in target.policies:
                loaded.engine.sync(policy, step)
            versions = {**dict.fromkeys(target.policies, step), BASE: 0}
            rates = validate(
                arena,
                problems,
                target.policies,
                target.method,
                sampling,
                versions,
                seed=seed,
                samples=samples,
            )
            headline = rates["headline"]
            rows.append(
                {
                    "step": step,
                    "checkpoint": str(folder),
                    "fingerprints": {name: loaded.pair.fingerprint(name) for name in target.policies},
                    "headline": headline,
                    # Of the problems, however many samples each had: never narrower than it should be.
                    "ci95": list(clopper_pearson(headline * len(problems), len(problems))),
                    "rates": rates,
                }
            )
    best = max(rows, key=lambda row: (row["headline"], -row["step"]))
    found = {
        "task": task.name,
        "split": "validation",
        "n": len(problems),
        "samples": samples,
        "seed": seed,
        "best": best["step"],
        "checkpoints": rows,
    }
    target.run.write_best(found)
    return found


def use(where: str, found: dict[str, Any]) -> None:
    """Make the best checkpoint's adapters the run's own, and say so in its record."""
    run = Run(where)
    best = next(row for row in found["checkpoints"] if row["step"] == found["best"])
    folder = run.checkpoints()[found["best"]]
    with owned(run.folder):
        for name in saved_policies(folder):
            card = run.adapters / name / "README.md"
            kept = card.read_text("utf-8") if card.is_file() else None
            shutil.rmtree(run.adapters / name, ignore_errors=True)
            shutil.copytree(folder / name, run.adapters / name)
            if kept is not None:
                run.write_model_card(name, kept)
        run.seal_adapters()
        run.write_summary({**run.read_summary(), "fingerprints": best["fingerprints"]})
        found["used"] = True
        run.write_best(found)


def _refuse_foreign(target: Target, folder: Path) -> None:
    missing = [name for name in target.policies if name not in saved_policies(folder)]
    if missing:
        raise InputError(f"The checkpoint '{folder}' has no adapter {' and '.join(missing)}: remove it.")
    wrong = damage_of_weights(folder, target.policies)
    if wrong:
        raise InputError(f"The checkpoint '{folder}' is damaged ({wrong}): restore it, or move it away.")
