"""How far the sampler's log-probs are from the trainer's, per policy: at the start and in every round.

An engine with its own copy of the weights computes in its own kernels. A small gap is corrected by
importance sampling; a large one means that the two do not hold the same model (an adapter that the
engine does not apply, another precision, another prompt), and training on it would be training on
somebody else's rollouts.

A fresh adapter changes nothing (A) or next to nothing (B), so an engine that ignores adapters would
agree with it. The check at the start therefore gives each adapter a visible size for the length of the
check. In a round the adapters are what they are: there the rollouts must fit the weights that were
synced last better than the ones before.
"""

import warnings
from collections.abc import Callable, Sequence
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
            f"are {before:.2g} off those per token, and {now:.2g} off the present ones; the sync did not arrive."
        )


class SamplerWatch:
    """Watches an engine with weights of its own, round by round: gap, sync, and what correcting costs."""

    def __init__(self, pair: Pair, score: Score, accelerator: Accelerator, limit: float, mode: str) -> None:
        self._pair = pair
        self._score = score
        self._accelerator = accelerator
        self._limit = limit
        self._mode = mode
        # Each policy's weights at its last sync, and at the last one before that had others.
        self._synced: dict[str, list[torch.Tensor]] = {}
        self._before: dict[str, list[torch.Tensor]] = {}
        self._warned: set[str] = set()

    def note_sync(self, policy: str) -> None:
        """Remember what a policy was synced with."""
        present = [weight.cpu() for weight in self._pair.snapshot(policy)]
        known = self._synced.get(policy)
        if known is not None and not all(map(torch.equal, known, present)):
            self._before[policy] = known
        self._synced[policy] = present

    def check(self, stream: Stream, batch: Batch) -> dict[str, float]:
        """The figures of a stream; refuses rollouts of other weights, and warns where the gradient is lost."""
        figures = sampler_metrics(batch, stream.kept(), self._accelerator)
        if not figures:
            return {}
        refuse_large_gap(stream.policy, figures["gap"], self._limit)
        self._refuse_stale(stream)
        sentence = loss_of_gradient(stream.name, figures, self._mode)
        if sentence and stream.name not in self._warned:
            self._warned.add(stream.name)
            warnings.warn(sentence, stacklevel=2)
        return figures

    def _refuse_stale(self, stream: Stream) -> None:
        """The shortest rollouts again, under the weights before the last sync: those must not fit better."""
        old = self._before.get(stream.policy)
        if old is None:
            return
        rollouts = shortest([entry.rollout for entry in stream.entries])
        now = gap(self._score(stream.policy, rollouts), rollouts)
        with self._pair.holding(stream.policy, old):
            before = gap(self._score(stream.policy, rollouts), rollouts)
        tokens = float(sum(rollout.length for rollout in rollouts))
        gaps = torch.tensor([tokens, now * tokens, before * tokens], device=self._accelerator.device)
        tokens, now, before = self._accelerator.reduce(gaps, reduction="sum").tolist()
        if tokens >= STALE_TOKENS:
            refuse_stale(stream.policy, rollouts[0].version, now / tokens, before / tokens)
