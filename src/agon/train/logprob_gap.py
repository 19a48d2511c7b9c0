"""How far the sampler's log-probs are from the trainer's, per policy: at the start and in every round.

An engine with its own copy of the weights computes in its own kernels. A small gap is corrected by
importance sampling; a large one means that the two do not hold the same model (an adapter that the
engine does not apply, another precision, another prompt), and training on it would be training on
somebody else's rollouts.

A fresh adapter changes nothing (A) or next to nothing (B), so an engine that ignores adapters would
agree with it. The check at the start therefore gives each adapter a visible size for the length of the
check. In a round the adapters are what they are: there the rollouts must fit the weights that they were
sampled from better than the ones synced before.

Rollouts that were sampled ahead (`sample_ahead`) are a round of updates away from the weights that are
trained. That gap is no fault, so it is measured and not limited: what is held to the limit is the gap to
the weights that were synced for them, on the same few rollouts.
"""

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from accelerate import Accelerator
from transformers import TrainerCallback

from agon.arena import Arena
from agon.engines.protocol import Sampling
from agon.errors import InputError
from agon.game.methods import METHODS
from agon.game.problem import Problem
from agon.game.rollout import Rollout
from agon.policies.pair import BASE, Pair
from agon.train.importance import loss_of_gradient, sampler_metrics
from agon.train.streams import Batch, Stream

PROBLEMS = 4
# Enough tokens for a mean, and little memory whatever the recipe's cap.
TOKENS = 128
# The noise of a visible adapter: it grows until it changes log-probs by the limit, or as often as this.
FIRST_NOISE, GROWTH, TRIES = 0.02, 3.0, 4
# Tokens of a round that are scored again, under the weights before: the shortest rollouts up to so many.
# With fewer than the least, chance could decide.
ENOUGH_TOKENS, STALE_TOKENS = 512, 64
# The present sync, one for a round that was sampled ahead of it, and the one before that.
KEPT_SYNCS = 3
# How much better other weights must fit before the engine is taken to hold those.
CLEARLY = 2.0

# The log-probs of each rollout's tokens under a policy's present weights, as training computes them.
Score = Callable[[str, Sequence[Rollout]], list[torch.Tensor]]


@dataclass(frozen=True)
class Probe:
    """What the check at the start needs: where to sample, what to sample, and who scores it."""

    arena: Arena
    pair: Pair
    problems: Sequence[Problem]
    sampling: Sampling
    score: Score
    limit: float
    # Each figure's mean over the training processes, so that all of them decide alike.
    mean: Callable[[Sequence[float]], list[float]] = list


class CheckAtStart(TrainerCallback):
    """Checks the sampler when training begins: the model is in its place then, sharded or not."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._check()


def check_sampler(probe: Probe) -> dict[str, float]:
    """The gap of each policy with an adapter of visible size; refuses an engine that is too far off."""
    return {policy: _check_policy(probe, policy) for policy in probe.pair.names}


def _check_policy(probe: Probe, policy: str) -> float:
    before = probe.pair.snapshot(policy)
    noise = FIRST_NOISE
    try:
        for _ in range(TRIES):
            probe.pair.add_noise(policy, noise)
            probe.arena.engine.sync(policy, 0)
            rollouts = _sample(probe, policy)
            gaps = [gap(probe.score(name, rollouts), rollouts) for name in (policy, BASE)]
            with_adapter, without = probe.mean(gaps)
            if max(with_adapter, without) >= probe.limit:
                break
            noise *= GROWTH
    finally:
        probe.pair.restore(policy, before)
    if with_adapter > CLEARLY * without:
        raise InputError(
            f"The engine answers for policy {policy} as if it had no adapter: its log-probs are {without:.2g} off "
            f"those of the bare base per token, and {with_adapter:.2g} off those of the policy."
        )
    refuse_large_gap(policy, with_adapter, probe.limit)
    return with_adapter


def _sample(probe: Probe, policy: str) -> list[Rollout]:
    """Some rollouts at the run's temperature."""
    short = replace(probe.sampling, max_tokens=min(TOKENS, probe.sampling.max_tokens))
    played = probe.arena.play(
        probe.problems[:PROBLEMS],
        METHODS["grpo"],
        drafts=1,
        sampling=short,
        versions={policy: 0},
        players=(policy, policy),
    )
    return [duel.draft.rollout for duels in played for duel in duels]


