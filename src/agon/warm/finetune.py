"""Supervised fine-tuning of a base on examples of a dialect, by TRL's `SFTTrainer`, into a plain model folder.

A LoRA adapter is trained over the base in float32, kept in the base's precision in `warm/adapter`, and merged into the
base, so that whatever loads a model loads the result. Base and adapter give the same model again: the adapter is what
needs to be kept or sent. Only completions are learned, not prompts.
"""

import shutil
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import PeftModel
from transformers import AutoConfig, PrinterCallback
from trl import SFTConfig, SFTTrainer

from agon.embedded import model_path
from agon.engines.chat import Chat
from agon.policies import Adapters
from agon.runs.files import sync_tree
from agon.runs.settings import RunSettings
from agon.warm.examples import Example
from agon.warm.request import WarmRequest

IGNORED = -100  # a label that no loss counts
ROWS = 8  # of a micro-batch, at most


def rows_of(examples: Sequence[Example], chat: Chat) -> list[dict[str, list[int]]]:
    """Examples as tokens, prompts by the same chat that will sample; labels where something is learned."""
    prompts = chat.encode_all(
        [
            chat.plain(each.problem) if each.shown is None else chat.challenge(each.problem, each.shown)
            for each in examples
        ]
    )
    written = [each.completion + chat.tokenizer.eos_token for each in examples]
    completions = chat.tokenizer(written, add_special_tokens=False)["input_ids"]
    return [
        {"input_ids": [*prompt, *completion], "labels": [IGNORED] * len(prompt) + list(completion)}
        for prompt, completion in zip(prompts, completions, strict=True)
    ]


def finetune(settings: RunSettings, examples: Sequence[Example], chat: Chat, request: WarmRequest) -> float:
    """Train an adapter on the examples and write it into the request's folder; returns the last loss."""
    cuda = torch.cuda.is_available()
    base = _base(settings)
    rows = max(size for size in range(1, ROWS + 1) if request.batch % size == 0)
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        trainer = SFTTrainer(
            base,
            args=SFTConfig(
                output_dir=scratch,
                num_train_epochs=request.epochs,
                learning_rate=request.learning_rate,
                lr_scheduler_type="linear",
                warmup_steps=0.1,
                per_device_train_batch_size=rows,
                gradient_accumulation_steps=request.batch // rows,
                gradient_checkpointing=cuda,
                bf16=cuda and torch.cuda.is_bf16_supported(),
                use_cpu=not cuda,
                max_length=None,
                save_strategy="no",
                report_to="none",
                logging_steps=1,
                disable_tqdm=True,
                seed=request.seed,
                dataloader_pin_memory=cuda,
            ),
            train_dataset=Dataset.from_list(rows_of(examples, chat)),
            processing_class=chat.tokenizer,
            peft_config=Adapters(rank=request.rank, alpha=2 * request.rank).lora(base.config),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
        _save_adapter(trainer.model, _precision(settings, request.model), request.adapter)
    return float(losses[-1])


def merge(settings: RunSettings, chat: Chat, request: WarmRequest) -> None:
    """The model that base and adapter give, written into the request's folder."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        adapted = PeftModel.from_pretrained(_base(settings), str(request.adapter))
        merged = adapted.merge_and_unload()
    _save(merged.to(_precision(settings, request.model)), chat, request)


def _base(settings: RunSettings) -> Any:
    return settings.load_base(torch.float32, device_map="auto" if torch.cuda.is_available() else None)


def _precision(settings: RunSettings, model: str) -> torch.dtype:
    """That of the base as it is stored."""
    stored = AutoConfig.from_pretrained(model_path(model), trust_remote_code=settings.trust_remote_code).dtype
    return stored or torch.float32


def _save_adapter(model: Any, precision: torch.dtype, folder: Path) -> None:
    """Whole or not at all, as the model is."""
    fresh = folder.with_name("adapter.new")
    shutil.rmtree(fresh, ignore_errors=True)
    weights = {name: weight.to(precision) for name, weight in model.state_dict().items() if "lora_" in name}
    model.save_pretrained(str(fresh), state_dict=weights)
    sync_tree(fresh)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.replace(folder)


def _save(model: Any, chat: Chat, request: WarmRequest) -> None:
    """The whole model in one step: a folder that was cut off never looks like a model."""
    fresh = request.folder / "warm" / "model.new"
    shutil.rmtree(fresh, ignore_errors=True)
    model.save_pretrained(str(fresh))
    tokenizer = chat.tokenizer
    template = tokenizer.chat_template
    tokenizer.chat_template = marked(template, request)
    try:
        tokenizer.save_pretrained(str(fresh))
    finally:
        tokenizer.chat_template = template
    sync_tree(fresh)
    # The configuration is what makes a folder a model: an old one goes first, the new one comes last.
    (request.folder / "config.json").unlink(missing_ok=True)
    for path in sorted(fresh.iterdir(), key=lambda path: path.name == "config.json"):
        path.replace(request.folder / path.name)
    fresh.rmdir()


def marked(template: Any, request: WarmRequest) -> Any:
    """A chat template with a comment that names the dialect's marks: that is how a dialect is recognised."""
    if not isinstance(template, str) or request.kind.opens in template:
        return template
    return f"{{#- Writes {request.kind.opens} … {request.kind.closes}, a summary, an answer block. +#}}{template}"
