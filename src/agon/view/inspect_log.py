"""Duels as a log of inspect_ai, for its viewer and for whatever reads its logs; only where that library is installed.

Each duel is a sample: the problem, the draft and the challenge as messages of their policies, and one score for
each verdict. Rewards, advantages and what was shown are in the metadata.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agon.errors import InputError
from agon.view.export import collect
from agon.view.library import Library


def write_log(library: Library, source: str, words: Mapping[str, str], limit: int, target: Path) -> int:
    """Write the log and return how many duels are in it."""
    try:
        from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, write_eval_log
        from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
        from inspect_ai.scorer import Score
    except ImportError as error:
        raise InputError(
            "--eval-log needs inspect_ai, which is not installed: pip install inspect-ai."
        ) from error
    if target.suffix not in (".eval", ".json"):
        raise InputError(f"A log of inspect_ai ends in .eval or .json, not '{target.name}'.")
    data = collect(library, source, words, limit)
    facts = data["runs"][0]

    def sample(number: int, duel: dict[str, Any]) -> Any:
        sides = {name: duel[name] for name in ("draft", "challenge") if duel[name]}
        texts = {name: "".join(text for _, text in side["stretches"]) for name, side in sides.items()}
        messages: list[Any] = [ChatMessageUser(content=duel["problem"]["prompt"])]
        for name, side in sides.items():
            if name == "challenge" and duel["shown"] is not None:
                messages.append(ChatMessageUser(content=f"(a rival's attempt)\n{duel['shown_defused']}"))
            messages.append(ChatMessageAssistant(content=texts[name], model=side["policy"]))
        return EvalSample(
            id=f"{duel['problem']['id']}/{duel['id']}",
            epoch=1,
            input=duel["problem"]["prompt"],
            target=duel["problem"]["answer"],
            messages=messages,
            output=ModelOutput.from_content(str(facts["model"]), list(texts.values())[-1]),
            scores={
                name: Score(
                    value="C" if side["correct"] else "I",
                    answer=side["answer"],
                    explanation=side["detail"] or side["reason"],
                )
                for name, side in sides.items()
            },
            metadata={
                "outcome": duel["outcome"],
                "step": duel["step"],
                "marks": duel["marks"],
                "shown": duel["shown"],
                **{
                    f"{name}_{key}": side[key]
                    for name, side in sides.items()
                    for key in ("policy", "reward", "advantage", "terms", "length")
                },
            },
        )

    samples = [sample(number, duel) for number, duel in enumerate(data["duels"].values())]
    spec = EvalSpec(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        task=str(facts["task"] or facts["name"]),
        dataset=EvalDataset(name=str(facts["task"] or ""), samples=len(samples)),
        model=str(facts["model"] or "agon"),
        config=EvalConfig(),
        metadata={"run": facts["name"], "method": facts["method"], "seed": facts["seed"]},
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    write_eval_log(EvalLog(eval=spec, status="success", samples=samples), str(target))
    return len(samples)
