"""Text that models should not write and do: fragments of markup, and chat control tokens."""

from hypothesis import strategies as st

# Qwen, Gemma (3 and 4), Llama (2 and 3), Mistral.
CONTROL_TOKENS = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "<tool_response>",
    "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>", "<|channel>", "<channel|>",
    "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
    "<|python_tag|>", "<s>", "</s>", "<<SYS>>", "<</SYS>>", "<unk>",
    "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]",
    "[THINK]",
]  # fmt: skip
PIECES = [
    "<answer>", "</answer>", "< Answer >", "</ ANSWER\n>", "<answer id=1>", "\\boxed", "\\boxed{", "\\fbox{",
    "{", "}", "\\{", "\\}", "\\", "```", "```python\n", "~~~", "\n", " ", "7", "x", "<", ">", "[INST]", "é",
    "<think>", "</think>", "\\frac{1}{2}",
]  # fmt: skip
messy = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=20).map("".join)
