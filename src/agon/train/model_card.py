"""Model cards of the trained adapters."""

from collections.abc import Mapping, Sequence

from agon.game.methods import Method


def model_card(name: str, names: Sequence[str], method: Method, run: Mapping[str, str], steps: int) -> str:
    """The README of one adapter: what it is, how it was trained, how to load it."""
    rival = next((other for other in names if other != name), None)
    pairing = (
        f"It was trained head to head with its rival, the adapter `{rival}` beside it. The two answer as a "
        "cascade: one drafts, the other reads the draft's summary (final answer withheld) and answers."
        if rival
        else "It was trained alone."
    )
    return f"""---
base_model: {run["model"]}
library_name: peft
tags:
- agon
- grpo
- lora
- trl
---

# Policy {name}, trained with Agon

A LoRA adapter over `{run["model"]}`, trained for {steps} steps with the method `{method.name}` on the task
`{run["task"]}`. {pairing}

Challenge reward, less the format term: `{method.formula}`.

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM

base = AutoModelForCausalLM.from_pretrained("{run["model"]}")
model = PeftModel.from_pretrained(base, "adapters/{name}")
```

```bash
vllm serve {run["model"]} --enable-lora --lora-modules {" ".join(f"{each}=adapters/{each}" for each in names)}
```
"""
