"""What a rehearsal found, as text."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agon.lab.rehearsal.phases import phases_table

FILE = "rehearsal.json"


def save_rehearsal(facts: Mapping[str, Any], folder: Path) -> None:
    (folder / FILE).write_text(json.dumps(facts, indent=2) + "\n", "utf-8")


def rehearsal_text(facts: Mapping[str, Any]) -> str:
    """All of it in three tables: phases, the plan beside it, the whole recipe."""
    return "\n".join([*_about(facts), "", *_phases(facts), "", *_compared(facts), "", *_whole(facts)])


def _about(facts: Mapping[str, Any]) -> list[str]:
    base, prompts, lengths = facts["base"], facts["prompts"], facts["lengths"]
    asked = lengths["asked"]
    lines = [
        f"{facts['model']} with random weights ({base['parameters'] / 1e9:.2f}B parameters; configuration from "
        f"{base['config_from']}, tokenizer from {base['tokenizer_from']})",
        f"on {facts['task']}, method {facts['method']}, engine {facts['engine']}, {facts['device']}",
        f"{facts['steps']} steps of {facts['problems_per_step']} problems (the recipe has "
        f"{facts['recipe_problems_per_step']}), {lengths['rollouts']} rollouts",
        f"Completions: mean {lengths['mean']:,.0f} tokens, longest {lengths['longest']:,}, {lengths['at_cap']:.0%} at "
        f"the cap (asked for: mean {asked['mean']:,}, cap {asked['cap']:,})",
        f"Prompts: {prompts['source']}; mean {prompts['mean']:,.0f} tokens, longest {prompts['longest']:,}, with "
        f"made-up summaries of {prompts['summary_tokens']} tokens. Verdicts: {facts['verdicts']}.",
    ]
    if facts["resumed_from"] is not None:
        lines.append(f"A new trainer resumed from the checkpoint of step {facts['resumed_from']}.")
    return lines


def _phases(facts: Mapping[str, Any]) -> list[str]:
    rows = phases_table(facts["phases"])
    if facts["longest_micro_batch"]:
        count, length = facts["longest_micro_batch"]
        rows.append(
            f"The longest micro-batch: {count} rows of {length:,} tokens, filled up to the recipe's cap."
        )
    speed = facts["tokens_per_second"]
    rows.append(
        f"Sampling {speed['sampling']:,.0f} tokens/s, training {speed['training']:,.0f} tokens/s (prompts included)."
    )
    return rows


def _compared(facts: Mapping[str, Any]) -> list[str]:
    card = facts["planned_card"]
    rows = [f"{'against `agon plan`':<32}{'measured':>10}{'planned':>10}{'ratio':>8}{'recipe':>10}"]
    for row in facts["compared"]:
        rows.append(
            f"{row['what']:<32}{row['measured']:>10.2f}{_number(row['planned'], 10)}{_number(row['ratio'], 8)}"
            f"{_number(row['planned_for_recipe'], 10)}"
        )
    rows.append(
        f"Planned for {card}, for the steps above and (last column) for the recipe's."
        if card
        else "The plan's table has no such device: no times are planned."
    )
    return rows


def _whole(facts: Mapping[str, Any]) -> list[str]:
    whole = facts["whole_recipe"]
    parts = ", ".join(f"{name} {value:.2f} h" for name, value in whole["hours_by_part"].items())
    planned = whole["planned_hours"]
    beside = f"; planned {planned:.1f} h, ratio {whole['ratio']:.2f}" if planned else ""
    return [
        f"The whole recipe, {whole['steps']} steps of {whole['problems_per_step']:g} problems: {whole['hours']:.1f} h "
        f"on one device, {whole['gpu_hours']:.1f} GPU-hours{beside}.",
        f"({parts})",
        f"hours = {whole['formula']}.",
    ]


def _number(value: float | None, width: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:>{width}.2f}"
