"""The tokenizer of the embedded base: digits and characters one by one, fixed phrases whole.

The base reads the same few sentences over and over. Every sentence that the prompts and the traces
repeat is one piece of a unigram vocabulary, so that a plain prompt takes under twenty tokens. Any
other text is split into ASCII characters and, where there is none, bytes, and decodes to what it was.
"""

from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from agon.game import prompts
from scripts.pretraining.traces import CHALLENGE_HABITS, DRAFT_HABITS

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
THINK, END_THINK = "<think>", "</think>"

_FORM = prompts.FORM["block", "math"]
_BEFORE, _AFTER = prompts.CHALLENGE.format(problem=" =", attempt="@", form=_FORM).split("@")

PHRASES = [
    "user\n",
    "assistant\n",
    "system\n",
    "State the final answer to the following arithmetic problem: ",
    f" =\n\n{_FORM}",
    f"{_BEFORE}{prompts.OPEN}\n",
    f"\n{prompts.CLOSE}{_AFTER}",
    prompts.NOTHING_SHOWN,
    "\n\nTens make ",
    "Tens make ",
    ", ones make ",
    ".\n\n<answer>",
    "</answer>",
    ", ones ",
    ", as stated",
    ", not ",
    "\n\n",
    " + ",
    " - ",
    " = ",
    *(f"\n{habit.capitalize()}: tens " for habit in {**DRAFT_HABITS, **CHALLENGE_HABITS}),
]

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}"
    "{{ '<think>\n\n</think>\n\n' }}"
    "{% endif %}"
    "{% endif %}"
)


def build_tokenizer(phrases: Sequence[str] = PHRASES) -> PreTrainedTokenizerFast:
    """The tokenizer, made from the phrases above (or from others); none of it is trained."""
    characters = ["\n", *(chr(code) for code in range(32, 127))]
    # Costs, not frequencies: the segmentation with the fewest pieces wins, and a byte is only
    # used for a character that has no piece, never for text that happens to be "<0x41>".
    pieces = [(phrase, -1.0) for phrase in phrases]
    pieces += [(character, -10.0) for character in characters]
    pieces += [(f"<0x{byte:02X}>", -1000.0) for byte in range(256)]
    tokenizer = Tokenizer(models.Unigram([("<unk>", -2000.0), *pieces], unk_id=0, byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in (PAD, START, END)])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in (THINK, END_THINK)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
        model_max_length=512,
        padding_side="left",
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast
