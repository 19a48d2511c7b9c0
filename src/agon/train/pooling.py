"""Both policies learn from all rollouts: what one played also feeds the other, weighted.

In a pooled method (`learns_from = "both"`) the arena plays as ever, and groups, rewards, advantages and
dropped groups are those of the play. Each policy's micro-batches then hold its own rows and its rival's.
A rival's token counts by how likely the reader, as it is when the round begins, was to write it:

    weight = min(pi_reader(token) / mu_writer(token), cap)

a constant of the loss, with mu the sampler's own log-probs. TRL takes one advantage per token, so the weight
multiplies the advantage; the ratio of new to old then is the reader's own, and one at its first update. A
weight per token ignores how likely the words before it were: it is exact for the first token and for
policies that agree, and a bias against a product whose variance grows without bound otherwise
(docs/engines.md). How far the two are apart is logged with every round.

A micro-batch has twice the rows that it has in a method that learns from its own; where that is too much
memory, halve `per_device_train_batch_size` and double `gradient_accumulation_steps`.
"""

from collections.abc import Callable, Sequence

import torch
from accelerate import Accelerator

from agon.train.scoring import sampled_logprobs
from agon.train.streams import Batch, Stream, loss_mask

# The log-probs of a stream's tokens under a policy's present weights; dropped rows need not be scored.
Score = Callable[[Stream, Batch, str], torch.Tensor]
# Log ratios of whole completions are kept within these bounds before they become weights.
LARGEST_LOG = 50.0


def pooled(
    streams: Sequence[Stream],
    batches: Sequence[Batch],
    score: Score,
    cap: float | None,
    accelerator: Accelerator,
) -> tuple[list[Stream], list[Batch], dict[str, float]]:
    """Two streams into two feeds, one per policy, each with the rows of both; and figures for the log."""
    feeds: list[Stream] = []
    joined: list[Batch] = []
    figures: dict[str, float] = {}
    for own, other in ((0, 1), (1, 0)):
        reader, written = streams[own].policy, streams[other]
        scored = score(written, batches[other], reader)
        log_ratio = log_ratios(written, batches[other], scored)
        rival = weighted(batches[other], scored, truncated(log_ratio, cap))
        feeds.append(together(streams[own], written))
        joined.append(join(batches[own], rival))
        found = figures_of(log_ratio, batches[other], written.kept(), cap, accelerator)
        figures |= {f"{reader}/pooled/{name}": value for name, value in found.items()}
    return feeds, joined, figures


def log_ratios(stream: Stream, batch: Batch, scored: torch.Tensor) -> torch.Tensor:
    """Per token: the reader's log-prob less the sampler's; zero where nothing is learned from."""
    sampled = sampled_logprobs(stream, scored.shape[1], scored.device)
    # A log-prob that the sampler could not give counts as the reader's own, as in TRL.
    return torch.nan_to_num((scored - sampled) * loss_mask(batch), nan=0.0)


def truncated(log_ratio: torch.Tensor, cap: float | None) -> torch.Tensor:
    """The weight of each token."""
    return log_ratio.exp() if cap is None else log_ratio.exp().clamp(max=cap)


def weighted(batch: Batch, scored: torch.Tensor, weights: torch.Tensor) -> Batch:
    """A rival's rows as the reader learns from them."""
    changed = {**batch, "advantages": batch["advantages"][:, None] * weights}
    if "old_per_token_logps" in batch:
        changed["old_per_token_logps"] = scored
    if "importance_sampling_ratio" in batch:  # the weight has the sampler's log-probs in it already
        changed["importance_sampling_ratio"] = torch.ones_like(batch["importance_sampling_ratio"])
    return changed


def together(own: Stream, written: Stream) -> Stream:
    """The rows of both streams, groups as they were played, for the first one's policy."""
    values: list[float] | None = None
    if own.values is not None or written.values is not None:
        values = [
            value
            for part in (own, written)
            for value in part.values or [entry.reward for entry in part.entries]
        ]
    return Stream(own.name, own.policy, own.group, [*own.entries, *written.entries], values)


def join(own: Batch, rival: Batch) -> Batch:
    """Rows of two batches in one: prompts padded on the left, completions on the right."""
    width = own["completion_mask"].shape[1]
    own = {**own, "advantages": own["advantages"][:, None].expand(-1, width)}
    return {
        name: _stack(own[name], rival[name], left=name.startswith("prompt"))
        if isinstance(own[name], torch.Tensor) and own[name].dim() == 2
        else own[name]
        for name in own
    }


def _stack(first: torch.Tensor, second: torch.Tensor, left: bool) -> torch.Tensor:
    width = max(first.shape[1], second.shape[1])
    rows = first.new_zeros(len(first) + len(second), width)  # padding is masked, whatever its token
    for part, at in ((first, 0), (second, len(first))):
        columns = slice(width - part.shape[1], width) if left else slice(part.shape[1])
        rows[at : at + len(part), columns] = part.to(rows.dtype)
    return rows


def figures_of(
    log_ratio: torch.Tensor, batch: Batch, kept: list[int], cap: float | None, accelerator: Accelerator
) -> dict[str, float]:
    """How far reader and writer are apart, over the tokens that are learned from and all processes.

    `weight` is the mean per token; `truncated` the share of tokens beyond the cap; `ess` the effective
    sample size of the token weights as a share of the tokens, `ess_completion` that of whole completions
    by their untruncated ratios; `divergence` the mean of log mu - log pi per token.
    """
    rows = torch.tensor(kept, dtype=torch.long, device=log_ratio.device)
    mask = loss_mask(batch)[rows].bool()
    raw = log_ratio[rows]
    weight = truncated(raw, cap).double() * mask
    whole = raw.sum(1).double().clamp(-LARGEST_LOG, LARGEST_LOG).exp()
    beyond = (raw.exp() > cap) & mask if cap is not None else torch.zeros_like(mask)
    sums = torch.stack(
        [
            mask.sum().double(),
            weight.sum(),
            weight.square().sum(),
            beyond.sum().double(),
            -raw.sum().double(),
            whole.new_tensor(float(len(kept))),
            whole.sum(),
            whole.square().sum(),
        ]
    )
    tokens, total, squares, cut, apart, count, wholes, whole_squares = accelerator.reduce(
        sums, reduction="sum"
    ).tolist()
    if not tokens:
        return {}
    return {
        "weight": total / tokens,
        "truncated": cut / tokens,
        "ess": total**2 / (tokens * squares) if squares else 0.0,
        "ess_completion": wholes**2 / (count * whole_squares) if whole_squares else 0.0,
        "divergence": apart / tokens,
    }
