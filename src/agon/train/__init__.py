"""Training: the configuration, the trainer on TRL's GRPO core, and what it shows and records."""
