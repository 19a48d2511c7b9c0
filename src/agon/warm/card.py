"""The card of a warmed model: what it was made of, and what it then wrote."""

import json
import re
from collections.abc import Mapping
from typing import Any

from agon.printing import one_line


def card(result: Mapping[str, Any]) -> str:
    """The README of the model's folder. Names are data and quoted."""
    model, task = one_line(str(result["model"])), one_line(str(result["task"]))
    made, training = result["examples"], result["training"]
    rows = "\n".join(_row(name, stage) for name, stage in result["stages"].items())
    return f"""---
base_model: {json.dumps(model)}
library_name: transformers
tags:
- agon
- sft
- trl
---

# {_text(model)}, taught to speak `{result["dialect"]}`

Made by `agon warm` from the base's own right solutions to {made["problems"]} training problems of {_text(task)}:
{made["drafts"]} examples of a solution, {made["challenges"]} of one that it wrote after reading another attempt. An
example is the base's own solution as private reasoning, a summary without the answer, and the answer.
{made["own_words"]} summaries are in the base's own words, {made["lines"]} are lines of the solution. An adapter of
rank {training["rank"]} was trained for {training["epochs"]:g} epochs and merged into the base.

On {result["n"]} problems of the split {result["split"]} (rates in percent):

| | zero-shot | cascade with itself | well formed | summaries with the answer |
| --- | ---: | ---: | ---: | ---: |
{rows}

It learned a form, on one task; nothing here says that it reasons better than its base.
"""


def _row(name: str, stage: Mapping[str, Any]) -> str:
    shown = [stage[key] for key in ("zero_shot", "cascade", "well_formed", "leaked")]
    cells = ["" if value is None else f"{100 * value:.1f}" for value in shown]
    return f"| {name} | {' | '.join(cells)} |"


def _text(said: str) -> str:
    return re.sub(r"([<>`\[\]|*_])", r"\\\1", said)
