"""What a run will need before it starts: memory, tokens, time, and what this machine has."""
