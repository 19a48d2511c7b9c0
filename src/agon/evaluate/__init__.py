"""Evaluation: a run or a model on a task, every arm with its figures, and runs against each other."""
