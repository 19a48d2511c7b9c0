"""The card of a pair on the Hub: what it is, how it was trained, what it scored, how to run it without us."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agon.engines.chat import Chat
from agon.game.methods import Method
from agon.game.problem import DOMAINS, Domain, Problem

# What stands for a problem and an attempt in a prompt that is shown or sent.
PROBLEM, ATTEMPT = "{problem}", "{attempt}"


@dataclass(frozen=True)
class CardFacts:
    """What a card is written from."""

    repo: str
    model: str
    policies: Sequence[str]
    method: Method
    config: Mapping[str, Any]
    task: Mapping[str, Any]
    summary: Mapping[str, Any]
    results: Sequence[Mapping[str, Any]]
    chat: Chat
    direction: str
    licence: str | None = None
    tokenizer: str = ""
    extended: Sequence[Mapping[str, int]] = ()


def hub_card(facts: CardFacts) -> str:
    """The README of a repository that holds a pair."""
    parts = [
        _front_matter(facts),
        f"# {facts.repo.split('/')[-1]}",
        _what(facts),
        "## How it was trained",
        _training(facts),
        "## Scores",
        _scores(facts),
        "## Prompts",
        _prompts(facts),
        "## The cascade with plain vLLM",
        _vllm(facts),
        "## With Agon",
        f'```python\nimport agon\n\npair = agon.load("{facts.repo}")\nprint(pair.ask("What is 17 * 23?"))\n```',
        "## Licence",
        _licence(facts),
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(facts: CardFacts) -> str:
    lines = ["---", f"base_model: {facts.model}", "library_name: peft", "pipeline_tag: text-generation"]
    if facts.licence:
        lines.append(f"license: {facts.licence}")
    lines += ["tags:", *(f"- {tag}" for tag in ("agon", "grpo", "lora", "trl")), "---"]
    return "\n".join(lines)


def _what(facts: CardFacts) -> str:
    if len(facts.policies) == 1:
        return f"A LoRA adapter (`adapters/A`) over `{facts.model}`, trained with [Agon](https://arxiv.org/abs/2607.07690)."
    return (
        f"Two LoRA adapters (`adapters/A`, `adapters/B`) over `{facts.model}`, trained against each other with "
        "[Agon](https://arxiv.org/abs/2607.07690). They answer as a cascade: one drafts, the other reads the draft's "
        f"summary, its final answer withheld, and answers. The direction chosen for this pair is {facts.direction}."
    )


def _training(facts: CardFacts) -> str:
    config, task = facts.config, facts.task
    sizes = ", ".join(f"{count} {split}" for split, count in (task.get("sizes") or {}).items())
    drafts = int(config.get("num_generations") or 0)
    judge = config.get("judge") or task.get("judge")
    rows = {
        "method": f"`{facts.method.name}`; a challenge earns {facts.method.formula}, and half a point for good form",
        "data": f"`{_base_name(str(task.get('spec') or task.get('name')))}` ({sizes}), judged by `{judge}`",
        "steps": f"{facts.summary.get('steps')} optimizer steps, {drafts} rollouts per problem",
        "optimizer": f"learning rate {config.get('learning_rate')}, {config.get('lr_scheduler_type')} schedule",
        "adapters": f"rank {config.get('lora_r')}, scale {config.get('lora_alpha')}",
        "completions": f"at most {config.get('max_completion_length')} tokens",
        "seed": f"{config.get('seed')}",
    }
    if config.get("adapters_from"):
        rows["started from"] = f"the adapters of `{_base_name(str(config['adapters_from']))}`"
    if facts.extended:
        rows["extended"] = ", then ".join(
            f"from step {each['from']} to {each['to']}" for each in facts.extended
        )
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows.items())])


def _scores(facts: CardFacts) -> str:
    if not facts.results:
        return "This pair has not been evaluated (`agon eval RUN` does it)."
    lines = ["| task | split | arm | pass@1 | 95% interval | problems | samples |", "| --- " * 7 + "|"]
    for result in facts.results:
        for arm, figures in result["arms"].items():
            low, high = figures["ci95"]
            shown = f"**{arm}**" if arm == result["headline"] else arm
            lines.append(
                f"| {result['task']} | {result['split']} | {shown} | {100 * figures['pass@1']:.1f} | "
                f"{100 * low:.1f} to {100 * high:.1f} | {result['n']} | {result['samples']} |"
            )
    decoding = facts.results[0]["decoding"]
    chosen = facts.results[0].get("chosen_on", "nothing")
    lines += [
        "",
        f"In percent. The headline in bold was chosen on {chosen}. Temperature {decoding['temperature']}, top-p "
        f"{decoding['top_p']}, at most {decoding['max_tokens']} tokens a stage.",
    ]
    return "\n".join(lines)


def prompts_of(chat: Chat, domain: Domain) -> tuple[str, str]:
    """The drafter's and the challenger's prompt, with places for the problem and the attempt."""
    blank = Problem("", PROBLEM, "", domain=domain)
    drafts = chat.render(chat.plain(blank))
    return drafts, chat.render(chat.challenge(blank, ATTEMPT))


def _prompts(facts: CardFacts) -> str:
    drafts, challenges = prompts_of(facts.chat, _domain(facts))
    return (
        f"The tokenizer is that of `{facts.model}`{f' ({facts.tokenizer})' if facts.tokenizer else ''}, whose chat "
        f"template gives the prompts below; the dialect is `{facts.chat.dialect.name}`. The drafter reads:\n\n"
        f"{_fenced(drafts)}\n\nThe challenger reads:\n\n{_fenced(challenges)}"
    )


def _vllm(facts: CardFacts) -> str:
    return (
        "This needs vLLM and nothing of Agon. Agon also defuses tags and control tokens in what it shows, which a "
        "served pair that strangers may ask should do too.\n\n"
        f"```python\n{cascade_script(facts)}\n```"
    )


def cascade_script(facts: CardFacts) -> str:
    """A script that answers by the cascade with vLLM alone; what stands above the line `# vLLM` needs only Python."""
    drafts, challenges = prompts_of(facts.chat, _domain(facts))
    dialect = facts.chat.dialect
    private = f'text = text.rsplit("{dialect.closes}", 1)[-1]' if dialect.private else "text = text"
    block = dialect.answer == "block"
    cut = (
        'return text.split("<answer>")[0].strip()'
        if block
        else 'text = re.sub(r"\\$*\\\\boxed\\{(?:[^{}]|\\{[^{}]*\\})*\\}\\$*", "", text)\n'
        '    return "\\n".join(line.strip() for line in text.split("\\n") if "=" in line) or text'
    )
    first, second = (facts.direction.split("->") * 2)[:2]
    rank = int(facts.config.get("lora_r") or 16)
    temperature = facts.config.get("eval_temperature", 0.6)
    top_p = facts.config.get("eval_top_p", 0.95)
    limit = facts.config.get("max_completion_length") or 2048
    shown = f"shown[:{facts.config['summary_limit']}]" if facts.config.get("summary_limit") else "shown"
    return f'''import re

DRAFT = {drafts!r}
CHALLENGE = {challenges!r}


def summary(text):
    """What the other policy may read of a draft: its final answer is withheld."""
    {private}
    {cut}


def draft_prompt(problem):
    return DRAFT.replace("{PROBLEM}", problem)


def challenge_prompt(problem, draft):
    shown = summary(draft)
    return CHALLENGE.replace("{ATTEMPT}", {shown}).replace("{PROBLEM}", problem)


# vLLM
from huggingface_hub import snapshot_download
from vllm import LLM, SamplingParams
from vllm.lora.request import LoRARequest

folder = snapshot_download("{facts.repo}")
policies = {{
    name: LoRARequest(name, number, f"{{folder}}/adapters/{{name}}")
    for number, name in enumerate({list(facts.policies)!r}, start=1)
}}
llm = LLM("{facts.model}", enable_lora=True, max_loras=len(policies) + 1, max_lora_rank={rank})
sampling = SamplingParams(
    temperature={temperature}, top_p={top_p}, max_tokens={limit}, skip_special_tokens=False
)


def generate(prompt, policy):
    return llm.generate([prompt], sampling, lora_request=policies[policy])[0].outputs[0].text


problem = "What is 17 * 23?"
draft = generate(draft_prompt(problem), "{first}")
print(generate(challenge_prompt(problem, draft), "{second}"))'''


def _licence(facts: CardFacts) -> str:
    if facts.licence:
        return f"The adapters come under `{facts.licence}`; the terms of the base, `{facts.model}`, apply as well."
    return f"That of the base, `{facts.model}`: the adapters are of no use without it."


def _domain(facts: CardFacts) -> Domain:
    named = str(facts.config.get("judge") or facts.task.get("judge"))
    return DOMAINS[1] if named == "code" else DOMAINS[0]


def _base_name(place: str) -> str:
    """A local path by its last name: whoever reads a card has no use for the rest."""
    return re.sub(r"^[/~.][^,]*/", "", place)


def _fenced(text: str) -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", text)), 3)
    return f"{fence}text\n{text}\n{fence}"
