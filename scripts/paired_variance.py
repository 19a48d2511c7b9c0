"""How much the challenger's gradient varies with `agon`'s advantages and with those of `agon-paired`.

    python scripts/paired_variance.py                             the untrained embedded default
    python scripts/paired_variance.py runs/agon                   the pair of a run of it
    python scripts/paired_variance.py --rounds 8 --json runs/agon

Plays rounds of the embedded default with `agon`, takes the gradient of every challenge's log-probability once,
and weighs the same rows with both advantages, so that nothing but the advantages differs. One sample is the gradient
of one group (the challenges of a problem). For each advantage, before standardisation and after it:

    variance   the trace of the covariance over groups
    noise      the same, relative to the squared norm of the mean gradient (less what chance adds to that norm)
    cosine     between the mean gradients of two random halves of the groups, mean over 200 divisions

Before standardisation both have the same expectation, so the variances can be compared as they are.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from typing import Any

import torch

from agon.embedded import default_recipe
from agon.game.advantages import Scale, group_advantages
from agon.game.duel import Duel
from agon.game.methods import METHODS
from agon.game.paired import challenge_values, paired_advantages
from agon.train.recipes import build_config, request_of
from agon.train.trainer import AgonTrainer

DIVISIONS = 200
SCALES: tuple[Scale, ...] = ("none", "group")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", help="runs, or folders of adapters, over the embedded base")
    parser.add_argument("--rounds", type=int, default=8, help="rounds of 16 problems (default 8)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    found = {}
    for run in arguments.runs or [None]:
        with tempfile.TemporaryDirectory() as folder:
            given = {"output_dir": folder, "seed": arguments.seed, "log_duels": False}
            asked = request_of(default_recipe(), {**given, **({"adapters_from": run} if run else {})})
            config = build_config(asked.options)
            trainer = AgonTrainer(model=asked.what.model, task=asked.what.task, args=config)
            found[run or "untrained"] = measure(trainer, arguments.rounds)
            trainer.close()
    print(json.dumps(found, indent=2) if arguments.json else table(found))


def measure(trainer: AgonTrainer, rounds: int) -> dict[str, Any]:
    """Both advantages on the same rollouts."""
    per_round = trainer.args.generation_batch_size // trainer.args.num_generations
    gradients: dict[str, list[torch.Tensor]] = {}
    groups: list[list[Duel]] = []
    for number in range(rounds):
        trainer._step = number * trainer.args.steps_per_generation  # another seed for every round
        start = number * per_round
        played = trainer._sample(trainer.problems[start : start + per_round])
        groups += played
        for group in played:
            rows = torch.stack([row_gradient(trainer, duel) for duel in group])
            for name, advantages in both_advantages(group).items():
                gradients.setdefault(name, []).append(torch.tensor(advantages) @ rows)
    right = [sum(duel.challenge.correct for duel in group if duel.challenge) for group in groups]
    return {
        "groups": len(groups),
        "drafts right": mean([duel.draft.correct for group in groups for duel in group]),
        "challenges right": sum(right) / sum(map(len, groups)),
        "all challenges right": mean(
            [count == len(group) for count, group in zip(right, groups, strict=True)]
        ),
        "all challenges wrong": mean([count == 0 for count in right]),
        **{name: spread(torch.stack(rows)) for name, rows in gradients.items()},
    }


def both_advantages(group: Sequence[Duel]) -> dict[str, list[float]]:
    agon, paired = (challenge_values(group, METHODS[name]) for name in ("agon", "agon-paired"))
    found = {}
    for scale in SCALES:
        suffix = "" if scale == "none" else ", standardised"
        found[f"agon{suffix}"] = group_advantages(agon, scale)
        found[f"agon-paired{suffix}"] = paired_advantages(paired, scale)
    return found


def row_gradient(trainer: AgonTrainer, duel: Duel) -> torch.Tensor:
    """The gradient of a challenge's log-probability by its policy's adapter."""
    assert duel.challenge is not None
    rollout = duel.challenge.rollout
    weights = [weight for _, weight in trainer.pair.weights(rollout.policy)]
    with trainer.pair.using(rollout.policy):
        logps = trainer._logprobs_of([rollout])[0]
        return torch.cat([part.flatten() for part in torch.autograd.grad(logps.sum(), weights)])


def spread(rows: torch.Tensor) -> dict[str, float]:
    count = len(rows)
    variance = float(rows.var(0).sum())
    size = float(rows.mean(0).square().sum()) - variance / count
    chance = torch.Generator().manual_seed(0)
    cosines = []
    for _ in range(DIVISIONS):
        order = torch.randperm(count, generator=chance)
        halves = [rows[part].mean(0) for part in order.chunk(2)]
        cosines.append(float(torch.cosine_similarity(halves[0], halves[1], dim=0)))
    return {
        "variance": variance,
        "noise": variance / size if size > 0 else float("inf"),
        "cosine": mean(cosines),
    }


def mean(values: Sequence[float]) -> float:
    return sum(map(float, values)) / len(values)


def table(found: dict[str, dict[str, Any]]) -> str:
    """Markdown."""
    lines = []
    for name, facts in found.items():
        shares = ", ".join(f"{key} {value:.0%}" for key, value in facts.items() if isinstance(value, float))
        lines += [f"**{name}**: {facts['groups']} groups, {shares}", ""]
        lines += [
            "| advantage | variance | of agon's | noise | cosine of halves |",
            "| --- | ---: | ---: | ---: | ---: |",
        ]
        for key, figures in facts.items():
            if isinstance(figures, dict):
                base = facts[key.replace("agon-paired", "agon")]["variance"]
                share = f"{figures['variance'] / base:.2f}" if base else ""
                lines.append(
                    f"| `{key}` | {figures['variance']:.4g} | {share} | {figures['noise']:.1f} "
                    f"| {figures['cosine']:.3f} |"
                )
        lines.append("")
    return "\n".join(lines).rstrip()


if __name__ == "__main__":
    main()
