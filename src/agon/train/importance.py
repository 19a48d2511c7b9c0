"""What importance sampling does to a stream: raw ratios, weights, and how much of the gradient is left.

An engine with its own kernels samples from a distribution that differs a little from the trainer's, and rollouts
that were sampled ahead come from the policies of one round before. TRL
weighs each token (or each sequence) by the ratio of the two, truncated or masked at a limit. A weight
per sequence is the exponential of a sum over its tokens, and so its spread grows with the root of the
length: docs/engines.md has what was measured up to 15,000 tokens.
"""

from collections.abc import Mapping
from typing import Any

import torch
from accelerate import Accelerator

from agon.train.streams import loss_mask

SUMS = 10

# Warn below this share of the gradient's mass.
ENOUGH = 0.9


def sampler_metrics(batch: Mapping[str, Any], rows: list[int], accelerator: Accelerator) -> dict[str, float]:
    """Figures of the rows that are trained on, over all processes; empty where nothing is corrected.

    `gap` is the mean absolute difference of log-probs per token; `sequence_log_ratio` the deviation of
    the log ratio of whole completions; `raw_ratio` and `weight` are means per token, before and after
    truncation; `masked` is the share of tokens whose weight is zero; `gradient_kept` is the sum of
    |advantage| x weight over tokens, against the same without weights.
    """
    if "importance_sampling_ratio" not in batch:
        return {}
    chosen = torch.tensor(rows, dtype=torch.long, device=batch["completion_mask"].device)
    mask = loss_mask(batch)[chosen].bool()
    difference = torch.nan_to_num(batch["old_per_token_logps"] - batch["sampling_per_token_logps"])
    difference = difference[chosen] * mask
    weight = batch["importance_sampling_ratio"][chosen]
    return figures_of(sums_of(difference, weight, mask, batch["advantages"][chosen]), accelerator)


def importance_weights(
    difference: torch.Tensor, mode: str, low: float | None, high: float | None
) -> torch.Tensor:
    """TRL's weights of tokens, or of sequences, from the differences of log-probs, which are zero where masked."""
    if mode.startswith("sequence"):
        difference = difference.sum(-1, keepdim=True)
    ratio = difference.exp()
    if mode.endswith("truncate"):
        return ratio.clamp(low, high) if (low, high) != (None, None) else ratio
    outside = (ratio < (-torch.inf if low is None else low)) | (ratio > (torch.inf if high is None else high))
    return ratio.masked_fill(outside, 0.0)


def sums_of(
    difference: torch.Tensor, weight: torch.Tensor, mask: torch.Tensor, advantages: torch.Tensor
) -> torch.Tensor:
    """What the figures of some rows are made of; those of several micro-batches add up."""
    weight = weight.expand_as(difference)
    size = advantages.abs()[:, None] * mask
    sequence = difference.sum(1)
    return torch.stack(
        [
            mask.sum().float(),
            difference.abs().sum(),
            (difference.exp() * mask).sum(),
            (weight * mask).sum(),
            ((weight == 0) & mask).sum().float(),
            size.sum(),
            (size * weight).sum(),
            mask.any(1).sum().float(),
            sequence.sum(),
            sequence.square().sum(),
        ]
    )


def figures_of(sums: torch.Tensor, accelerator: Accelerator) -> dict[str, float]:
    """The figures over all processes, which all ask for them."""
    tokens, gap, raw, weights, masked, whole, kept, count, total, squares = accelerator.reduce(
        sums, reduction="sum"
    ).tolist()
    if not tokens:
        return {}
    variance = max(0.0, squares / count - (total / count) ** 2)
    return {
        "gap": gap / tokens,
        "sequence_log_ratio": variance**0.5,
        "raw_ratio": raw / tokens,
        "weight": weights / tokens,
        "masked": masked / tokens,
        "gradient_kept": kept / whole if whole else 1.0,
    }


def loss_of_gradient(stream: str, figures: Mapping[str, float], mode: str, ahead: bool = False) -> str | None:
    """A sentence for a person where the correction takes too much of the gradient away.

    Rollouts that were sampled `ahead` differ by a round of updates, too.
    """
    kept = figures.get("gradient_kept", 1.0)
    if kept >= ENOUGH:
        return None
    advice = (
        "set vllm_importance_sampling_mode to token_truncate"
        if mode.startswith("sequence")
        else "lower learning_rate, or set sample_ahead to false"
        if ahead
        else "check that trainer and engine use the same precision and attention"
    )
    whose = "log-probs of the round before" if ahead else "the engine's log-probs"
    return (
        f"Importance sampling ({mode}) leaves {kept:.0%} of the {stream} stream's gradient: {whose} "
        f"differ by {figures['gap']:.3g} per token, and whole completions by {figures['sequence_log_ratio']:.2g}; "
        f"{advice}."
    )
