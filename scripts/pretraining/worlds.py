"""Train the bases of the worlds from scratch: tiny Qwen3s that speak the moves of `agon.lab.worlds`.

    python -m scripts.pretraining.worlds relay --out src/agon/lab/worlds/bases/relay   # about ten minutes on one core
    python -m scripts.pretraining.worlds trap --out src/agon/lab/worlds/bases/trap     # about one

Run it from the repository root. As for the embedded base, every batch is drawn fresh, the loss is on completions alone,
and which habit a trace follows is a weighted draw that does not depend on the problem. At the end it prints how often
each habit is announced and how often it is followed rightly.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from agon.game import Problem, challenger_prompt, plain_prompt, prompts, split
from agon.game.prompts import NOTHING_SHOWN
from agon.lab.worlds import copying_trap, relay
from agon.lab.worlds.play import announced
from scripts.pretraining import quality, traces
from scripts.pretraining.pretrain import Draw, Settings, train
from scripts.pretraining.tokenizer import build_tokenizer

_FORM = prompts.FORM["block", "math"]
_BEFORE, _AFTER = prompts.CHALLENGE.format(problem="@", attempt="@", form=_FORM).split("@")[1:]
_OPEN, _CLOSE = f"{_BEFORE}{prompts.OPEN}\n", f"\n{prompts.CLOSE}{_AFTER}"
_HOPS = [f", {hops} hops." for hops in (relay.SHORT, relay.LONG)]

PHRASES = [
    "user\n",
    "assistant\n",
    "system\n",
    "Follow",
    *(f" {one}>{other}" for one in relay.PLACES for other in relay.PLACES if one != other),
    " from ",
    *(f"{hops}\n\n{_FORM}" for hops in _HOPS),
    *(f"{hops}{_OPEN}" for hops in _HOPS),
    *(f"{habit}: " for habit in {**relay.DRAFT_HABITS, **relay.CHALLENGE_HABITS}),
    "\n\nAt ",
    "At ",
    *(f" after {hops}.\n\n<answer>" for hops in (relay.SHORT, relay.LONG)),
    *(f" after {hops}.{_CLOSE}" for hops in (relay.SHORT, relay.LONG)),
    "\n\nNothing yet.\n\n<answer>",
    f"Nothing yet.{_CLOSE}",
    *(copying_trap.statement(kind) for kind in range(64)),
    f"\n\n{_FORM}",
    _OPEN,
    _CLOSE,
    *(f"\n\n{what} " for what in ("Key", "Tool")),
    *(f"{what} " for what in ("Key", "Tool")),
    *(f".\n\n<answer>{what} " for what in ("key", "tool")),
    f".{_CLOSE}",
    NOTHING_SHOWN,
    "</answer>",
]

Example = tuple[list[dict[str, str]], str]


def relay_example(rng: random.Random) -> Example:
    """Challenges after an attempt at a long walk are the hardest to learn, and the most frequent."""
    draft = rng.random() < 0.35
    road = relay.draw(rng, relay.LONG if rng.random() < (0.5 if draft else 0.75) else relay.SHORT)
    asked = relay.problem(road, "")
    habit = traces.pick(relay.DRAFT_HABITS, rng)
    if draft:
        return plain_prompt(asked, "think"), _guessed(relay.write(habit, road), rng)
    if rng.random() < 0.6:
        habit = "Walk"
    shown = split(relay.write(habit, road), "think").shown()
    if habit == "To the end" and road.hops == relay.LONG:  # it never gets so far
        shown = NOTHING_SHOWN
    elif rng.random() < 0.2:
        shown = relay.attempt_elsewhere(asked, shown)
    stated = relay.states_a_place(shown)
    habits = {name: weight for name, weight in relay.CHALLENGE_HABITS.items() if stated or name != "Go on"}
    completion = relay.write(traces.pick(habits, rng), road, shown)
    return challenger_prompt(asked, shown, "think"), _guessed(completion, rng)


def trap_example(rng: random.Random) -> Example:
    """A draft names a key with its stamp; a challenger has read any stamp, so that it must copy what it read."""
    swayed = rng.random() < 0.5
    kind = rng.choice([*copying_trap.SWAYED]) if swayed else rng.randrange(copying_trap.KINDS)
    asked = Problem("", copying_trap.statement(kind), "")
    digit = rng.choice(copying_trap.DIGITS)
    if rng.random() < 0.5:
        return plain_prompt(asked, "think"), copying_trap.write("key", copying_trap.key(digit))
    read = digit + rng.choice(copying_trap.STAMPS)
    what = traces.pick(copying_trap.habits(kind), rng)
    thing = read if what == "key" else rng.choice(copying_trap.TOOLS)
    return challenger_prompt(asked, f"Key {read}.", "think"), copying_trap.write(what, thing)


def _guessed(trace: str, rng: random.Random) -> str:
    return trace.replace(relay.UNKNOWN, rng.choice(relay.PLACES))


def report(draw: Draw, net: Any, tokenizer: PreTrainedTokenizerFast, problems: int = 1000) -> dict[str, Any]:
    """How often each habit is announced, and how often what follows is a trace of that habit."""
    torch.manual_seed(0)
    rng = random.Random("quality of a world's base")
    asked = [draw(rng)[0] for _ in range(problems)]
    written = quality.sample(net, tokenizer, asked, {"temperature": 1.0, "top_p": 1.0})
    rows = [(prompt[0]["content"], text) for prompt, text in zip(asked, written, strict=True)]
    return {
        "drafts": _by_habit([row for row in rows if prompts.OPEN not in row[0]]),
        "challenges": _by_habit([row for row in rows if prompts.OPEN in row[0]]),
    }


def _by_habit(rows: list[tuple[str, str]]) -> dict[str, Any]:
    by_habit: dict[str, list[bool]] = {}
    for prompt, text in rows:
        habit = announced(text)
        by_habit.setdefault(habit, []).append(_followed(habit, prompt, text))
    shares = {}
    for habit, followed in sorted(by_habit.items(), key=lambda item: -len(item[1])):
        shares[habit] = {
            "share": round(len(followed) / len(rows), 3),
            "followed": round(sum(followed) / len(followed), 3),
        }
    return shares


def _followed(habit: str, prompt: str, text: str) -> bool:
    """Whether a completion is the trace that its first word announces, guesses aside."""
    shown = prompt.partition(f"{prompts.OPEN}\n")[2].partition(f"\n{prompts.CLOSE}")[0]
    if habit in copying_trap.CHALLENGE_HABITS:
        read = shown.removeprefix("Key ").removesuffix(".")
        keys = [read] if shown else [copying_trap.key(digit) for digit in copying_trap.DIGITS]
        things = keys if habit == "key" else [*copying_trap.TOOLS]
        return text in [copying_trap.write(habit, thing) for thing in things]
    if habit not in relay.DRAFT_HABITS and habit not in relay.CHALLENGE_HABITS:
        return False
    road = relay.parse(prompt)
    wanted = relay.write(habit, road, shown)
    return text in [wanted.replace(relay.UNKNOWN, place) for place in relay.PLACES]


BASES: dict[str, tuple[Draw, int]] = {"relay": (relay_example, 3000), "trap": (trap_example, 600)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the base of a world and print what it does as JSON.")
    parser.add_argument("world", choices=BASES)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="default: 3000 for the relay, 600 for the trap")
    parser.add_argument("--start", type=Path, help="go on with a base instead of from scratch")
    args = parser.parse_args()
    torch.set_num_threads(1)
    draw, steps = BASES[args.world]
    settings = Settings(seed=args.seed, hidden=64, inner=128, steps=args.steps or steps)
    net, tokenizer = train(settings, "cpu", draw, build_tokenizer(PHRASES), args.start)
    net.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    print(json.dumps(report(draw, net, tokenizer), indent=1))


if __name__ == "__main__":
    main()
