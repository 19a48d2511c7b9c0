"""A pair for plain vLLM: both adapters, the command line that serves them, a client that runs the cascade.

DIR/adapters/A, B    plain PEFT folders
    serve.sh         `vllm serve` with both adapters
    ask.py           the cascade against that server, in 30 lines over `agon.game`
    base/            only of the embedded base, which no Hub has
    merged/A, B      whole models, if asked for
    README.md
"""

import shlex
import shutil
from pathlib import Path
from typing import Any

import torch

from agon.embedded import EMBEDDED, base_path
from agon.engines.chat import Chat
from agon.errors import InputError
from agon.evaluate.load import refuse_without_weights
from agon.evaluate.target import Target, open_target
from agon.policies.adapter_files import rank_of
from agon.policies.merge import save_merged
from agon.runs.settings import RunSettings
from agon.runs.trust import all_or_nothing
from agon.serve.open import problem_domain
from agon.serve.routes import Route, chosen_direction, routes

# What an adapter's folder is copied for; a run is data, and nothing else of it is taken along.
ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors", "README.md")
CLIENT = '''"""Asks this pair over plain vLLM: {drafter} drafts, {final} answers after reading the draft's summary.

    sh serve.sh                         # needs vLLM and a GPU
    pip install openai agon-rl          # of Agon only agon.game is used, which loads no torch
    python ask.py "problem" [address]   # http://localhost:8000/v1 if left out
"""

import sys

from openai import OpenAI

from agon.game import Problem, challenger_prompt, plain_prompt, split

DIALECT, DOMAIN, PREFILLED, SUMMARY_LIMIT = {dialect!r}, {domain!r}, {prefilled!r}, {summary_limit!r}
CONTROL_TOKENS = {control_tokens!r}
SAMPLING = {sampling!r}
EXTRA = {{"skip_special_tokens": False, "chat_template_kwargs": {template!r}}}


def sample(client, policy, messages):
    answer = client.chat.completions.create(model=policy, messages=messages, extra_body=EXTRA, **SAMPLING)
    return answer.choices[0].message.content or ""


def cascade(client, text):
    problem = Problem("", text, "ask", domain=DOMAIN)
    draft = sample(client, {drafter!r}, plain_prompt(problem, DIALECT))
    shown = split(draft, DIALECT, DOMAIN, PREFILLED).shown(SUMMARY_LIMIT)
    return draft, shown, sample(client, {final!r}, challenger_prompt(problem, shown, DIALECT, CONTROL_TOKENS))


if __name__ == "__main__":
    address = sys.argv[2] if len(sys.argv) > 2 else "http://localhost:8000/v1"
    draft, shown, final = cascade(OpenAI(base_url=address, api_key="none"), sys.argv[1])
    print(f"draft\\n{{draft}}\\n\\nshown\\n{{shown}}\\n\\nfinal\\n{{final}}")
'''
SCRIPT_HEAD = """#!/bin/sh
# Both policies over one base, as the models A and B.
cd "$(dirname "$0")" || exit 1
"""
README = """# {name}

Two policies, A and B, as LoRA adapters over {model}, trained with `{method}`. As a pair, {drafter} drafts and
{final} answers after reading the draft's summary (chosen on {chosen_on}).

    sh serve.sh                # vllm serve with both adapters, as the models A and B
    python ask.py "problem"    # the cascade against it
"""


def export(where: str, folder: Path, merged: bool = False, trust_run_code: bool = False) -> list[Path]:
    """Write a run's pair for plain vLLM, and return what was written."""
    target = open_target(where, all_or_nothing(where, trust_run_code))
    target.refuse_untrusted((), "transformers")
    chosen = chosen_direction(target)
    refuse_without_weights(target)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"'{folder}' is there already: choose a folder that does not exist or is empty.")
    assert target.run is not None  # a model without a pair has no direction
    target.run.refuse_damaged_adapters()
    settings = target.settings
    if settings.prompts or settings.system_prompt:
        raise InputError(
            f"'{where}' was trained with prompts of its own, and the client of an export has the usual ones: "
            "use `agon serve`."
        )
    tokenizer = settings.load_tokenizer()
    chat = settings.chat(tokenizer)
    for policy in target.policies:
        (folder / "adapters" / policy).mkdir(parents=True)
        for name in ADAPTER_FILES:
            if (source := target.run.adapters / policy / name).is_file():
                shutil.copyfile(source, folder / "adapters" / policy / name)
    if target.model == EMBEDDED:
        shutil.copytree(base_path(), folder / "base")
    rank = max(rank_of(target.run.adapters / policy) for policy in target.policies)
    (folder / "serve.sh").write_text(serve_script(target, settings, rank))
    route = routes(target.policies, chosen.name)["agon"]
    (folder / "ask.py").write_text(client_script(target, chat, route))
    (folder / "README.md").write_text(
        README.format(
            name=target.name,
            model=target.model,
            method=target.method.name if target.method else "",
            drafter=route.drafter,
            final=route.final,
            chosen_on=chosen.chosen_on,
        )
    )
    if merged:
        dtype = torch.bfloat16 if settings.bf16 and target.model != EMBEDDED else torch.float32
        for policy in target.policies:
            base = settings.load_base(dtype, None)
            save_merged(base, folder / "adapters" / policy, tokenizer, folder / "merged" / policy)
    return sorted(path for path in folder.rglob("*") if path.is_file())


def serve_script(target: Target, settings: RunSettings, rank: int) -> str:
    """The command line of `vllm serve`, with more options taken from whoever runs it."""
    model = "base" if target.model == EMBEDDED else shlex.quote(target.model)
    words = [
        f"exec vllm serve {model} --served-model-name base --enable-lora",
        # One slot more than adapters: on a CPU the base would otherwise be sampled with the last adapter.
        f"--max-loras {len(target.policies) + 1} --max-lora-rank {rank}",
        "--lora-modules " + " ".join(f'{name}="$PWD/adapters/{name}"' for name in target.policies),
        # Sampling is what a request asks for, not what a model's own file suggests.
        "--generation-config vllm",
    ]
    if revision := settings.model_init_kwargs.get("revision"):
        words.append(f"--revision {shlex.quote(str(revision))}")
    if settings.trust_remote_code:
        words.append("--trust-remote-code")
    lines = " \\\n    ".join([*words, '"$@"'])
    return f"{SCRIPT_HEAD}{lines}\n"


def client_script(target: Target, chat: Chat, route: Route) -> str:
    """The client, with what it must know of this pair written into it."""
    sampling = target.sampling()
    asked: dict[str, Any] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
    }
    return CLIENT.format(
        drafter=route.drafter,
        final=route.final,
        dialect=chat.dialect.name,
        domain=problem_domain(target),
        prefilled=bool(chat.prefilled),
        summary_limit=target.settings.summary_limit,
        control_tokens=chat.control_tokens,
        sampling=asked,
        template={**chat.dialect.template, **target.settings.chat_template_kwargs},
    )
