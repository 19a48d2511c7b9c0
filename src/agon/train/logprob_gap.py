"""How far the sampler's log-probs are from the trainer's, per policy.

An engine with its own copy of the weights computes in its own kernels. A small gap is corrected by
TRL's importance sampling; a large one means that the two do not hold the same model (an adapter on
layers that the engine does not adapt, another precision, another prompt), and training on it would
be training on somebody else's rollouts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from agon.arena import Arena
from agon.engines.protocol import Sampling
from agon.errors import InputError
from agon.game.methods import METHODS
from agon.game.problem import Problem
from agon.game.rollout import Rollout
from agon.policies.pair import Pair

PROBLEMS = 4


def measure_gap(
    arena: Arena, pair: Pair, problems: Sequence[Problem], sampling: Sampling, versions: Mapping[str, int]
) -> dict[str, float]:
    """The mean absolute difference per token between sampler and trainer, for each policy.

    Plain sampling at the run's temperature: a nucleus or a penalty changes the sampler's
    probabilities on purpose.
    """
    plain = replace(sampling, top_p=1.0, top_k=0, min_p=0.0, repetition_penalty=1.0)
    gaps = {}
    for policy in pair.names:
        played = arena.play(
            problems[:PROBLEMS],
            METHODS["grpo"],
            drafts=1,
            sampling=plain,
            versions=versions,
            players=(policy, policy),
        )
        with pair.using(policy):
            differences = [
                _difference(pair, duel.draft.rollout, plain.temperature) for duels in played for duel in duels
            ]
        gaps[policy] = float(torch.cat(differences).mean())
    return gaps


def refuse_large_gap(gaps: Mapping[str, float], limit: float) -> None:
    """Stop a run whose sampler does not sample from its policies."""
    for policy, gap in gaps.items():
        if gap > limit:
            raise InputError(
                f"The sampler's log-probs for policy {policy} are {gap:.3f} off the trainer's per token, more than "
                f"max_logprob_gap ({limit:g}): check that the engine loads the same base, precision and adapters."
            )


@torch.no_grad()
def _difference(pair: Pair, rollout: Rollout, temperature: float) -> torch.Tensor:
    model = pair.model
    training = model.training
    model.eval()
    device = next(model.parameters()).device
    ids = torch.tensor([[*rollout.prompt_ids, *rollout.token_ids]], device=device)
    logits = model(input_ids=ids, logits_to_keep=rollout.length + 1).logits[0, :-1].float()
    model.train(training)
    own = (logits / (temperature or 1.0)).log_softmax(-1)
    chosen = own.gather(-1, ids[0, -rollout.length :, None])[:, 0]
    return (chosen.cpu() - torch.tensor(rollout.logprobs)).abs()
