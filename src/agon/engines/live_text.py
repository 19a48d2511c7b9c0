"""Tokens into text while they arrive: a character is passed on once all its tokens are there."""

from collections.abc import Sequence
from typing import Any

from tokenizers.decoders import DecodeStream

from agon.engines.chat import Chat


class LiveTexts:
    """Starts a live text for each completion; what they share is what the tokenizer's end tokens are."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._shows: dict[int, bool] = {}

    def start(self) -> "LiveText":
        return LiveText(self._chat, self._shows)


class LiveText:
    """The text of one completion so far; in the end it is what `Chat.decode` makes of all its tokens."""

    def __init__(self, chat: Chat, shows: dict[int, bool]) -> None:
        self._chat = chat
        self._shows = shows  # by token, whether it is decoded to any text by itself
        # None for a tokenizer in plain Python, and after bytes that are no text: all of it in the end.
        self._core: Any = getattr(chat.tokenizer, "backend_tokenizer", None)
        self._stream = DecodeStream(skip_special_tokens=False)
        self._held: list[int] = []  # may be the tokens that end it
        self._passed: list[str] = []
        self._decoded = (0, "")  # of how many tokens, and what they say
        self.token_ids: list[int] = []

    def feed(self, token_ids: Sequence[int]) -> str:
        """What these tokens add; nothing while a character is incomplete."""
        self.token_ids += token_ids
        if self._core is None:
            return ""
        self._held += token_ids
        shown = len(self._held)
        while shown and not self._is_shown(self._held[shown - 1]):
            shown -= 1
        if not shown:
            return ""
        new, self._held = self._held[:shown], self._held[shown:]
        try:
            text: str = self._stream.step(self._core, new) or ""  # one call for all of them
        except Exception:
            # tokenizers raises it bare, at bytes that turn text before them into something else
            self._core = None
            return ""
        self._passed.append(text)
        return text

    def _is_shown(self, token: int) -> bool:
        if token not in self._shows:
            self._shows[token] = self._chat.decode([token]) != ""
        return self._shows[token]

    def finish(self) -> str:
        """The rest of the text. Where a model wrote bytes that are no text, what was passed on stays as it is."""
        rest = self.text[len("".join(self._passed)) :]
        self._passed.append(rest)
        return rest

    @property
    def text(self) -> str:
        """All of it, as every engine decodes a rollout."""
        if self._decoded[0] != len(self.token_ids):
            self._decoded = (len(self.token_ids), self._chat.decode(self.token_ids))
        return self._decoded[1]
