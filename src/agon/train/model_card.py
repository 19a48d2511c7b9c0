"""Model cards of the trained adapters.

A card is published, so what a run was given (the names of its model and its task) is quoted for each of the languages
that a card is written in: YAML, Markdown, Python and a shell.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence

from agon.game.methods import Method
from agon.printing import one_line


def model_card(name: str, names: Sequence[str], method: Method, run: Mapping[str, str], steps: int) -> str:
    """The README of one adapter: what it is, how it was trained, how to load it."""
    rival = next((other for other in names if other != name), None)
    pairing = (
        f"It was trained head to head with its rival, the adapter `{rival}` beside it. The two answer as a "
        "cascade: one drafts, the other reads the draft's summary (final answer withheld) and answers."
        if rival
        else "It was trained alone."
    )
    model = one_line(run["model"])
    return f"""---
base_model: {_yaml(model)}
library_name: peft
tags:
- agon
- grpo
- lora
- trl
---

# Policy {name}, trained with Agon

A LoRA adapter over {_code(model)}, trained for {steps} steps with the method `{method.name}` on
the task {_code(run["task"])}. {pairing}

Challenge reward, less the format term: `{method.formula}`.

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM

base = AutoModelForCausalLM.from_pretrained({json.dumps(model)})
model = PeftModel.from_pretrained(base, "adapters/{name}")
```

```bash
vllm serve {shlex.quote(model)} --enable-lora --lora-modules {" ".join(f"{each}=adapters/{each}" for each in names)}
```
"""


def _code(text: str) -> str:
    """A code span that the text cannot leave: its fence is longer than any in the text."""
    shown = one_line(text)
    runs = [len(run) for run in re.findall("`+", shown)]
    fence = "`" * (max(runs, default=0) + 1)
    return f"{fence} {shown} {fence}" if runs else f"`{shown}`"


def _yaml(text: str) -> str:
    """A plain word as it is, anything else in quotes."""
    return text if re.fullmatch(r"[A-Za-z0-9_./-]+", text) and not text.startswith("-") else json.dumps(text)