def shortest(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """The shortest rollouts that have enough tokens together."""
    chosen: list[Rollout] = []
    for rollout in sorted(rollouts, key=lambda rollout: rollout.length):
        chosen.append(rollout)
        if sum(each.length for each in chosen) >= ENOUGH_TOKENS:
            break
    return chosen


def gap(scored: Sequence[torch.Tensor], rollouts: Sequence[Rollout]) -> float:
    """The mean absolute difference per token between the trainer's log-probs and the sampler's."""
    differences = [
        (own.cpu().float() - torch.tensor(rollout.logprobs)).abs()
        for own, rollout in zip(scored, rollouts, strict=True)
    ]
    return float(torch.cat(differences).mean())


def refuse_large_gap(policy: str, found: float, limit: float) -> None:
    """Stop a run whose sampler does not sample from its policies."""
    if found > limit:
        raise InputError(
            f"The sampler's log-probs for policy {policy} are {found:.3f} off the trainer's per token, more than "
            f"max_logprob_gap ({limit:g}): check that the engine loads the same base, precision and adapters."
        )


class NotSyncedError(InputError):
    """The engine samples from old weights: a sync did not arrive."""


def refuse_stale(policy: str, version: int, now: float, before: float) -> None:
    """Stop a round whose rollouts fit the weights before the last sync better than those after it."""
    if now > CLEARLY * before:
        raise NotSyncedError(
            f"The engine still samples from the weights of policy {policy} before version {version}: its log-probs "
            f"are {before:.2g} off those per token, and {now:.2g} off that version's; the sync did not arrive."
        )


@dataclass(frozen=True)
class Synced:
    """What a policy was synced with, and the first version that was so."""

    version: int
    weights: list[torch.Tensor]


def is_ahead(stream: Stream, step: int) -> bool:
    """Whether a stream was sampled before the step that trains on it was due."""
    return stream.entries[0].rollout.version != step


class SamplerWatch:
    """Watches an engine with weights of its own, round by round: gap, sync, and what correcting costs."""

    def __init__(self, pair: Pair, score: Score, accelerator: Accelerator, limit: float, mode: str) -> None:
        self._pair = pair
        self._score = score
        self._accelerator = accelerator
        self._limit = limit
        self._mode = mode
        # Each policy's last syncs that had other weights than the one before, oldest first.
        self._syncs: dict[str, list[Synced]] = {}
        self._warned: set[str] = set()

    def note_sync(self, policy: str, version: int) -> None:
        """Remember what a policy was synced with."""
        present = [weight.cpu() for weight in self._pair.snapshot(policy)]
        known = [each for each in self._syncs.get(policy, []) if each.version <= version]
        if not known or not all(map(torch.equal, known[-1].weights, present)):
            known = [each for each in known if each.version < version] + [Synced(version, present)]
        self._syncs[policy] = known[-KEPT_SYNCS:]

    def check(self, stream: Stream, batch: Batch, step: int) -> dict[str, float]:
        """The figures of a stream; refuses rollouts of other weights, and warns where the gradient is lost."""
        figures = sampler_metrics(batch, stream.kept(), self._accelerator)
        if not figures:
            return {}
        self.see(stream, figures, step)
        self.refuse_stale(stream, step)
        return figures

    def see(self, stream: Stream, figures: dict[str, float], step: int) -> None:
        """Refuse a stream that is far off the weights it should come from; warn where the gradient is lost."""
        ahead = is_ahead(stream, step)
        if not ahead:
            refuse_large_gap(stream.policy, figures["gap"], self._limit)
        sentence = loss_of_gradient(stream.name, figures, self._mode, ahead)
        if sentence and stream.name not in self._warned:
            self._warned.add(stream.name)
            warnings.warn(sentence, stacklevel=2)

    def refuse_stale(self, stream: Stream, step: int, unscored: bool = False) -> None:
        """The shortest rollouts again, under the weights before the sync: those must not fit better.

        Where the gap of the whole stream is not known or no fault, theirs is held to the limit.
        """
        ahead = is_ahead(stream, step)
        limited = ahead or unscored
        policy, version = stream.policy, stream.entries[0].rollout.version
        known = [each for each in self._syncs.get(policy, []) if each.version <= version]
        if not known or (len(known) < 2 and not limited):
            return
        rollouts = shortest([entry.rollout for entry in stream.entries])
        # Rollouts that were sampled when they were due are of the present weights.
        weights = [*([known[-1].weights] if ahead else [None]), *(each.weights for each in known[-2:-1])]
        gaps = [self._gap(policy, each, rollouts) for each in weights]
        tokens = float(sum(rollout.length for rollout in rollouts))
        sums = torch.tensor([tokens, *(each * tokens for each in gaps)], device=self._accelerator.device)
        tokens, *totals = self._accelerator.reduce(sums, reduction="sum").tolist()
        if tokens < STALE_TOKENS:
            return
        now, *before = (each / tokens for each in totals)
        for other in before:
            refuse_stale(policy, version, now, other)
        if limited:
            refuse_large_gap(policy, now, self._limit)

    def _gap(self, policy: str, weights: Sequence[torch.Tensor] | None, rollouts: Sequence[Rollout]) -> float:
        """The gap of rollouts under a policy's weights as they were synced, or as they are."""
        with nullcontext() if weights is None else self._pair.holding(policy, weights):
            return gap(self._score(policy, rollouts), rollouts)
