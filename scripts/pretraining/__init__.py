"""How the embedded base was made: traces, tokenizer, pre-training, and the measure of its quality."""
