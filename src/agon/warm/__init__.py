"""Warming up: a base without a thinking mode is taught to speak a dialect, from its own right solutions."""
