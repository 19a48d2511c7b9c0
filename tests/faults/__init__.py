"""Faults: a real run, one thing that goes wrong at a seeded moment, and what must hold afterwards."""
