"""Drawing tokens so that a request's tokens depend on its own seed and on no other request.

Each request has its own stream of uniform random numbers, a function of its seed alone, and a token
is found by inverting the cumulative distribution at the next number of the stream. The warpers are
those of transformers, in the order in which `generate` applies them.
"""

import numpy as np
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from agon.engines.protocol import Sampling


def warpers(sampling: Sampling) -> LogitsProcessorList:
    """The transformations of the logits that a sampling setting asks for."""
    chosen = LogitsProcessorList()
    if sampling.repetition_penalty != 1.0:
        chosen.append(RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
    if sampling.temperature not in (0.0, 1.0):
        chosen.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k > 0:
        chosen.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1.0:
        chosen.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p > 0.0:
        chosen.append(MinPLogitsWarper(sampling.min_p))
    return chosen


class UniformStreams:
    """The uniform random numbers of a batch of requests, drawn in blocks as the completions grow."""

    BLOCK = 256

    def __init__(self, seeds: list[int]) -> None:
        self._streams = [np.random.Generator(np.random.Philox(key=seed)) for seed in seeds]
        self._blocks: list[np.ndarray] = []

    def at(self, position: int, rows: list[int]) -> torch.Tensor:
        """The number that each of these rows uses for its token at this position."""
        while position >= len(self._blocks) * self.BLOCK:
            self._blocks.append(np.stack([stream.random(self.BLOCK) for stream in self._streams]))
        block = self._blocks[position // self.BLOCK]
        return torch.from_numpy(block[rows, position % self.BLOCK])


def draw(
    logits: torch.Tensor, sampling: Sampling, uniforms: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token per row from processed logits, and its log-probability under them."""
    logprobs = logits.float().log_softmax(-1)
    if sampling.temperature == 0.0:
        tokens = logits.argmax(-1, keepdim=True)
    else:
        cumulative = logprobs.exp().cumsum(-1)
        # Scaled to the last entry, which is not exactly 1 because of rounding.
        threshold = uniforms.to(cumulative)[:, None] * cumulative[:, -1:]
        tokens = torch.searchsorted(cumulative, threshold, right=True).clamp(max=logits.shape[-1] - 1)
    return tokens[:, 0], logprobs.gather(-1, tokens)[:, 0]
