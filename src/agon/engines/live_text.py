"""Tokens into text while they arrive: a character is passed on once all its tokens are there."""

from collections.abc import Sequence

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
        self._core = getattr(chat.tokenizer, "backend_tokenizer", None)
        self._stream = DecodeStream(skip_special_tokens=False)
        self._held: list[int] = []  # may be the tokens that end it
        self._passed: list[str] = []
        self.token_ids: list[int] = []

    def feed(self, token_ids: Sequence[int]) -> str:
        """What these tokens add; nothing while a character is incomplete."""
        self.token_ids += token_ids
        if self._core is None:  # a tokenizer in plain Python: all of it in the end
            return ""
        start = len(self._passed)
        for token in token_ids:
            self._held.append(token)
            if token not in self._shows:
                self._shows[token] = self._chat.decode([token]) != ""
            if self._shows[token]:
                self._passed += [self._stream.step(self._core, held) or "" for held in self._held]
                self._held.clear()
        return "".join(self._passed[start:])

    def finish(self) -> str:
        """The rest of the text."""
        passed, whole = "".join(self._passed), self.text
        rest = whole[len(passed) :] if whole.startswith(passed) else ""
        self._passed.append(rest)
        return rest

    @property
    def text(self) -> str:
        """All of it, as every engine decodes a rollout."""
        return self._chat.decode(self.token_ids)
