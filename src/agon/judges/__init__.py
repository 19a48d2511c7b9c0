"""Decides whether an answer is right: judges for math, code and generated problems, run in worker processes."""
