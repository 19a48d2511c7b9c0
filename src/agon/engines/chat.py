"""From messages to tokens and back: the chat template of a model and the dialect it writes."""

from collections.abc import Sequence
from typing import Any

from agon.errors import InputError
from agon.game.dialects import Dialect, dialect
from agon.game.problem import Problem
from agon.game.prompts import USUAL, Message, Prompts, challenger_prompt, plain_prompt


class Chat:
    """Encodes prompts and decodes completions for one tokenizer and dialect."""

    def __init__(
        self,
        tokenizer: Any,
        dialect_name: str | None = None,
        template_options: dict[str, Any] | None = None,
        prompts: Prompts = USUAL,
    ) -> None:
        if not tokenizer.chat_template:
            raise InputError(
                f"The tokenizer of '{tokenizer.name_or_path}' has no chat template; use an instruct or "
                "reasoning model, or set `tokenizer.chat_template`."
            )
        self.tokenizer = tokenizer
        self.prompts = prompts
        self.dialect: Dialect = dialect(dialect_name or pick_dialect(tokenizer))
        self._options = {**self.dialect.template, **(template_options or {})}
        # What may never appear inside an attempt. Single characters and plain words are left alone.
        self.control_tokens = tuple(
            token for token in tokenizer.all_special_tokens if not token.isalnum() and len(token) > 1
        )
        # Templates such as Qwen3.5's open the private reasoning block themselves, at the end of the prompt.
        prompt = self.render([{"role": "user", "content": "x"}])
        self.prefilled = self.dialect.private and prompt.rstrip().endswith(self.dialect.opens)

    def plain(self, problem: Problem) -> list[Message]:
        """The drafter's prompt, in this model's dialect and these prompts."""
        return plain_prompt(problem, self.dialect.name, self.prompts)

    def attempt(self, problem: Problem, summary: str) -> str:
        """What a challenger reads of a draft's summary: all of it, unless these prompts make something else of it."""
        return self.prompts.attempt(problem, summary) if self.prompts.attempt else summary

    def challenge(self, problem: Problem, shown: str) -> list[Message]:
        """The challenger's prompt."""
        return challenger_prompt(problem, shown, self.dialect.name, self.control_tokens, self.prompts)

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt as text, ready for the model to continue."""
        return self.tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True, **self._options
        )

    def encode(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The prompt as tokens."""
        return self.encode_all([messages])[0]

    def encode_all(self, prompts: Sequence[Sequence[Message]]) -> list[tuple[int, ...]]:
        """Prompts as tokens. A fast tokenizer encodes a list on all cores."""
        if not prompts:
            return []
        texts = [self.render(messages) for messages in prompts]
        encoded = self.tokenizer(texts, add_special_tokens=False, return_attention_mask=False)
        return [tuple(token_ids) for token_ids in encoded["input_ids"]]

    def decode(self, token_ids: Sequence[int]) -> str:
        """A completion as text. Special tokens stay (a dialect may use them), except those that end it."""
        ends = {self.tokenizer.eos_token_id, self.tokenizer.pad_token_id}
        kept = list(token_ids)
        while kept and (kept[-1] in ends or self._ends_turn(kept[-1])):
            kept.pop()
        return self.tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _ends_turn(self, token_id: int) -> bool:
        return self.tokenizer.convert_ids_to_tokens(token_id) in (
            "<|im_end|>",
            "<turn|>",
            "<|eot_id|>",
            "</s>",
        )


def pick_dialect(tokenizer: Any) -> str:
    """The dialect of a model, inferred from its chat template.

    Gemma 4 has its channel tokens, the Qwen families with a thinking mode mention <think> in their
    template; a model with neither is an instruct model and boxes its answer.
    """
    template = tokenizer.chat_template or ""
    if "<|channel>" in template:
        return "gemma"
    if "<think>" in template or "enable_thinking" in template:
        return "think"
    return "boxed"
