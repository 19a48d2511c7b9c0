"""A step with NaN or infinity in it is not taken.

If the loss of a micro-batch or the gradient of either policy is not finite, no gradient reaches the optimizer: neither
policy moves, and neither do its moments. After a few such steps in a row the run stops, because what makes them will
not go away. Weights that are not finite cannot be trained further at all: then the newest checkpoint is the last good
state.

In fp16 an infinite gradient is normal: the scaler skips the step itself and lowers its scale, starting from 65,536. It
is counted here only once the scale has fallen below one, where no loss overflows any more.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from transformers import TrainerCallback

from agon.policies import Pair
from agon.train.stopping import StopRunError

IN_A_ROW = 3
SMALLEST_SCALE = 1.0


class StepGuard:
    """Watches the numbers of each optimizer step."""

    def __init__(self) -> None:
        self._bad_loss: torch.Tensor | None = None
        self.in_a_row = 0

    def see_loss(self, loss: torch.Tensor) -> None:
        """Take in the loss of a micro-batch, without waiting for the device."""
        bad = ~torch.isfinite(loss.detach()).all()
        self._bad_loss = bad if self._bad_loss is None else self._bad_loss | bad

    def loss_was_bad(self) -> bool:
        """Whether any loss since the last call was not finite."""
        bad, self._bad_loss = self._bad_loss, None
        return bad is not None and bool(bad)

    def wrong(self, loss_was_bad: bool, norms: Mapping[str, float], scale: float | None) -> str | None:
        """What of a step is not finite, None if it can be taken; `scale` is that of fp16's scaler."""
        if loss_was_bad:
            return "the loss"
        if scale is not None and scale >= SMALLEST_SCALE:
            return None
        bad = [policy for policy, norm in norms.items() if not math.isfinite(norm)]
        return f"the gradient of {' and '.join(bad)}" if bad else None

    def count(self, wrong: str | None, step: int) -> None:
        """Count a step; stops the run after too many in a row."""
        self.in_a_row = self.in_a_row + 1 if wrong else 0
        if self.in_a_row >= IN_A_ROW:
            raise StopRunError(
                f"In {IN_A_ROW} steps in a row, up to step {step}, {wrong} was not finite, so none of them was taken: "
                "lower learning_rate, or look into the last duels."
            )


class FiniteWeights(TrainerCallback):
    """Stops a run whose policies have weights that are not finite, right after the step that made them so."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        for policy in self._pair.names:
            norms = torch._foreach_norm([weight.detach() for _, weight in self._pair.weights(policy)])
            if not bool(torch.isfinite(torch.stack([norm.float() for norm in norms])).all()):
                raise StopRunError(
                    f"The weights of policy {policy} are not finite after step {state.global_step + 1}, so nothing of "
                    "that step is kept: lower learning_rate.",
                    keeps=False,
                )
