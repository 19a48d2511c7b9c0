"""What samples: one protocol, and an engine each for transformers, vLLM in process and vLLM servers."""
